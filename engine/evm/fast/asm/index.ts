/**
 * Exports of the module: functions for the host, and addresses that the host reads.
 *
 * - interpreter: the loops and their registers
 * - frames: calls, creations and their ends
 * - state: accounts, slots, code, logs and the journal
 * - memory: the allocator, and opcodes on memory
 * - translation: code to streams of instructions
 * - primitives: 256-bit words and Keccak-256
 * - host: imports, entry points of a session, and traces
 * - precompiles: a module of its own (precompiles/contracts.ts)
 */
export { ANSWER, ASKED, GAS } from './host/imports'
export { ARGUMENTS, MESSAGE } from './host/session'
export {
  accountOf, addBalance, addPrecompile, beginTransaction, checkpoint, clearSlots, codeEntryOf, endTransaction, initialize, inputArea,
  prepare, putCode, putNonce, putSlot, reset, revert, runCall, runCreate, slotOf, transactionStart, warmAddress, warmKey,
} from './host/session'
export {
  A_BALANCE, A_BASE_BALANCE, A_BASE_HASH, A_BASE_NONCE, A_FIRST, A_FLAGS, A_HASH, A_NONCE, A_WORD, HAS_BASE, IS_ALWAYS_WARM, IS_THERE,
} from './state/accounts'
export { C_BYTES, C_LENGTH, newCode } from './state/codes'
export { CREATED } from './frames/creates'
export { COINBASE as ENVIRONMENT } from './host/environment'
export { F_ACCOUNT, F_CODE, F_IP, F_MEMORY, F_SIZE, F_SP, F_STACK, RETURN, returnArea } from './frames/frames'
export {
  E_NUMBER, E_RECORD, E_WORD, ENTRY_BYTES, J_BALANCE, J_CLEARED, J_CODE, J_FLAGS, J_NONCE, J_SLOT, J_WARM, J_WARM_SLOT, JOURNAL, journalEnd,
} from './state/journal'
export { LOGS, logsEnd } from './state/logs'
export { OPCODES } from './interpreter/opcodes'
export { IS_FROM_CLEARED, S_ACCOUNT, S_BASE, S_FLAGS, S_KEY, S_NEXT, S_VALUE } from './state/slots'
export {
  fieldsRead, gas, halt, haltFirst, haltSecond, depth, refund, returnLength, setReturnLength, setRules, unpaid,
} from './interpreter/machine'
export { SHOWS_MEMORY, SHOWS_RETURN_DATA, SHOWS_STACK, TEXTS } from './host/step-text'
export { setText, setWants, stepGas, TOLD } from './host/trace'
export { setStreamRuns } from './translation/translate'
