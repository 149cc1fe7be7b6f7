/** What the host may call and where it finds what it reads. */
export { ANSWER, ASKED, GAS } from './imports'
export { ARGUMENTS, MESSAGE } from './session'
export {
  accountOf, addBalance, addPrecompile, beginTransaction, checkpoint, clearSlots, codeEntryOf, endTransaction, initialize, inputArea,
  prepare, putCode, putNonce, putSlot, reset, revert, runCall, runCreate, slotOf, transactionStart, warmAddress, warmKey,
} from './session'
export {
  A_BALANCE, A_BASE_BALANCE, A_BASE_HASH, A_BASE_NONCE, A_FIRST, A_FLAGS, A_HASH, A_NONCE, A_WORD, HAS_BASE, IS_ALWAYS_WARM, IS_THERE,
} from './accounts'
export { C_BYTES, C_LENGTH, newCode } from './codes'
export { CREATED } from './creates'
export { COINBASE as ENVIRONMENT } from './environment'
export { F_ACCOUNT, F_CODE, F_IP, F_MEMORY, F_SIZE, F_SP, F_STACK, RETURN, returnArea } from './frames'
export {
  E_NUMBER, E_RECORD, E_WORD, ENTRY_BYTES, J_BALANCE, J_CLEARED, J_CODE, J_FLAGS, J_NONCE, J_SLOT, J_WARM, J_WARM_SLOT, JOURNAL, journalEnd,
} from './journal'
export { LOGS, logsEnd } from './logs'
export { OPCODES } from './opcodes'
export { IS_FROM_CLEARED, S_ACCOUNT, S_BASE, S_FLAGS, S_KEY, S_NEXT, S_VALUE } from './slots'
export { fieldsRead, gas, halt, haltFirst, haltSecond, depth, refund, returnLength, setReturnLength, setRules, unpaid } from './machine'
export { SHOWS_MEMORY, SHOWS_RETURN_DATA, SHOWS_STACK, TEXTS } from './step-text'
export { setText, setWants, stepGas, TOLD } from './trace'
export { setStreamRuns } from './translate'
