/** This module runs a case on an engine and records everything observable. */
import type {
  BlockEnv,
  Engine,
  Limits,
  Message,
  Outcome,
  Session,
} from '../../../engine/evm/engine.ts'
import type { Hex } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import {
  describeMissing,
  MissingError,
  type StateReader,
  ViewError,
} from '../../../engine/state/reader.ts'
import { BLOCK } from '../../fixtures/world.ts'
import type { CaseMessage, CaseStep, FuzzCase, Observation, RunStep } from './case.ts'
import { type GasOfRun, gasRecorder } from './gas.ts'
import { accessedText, diffLines, outcomeText, recorder } from './record.ts'
import { RULES } from './rules.ts'
import { bytesOrNone, type CaseReader, readerOf, stateOf, wordOf } from './world.ts'

export const FUZZ_BLOCK: BlockEnv = {
  ...BLOCK,
  coinbase: hexToBytes('0xc0ffee0000000000000000000000000000000001'),
  prevRandao: wordOf(`0x${'9e'.repeat(32)}`),
  blobBaseFee: 3n,
}

/** Missing keys are fetched at most this often in one step. */
const MAX_FETCHES = 400

type Running = {
  readonly session: Session
  readonly reader: CaseReader
  readonly lines: string[]
  readonly checkpoints: number[]
  readonly repeats: number
}

/**
 * Runs a case.
 * @param repeats how often a run is reverted and repeated, so that code becomes warm; a different
 * result adds a line
 * @param state of the case, if it exists already
 * @returns lines, which are equal for engines that agree
 */
export async function observe(
  engine: Engine,
  one: FuzzCase,
  {
    repeats = 0,
    state = stateOf(one),
  }: { readonly repeats?: number; readonly state?: StateReader } = {},
): Promise<Observation> {
  const running: Running = { ...open(engine, one, state), lines: [], checkpoints: [], repeats }
  const { session, reader, lines } = running
  for (const [at, step] of one.steps.entries()) {
    lines.push(`# ${at} ${step.do}`)
    try {
      await fetching(running, () => take(running, step))
    } catch (error) {
      // No engine may throw, and the session is unusable after an error.
      lines.push(`threw ${error}`)
      return lines
    }
  }
  reader.fetchAll()
  lines.push('# at the end', ...diffLines(session.diff(0), true))
  for (const address of Object.keys(one.accounts)) lines.push(readText(session, address as Hex))
  session.close()
  return lines
}

/** Records the gas of a case's runs by their index, up to the first error. */
export async function observeGas(engine: Engine, one: FuzzCase): Promise<Map<number, GasOfRun>> {
  const running: Running = {
    ...open(engine, one, stateOf(one)),
    lines: [],
    checkpoints: [],
    repeats: 0,
  }
  const found = new Map<number, GasOfRun>()
  for (const [at, step] of one.steps.entries()) {
    const recorder = gasRecorder()
    const isRun = step.do === 'run'
    if (isRun && step.bound !== undefined) continue
    if (isRun) running.session.setTrace(recorder)
    try {
      await fetching(running, () => (isRun ? runBare(running, step.message) : take(running, step)))
    } catch {
      return found
    }
    running.session.setTrace(undefined)
    if (isRun) found.set(at, recorder.result(step.message.gas))
  }
  running.session.close()
  return found
}

function open(
  engine: Engine,
  one: FuzzCase,
  state: StateReader,
): Pick<Running, 'session' | 'reader'> {
  const rules = RULES.get(one.rules)
  if (rules === undefined) throw new RangeError(`no rules named ${one.rules}`)
  const reader = readerOf(one, state)
  const moved = Object.entries(one.moved ?? {}).map(([from, to]) => ({
    from: hexToBytes(`0x${Number(from).toString(16).padStart(40, '0')}`),
    to: hexToBytes(to),
  }))
  const session = engine.openSession(reader, FUZZ_BLOCK, {
    ...rules.evm,
    ...(moved.length === 0 ? {} : { moved }),
  })
  return { session, reader }
}

function readText(session: Session, address: Hex): string {
  const at = hexToBytes(address)
  const { nonce, balance, codeHash } = session.account(at)
  return `${address} ${nonce} ${balance} ${bytesToHex(codeHash)} ${session.code(at).length} ${bytesToHex(session.slot(at, wordOf('0x1')))}`
}

/** Repeats the action for as long as keys are missing. */
async function fetching(running: Running, act: () => Promise<void> | void): Promise<void> {
  for (let tries = 0; tries < MAX_FETCHES; tries++)
    try {
      return await act()
    } catch (error) {
      if (!(error instanceof MissingError)) throw error
      for (const key of error.missing) running.reader.fetch(describeMissing(key))
    }
  throw new Error('what is missing was fetched, and is missing still')
}

function take(running: Running, step: CaseStep): Promise<void> | void {
  const { session, checkpoints } = running
  switch (step.do) {
    case 'begin':
      return session.startTransaction()
    case 'end':
      session.endTransaction()
      running.lines.push(...diffLines(session.diff(0), false))
      return
    case 'checkpoint':
      checkpoints.push(session.checkpoint())
      return
    case 'revert': {
      const to = checkpoints.splice(step.to)[0]
      if (to !== undefined) session.revert(to)
      return
    }
    case 'run':
      return takeRun(running, step)
    default:
      change(session, step)
      running.lines.push(existsText(session, step.address))
  }
}

