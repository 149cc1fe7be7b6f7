/** Compiles the module, and declares its exports. */
import { readFileSync } from 'node:fs'
import type { Bytes } from '../../primitives/bytes.ts'

/**
 * Compiles the module, which takes some milliseconds. A process does it once and shares the module
 * with its threads.
 */
export const compileModule = (): WebAssembly.Module =>
  new WebAssembly.Module(readFileSync(new URL('fast.wasm', import.meta.url)) as Bytes)

/** Names of exported numbers: addresses, record fields and kinds. */
const NUMBERS = [
  ...[
    'ANSWER',
    'ARGUMENTS',
    'ASKED',
    'CREATED',
    'ENVIRONMENT',
    'GAS',
    'JOURNAL',
    'LOGS',
    'MESSAGE',
  ],
  ...['OPCODES', 'RETURN', 'SHOWS_MEMORY', 'SHOWS_RETURN_DATA', 'SHOWS_STACK', 'TEXTS', 'TOLD'],
  ...['A_BALANCE', 'A_BASE_BALANCE', 'A_BASE_HASH', 'A_BASE_NONCE', 'A_FIRST', 'A_FLAGS', 'A_HASH'],
  ...['A_NONCE', 'A_WORD', 'HAS_BASE', 'IS_ALWAYS_WARM', 'IS_THERE', 'C_BYTES', 'C_LENGTH'],
  ...['F_ACCOUNT', 'F_CODE', 'F_IP', 'F_MEMORY', 'F_SIZE', 'F_SP', 'F_STACK'],
  ...[
    'E_NUMBER',
    'E_RECORD',
    'E_WORD',
    'ENTRY_BYTES',
    'J_BALANCE',
    'J_CLEARED',
    'J_CODE',
    'J_FLAGS',
  ],
  ...['J_NONCE', 'J_SLOT', 'J_WARM', 'J_WARM_SLOT'],
  ...['IS_FROM_CLEARED', 'S_ACCOUNT', 'S_BASE', 'S_FLAGS', 'S_KEY', 'S_NEXT', 'S_VALUE'],
] as const
export type Layout = Readonly<Record<(typeof NUMBERS)[number], number>>

type Register<T> = { value: T }
/** Pointers and sizes are 32-bit numbers. */
export type Exports = {
  readonly memory: WebAssembly.Memory
  initialize(): void
  reset(): void
  setRules(hasDelegations: number, hasLeadingZeros: number): void
  setStreamRuns(runs: number): void
  setWants(steps: number, touches: number): void
  setText(fields: number, hasStorage: number): void
  addPrecompile(number: number, isAlwaysWarm: number): void
  accountOf(): number
  codeEntryOf(record: number): number
  slotOf(): number
  addBalance(): void
  putNonce(): void
  putCode(length: number): void
  putSlot(): void
  clearSlots(): void
  warmAddress(): void
  warmKey(): void
  beginTransaction(): void
  endTransaction(): void
  checkpoint(): number
  revert(position: number): void
  inputArea(bytes: number): number
  newCode(length: number): number
  returnArea(length: number): number
  setReturnLength(length: number): void
  prepare(fuel: number, frameBytes: number, allBytes: number, linearBytes: number): void
  runCall(length: number, isTraced: number): number
  runCreate(length: number, isTraced: number): number
  readonly gas: Register<bigint>
  readonly stepGas: Register<bigint>
  readonly unpaid: Register<bigint>
  readonly refund: Register<bigint>
  readonly halt: Register<number>
  readonly haltFirst: Register<number>
  readonly haltSecond: Register<number>
  readonly depth: Register<number>
  readonly returnLength: Register<number>
  readonly logsEnd: Register<number>
  readonly transactionStart: Register<number>
  readonly fieldsRead: Register<number>
}

export function layoutOf(exports: Readonly<Record<string, unknown>>): Layout {
  const numbers = NUMBERS.map((name) => [name, (exports[name] as Register<number>).value])
  return Object.fromEntries(numbers) as Layout
}
