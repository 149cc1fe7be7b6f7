/** This module makes a case smaller for as long as its engines disagree. */
import { OPCODES } from '../../../engine/evm/opcodes.ts'
import type { Hex } from '../../../engine/primitives/bytes.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import type { CaseAccount, CaseStep, FuzzCase } from './case.ts'
import { hexOf } from './operands.ts'

/**
 * Shrinks a case.
 * @param isFailing whether a smaller case still shows the difference
 * @param untilMs the end by the clock of `now`
 */
export async function shrunk(
  first: FuzzCase,
  isFailing: (one: FuzzCase) => Promise<boolean>,
  { now, untilMs }: { readonly now: () => number; readonly untilMs: number },
): Promise<FuzzCase> {
  let best = first
  for (let isSmaller = true; isSmaller && now() < untilMs; ) {
    isSmaller = false
    for (const smaller of candidates(best)) {
      if (now() >= untilMs) break
      if (!(await isFailing(smaller))) continue
      best = smaller
      isSmaller = true
      break
    }
  }
  return best
}

/** Yields smaller cases, with the coarse reductions first. */
function* candidates(one: FuzzCase): Generator<FuzzCase> {
  const { steps, missing, moved, ...rest } = one
  for (const part of pieces(steps)) yield { ...one, steps: part }
  if (missing !== undefined) yield { ...rest, steps, ...(moved === undefined ? {} : { moved }) }
  if (moved !== undefined) yield { ...rest, steps, ...(missing === undefined ? {} : { missing }) }
  for (const [at, step] of steps.entries())
    for (const simpler of simplerSteps(step))
      yield { ...one, steps: [...steps.slice(0, at), simpler, ...steps.slice(at + 1)] }
  for (const address of Object.keys(one.accounts) as Hex[])
    for (const accounts of simplerAccounts(one.accounts, address)) yield { ...one, accounts }
}

/** Yields the list without a stretch: halves first, single entries last. */
function* pieces<T>(list: readonly T[]): Generator<T[]> {
  for (const [from, to] of stretches(list.length)) yield [...list.slice(0, from), ...list.slice(to)]
}

function* stretches(length: number): Generator<[from: number, to: number]> {
  for (let size = length >> 1; size >= 1; size >>= 1)
    for (let at = 0; at < length; at += size) yield [at, Math.min(length, at + size)]
}

/** Reduces the PUSH2 targets behind a gap by the size of the gap. */
function moved(opcodes: readonly (readonly number[])[], end: number, size: number): number[] {
  return opcodes.flatMap((opcode) => {
    const [op, high, low] = opcode
    if (op !== PUSH2 || high === undefined || low === undefined) return opcode
    const target = (high << 8) | low
    return target < end ? opcode : [op, (target - size) >> 8, (target - size) & 0xff]
  })
}
const PUSH2 = 0x61

function* simplerSteps(step: CaseStep): Generator<CaseStep> {
  if (step.do !== 'run') return
  const { trace, message, ...rest } = step
  if (trace !== undefined) yield { ...rest, message }
  if (trace === 'steps') yield { ...step, trace: 'frames' }
  const { input, blobs, baseFee, gasPrice, ...plain } = message
  if (input !== undefined && input !== '0x') {
    yield { ...step, message: { ...message, input: '0x' } }
    if (input.length > 4)
      yield {
        ...step,
        message: { ...message, input: input.slice(0, 2 + ((input.length >> 2) << 1)) as Hex },
      }
  }
  if (blobs !== undefined || baseFee !== undefined || gasPrice !== undefined)
    yield { ...step, message: { ...plain, ...(input === undefined ? {} : { input }) } }
  if (message.value !== undefined && BigInt(message.value) > 0n)
    yield { ...step, message: { ...message, value: '0x0' } }
}

function* simplerAccounts(
  accounts: FuzzCase['accounts'],
  address: Hex,
): Generator<FuzzCase['accounts']> {
  const { [address]: account, ...others } = accounts
  if (account === undefined) return
  yield others
  const { storage, code, ...rest } = account
  const retain = (changed: CaseAccount) => ({ ...accounts, [address]: changed })
  if (storage !== undefined) yield retain({ ...rest, ...(code === undefined ? {} : { code }) })
  if (code === undefined) return
  for (const shorter of simplerCode(code)) yield retain({ ...account, code: shorter })
}

/**
 * Yields the code without stretches of opcodes, then with no-ops instead so that jumps still match,
 * then with smaller operands.
 */
function* simplerCode(code: Hex): Generator<Hex> {
  const opcodes = split(hexToBytes(code))
  for (const [from, to] of stretches(opcodes.length)) {
    const part = [...opcodes.slice(0, from), ...opcodes.slice(to)]
    yield hexOf(
      Uint8Array.from(
        moved(part, opcodes.slice(0, to).flat().length, opcodes.slice(from, to).flat().length),
      ),
    )
    yield hexOf(Uint8Array.from(part.flat()))
  }
  for (const [at, opcode] of opcodes.entries()) {
    const before = opcodes.slice(0, at).flat()
    const after = opcodes.slice(at + 1).flat()
    if (opcode.length > 1 || opcode[0] !== 0x5b)
      yield hexOf(Uint8Array.from([...before, ...opcode.map(() => 0x5b), ...after]))
    if (opcode.length > 1 && opcode.slice(1).some((byte) => byte !== 0))
      yield hexOf(Uint8Array.from([...before, 0x5f, ...after]))
  }
}

/** Splits code into opcodes with their immediate bytes. */
function split(code: Uint8Array): number[][] {
  const found: number[][] = []
  for (let at = 0; at < code.length; ) {
    const op = code[at]!
    const size = OPCODES[op]?.name.startsWith('PUSH') === true ? op - 0x5f + 1 : 1
    found.push([...code.slice(at, at + size)])
    at += size
  }
  return found
}