const existsText = (session: Session, address: Hex): string =>
  session.exists(hexToBytes(address)) ? `${address} is there` : `${address} is not there`

type Change = Extract<CaseStep, { readonly address: Hex }>

function change(session: Session, step: Change) {
  const address = hexToBytes(step.address)
  switch (step.do) {
    case 'warm':
      return session.warm(address, step.keys?.map(wordOf))
    case 'balance':
      return session.addBalance(address, BigInt(step.wei))
    case 'nonce':
      return session.setNonce(address, BigInt(step.nonce))
    case 'code':
      return session.setCode(address, bytesOrNone(step.code))
    case 'slot':
      return session.setSlot(address, wordOf(step.key), wordOf(step.value))
    case 'clear':
      return session.clearStorage(address)
  }
}

/**
 * Runs a step plainly first, then again with a trace if the step has one; both results must be
 * equal.
 */
async function takeRun(running: Running, step: RunStep): Promise<void> {
  const { session, lines, repeats } = running
  // The caller's layer always does this too, so an engine may rely on a warm sender.
  session.warm(hexToBytes(step.message.from))
  if (step.message.to !== undefined) session.warm(hexToBytes(step.message.to))
  if (step.bound !== undefined) return takeBounded(running, step)
  const before = session.checkpoint()
  const message = messageOf(step.message)
  const runOnce = async () => {
    const outcome = await outcomeLine(running, message)
    // The warm set of a failed message disappears with its transaction. An engine may have extended
    // that set before the message's frame.
    const warm = outcome.startsWith('success') ? [accessedText(session.accessed())] : []
    return [outcome, ...diffLines(session.diff(before), true), ...warm]
  }
  let plain: string[] | undefined
  const rounds = step.trace === undefined ? repeats : Math.max(1, repeats)
  for (let count = 0; count < rounds; count++) {
    const observed = await runOnce()
    session.revert(before)
    plain ??= observed
    if (observed.join('\n') !== plain.join('\n'))
      lines.push(`run ${count + 1} differs from the first:`, ...observed, 'it was:', ...plain)
  }
  const trace = step.trace === undefined ? undefined : recorder(step.trace)
  if (trace !== undefined) session.setTrace(trace.sink)
  const observed = await runOnce()
  session.setTrace(undefined)
  // The lines are pushed one by one, because hundreds of thousands would be too many arguments.
  for (const line of trace?.lines() ?? []) lines.push(line)
  lines.push(...observed)
  if (plain !== undefined && observed.join('\n') !== plain.join('\n'))
    lines.push('a run before it differs from this one:', ...plain)
}

async function outcomeLine(running: Running, message: Message): Promise<string> {
  const { session, reader } = running
  for (let tries = 0; tries < MAX_FETCHES; tries++) {
    const before = reader.isLacking() ? stateLines(session) : undefined
    const outcome: Outcome = await session.run(message)
    if (outcome.status !== 'missing') return outcomeText(outcome)
    for (const key of outcome.missing) reader.fetch(describeMissing(key))
    const after = stateLines(session)
    if (after !== (before ?? after))
      return `what misses ${outcome.what} left the session changed:\n${after}`
  }
  return 'missing still'
}

const stateLines = (session: Session): string =>
  [...diffLines(session.diff(0), true), accessedText(session.accessed())].join('\n')

async function runBare(running: Running, message: CaseMessage): Promise<void> {
  await outcomeLine(running, messageOf(message))
}

/**
 * Runs with a bound. The engine may stop anywhere or not at all, but the session must be as before.
 */
async function takeBounded(running: Running, { message, bound }: RunStep): Promise<void> {
  const { session, reader, lines } = running
  const before = session.checkpoint()
  const was = stateLines(session)
  const limits: Limits = {
    ...(bound !== undefined && 'fuel' in bound ? { fuel: bound.fuel } : {}),
    ...(bound !== undefined && 'polls' in bound ? { isExpired: countdown(bound.polls) } : {}),
  }
  if (bound !== undefined && 'reads' in bound) reader.failAt(bound.reads)
  let isOver = false
  try {
    const outcome = await session.run(messageOf(message), limits)
    isOver = outcome.status === 'stopped' || outcome.status === 'missing'
  } catch (error) {
    if (!(error instanceof ViewError)) throw error
    isOver = true
  } finally {
    reader.failAt(undefined)
  }
  if (!isOver) session.revert(before)
  const is = stateLines(session)
  lines.push(is === was ? 'as before' : `stopped and changed:\n${is}\nit was:\n${was}`)
}

function countdown(polls: number): () => boolean {
  let left = polls
  return () => --left < 0
}

export function messageOf(message: CaseMessage): Message {
  const { from, to, value, gas, input, gasPrice, baseFee, blobs } = message
  return {
    from: hexToBytes(from),
    to: to === undefined ? undefined : hexToBytes(to),
    value: BigInt(value ?? 0),
    gas: BigInt(gas),
    input: bytesOrNone(input),
    origin: hexToBytes(from),
    gasPrice: BigInt(gasPrice ?? 0),
    ...(baseFee === undefined ? {} : { baseFee: BigInt(baseFee) }),
    blobHashes: Array.from({ length: blobs ?? 0 }, (_, index) =>
      keccak256(Uint8Array.of(index)).fill(1, 0, 1),
    ),
  }
}
