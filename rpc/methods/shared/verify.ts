/** A call that was answered, run again on the other engine: the node asks itself, no client can. */
import type { Engine } from '../../../engine/evm/engine.ts'
import { noSession } from '../../../engine/execution/call/kept-session.ts'
import type { TraceOutput } from '../../../engine/tracers/types.ts'
import { textResult } from '../../json/results.ts'
import type { PlainCodec } from '../../json/schema.ts'
import {
  type Method,
  type Methods,
  type PoolContext,
  param,
  poolMethod,
} from '../../method/method.ts'
import type { About } from '../../seam/about.ts'
import { isBecause, RpcError, type RpcErrorObject } from '../../seam/errors.ts'

/** Of the node's own, in the pool. */
export const VERIFY_CALL = { name: 'verifyCall', runs: 'call' } as const

/** JSON text of a result, or an error. */
export type Answer = { readonly result: string } | { readonly error: RpcErrorObject }
export type AnsweredCall = {
  readonly method: string
  readonly params: readonly unknown[]
  readonly answer: Answer
}
export type Verdict =
  | { readonly verdict: 'same' }
  /** It took too long there, or needed memory that the engines bound differently. */
  | { readonly verdict: 'unknown' }
  | {
      readonly verdict: 'different'
      readonly engine: string
      readonly answer: Answer
      /** Height and hash of the newest block that the view shows. */
      readonly latest: { readonly number: string; readonly hash: string }
      /** What the call reads of the state, as prestateTracer shows it; absent where it could not be traced. */
      readonly prestate?: unknown
    }

/** Calls whose answer is one text that the state and the engine decide. */
export const VERIFIED: ReadonlySet<string> = new Set([
  'eth_call',
  'eth_estimateGas',
  'eth_createAccessList',
])
/** What a call may take there: some 2 Mgas on the slower engine. */
const MOST_MS = 100
const MOST_PRESTATE_BYTES = 4 * 1024 * 1024

/** @param other made when it is first needed */
export function verifyMethod(methods: Methods, other: () => Engine): Method {
  return poolMethod({
    ...VERIFY_CALL,
    summary: 'Whether the other engine gives the same answer.',
    params: [param('Call', answeredCall)],
    result: textResult('Verdict', { type: 'object' }),
    async handler(context, asked) {
      return JSON.stringify(await verdictOf(asked, methods, onEngine(context, other())))
    },
  })
}

const answeredCall: PlainCodec<AnsweredCall> = {
  // The node's own.
  decode: (wire) => wire as AnsweredCall,
  encode: (value) => value,
  schema: { type: 'object' },
}

function onEngine(context: PoolContext, engine: Engine): PoolContext {
  const end = context.now() + MOST_MS
  return {
    ...context,
    engine,
    isExpired: () => context.now() >= end || context.isExpired(),
    stateOf(block) {
      const { env, reader } = context.stateOf(block)
      return { env, reader, kept: noSession(reader) }
    },
  }
}

async function verdictOf(
  { method, params, answer }: AnsweredCall,
  methods: Methods,
  context: PoolContext,
): Promise<Verdict> {
  const found = methods.get(method)!
  const again = await answerOf(found, params, context)
  if ([answer, again].some(isBounded)) return { verdict: 'unknown' }
  if (JSON.stringify(again) === JSON.stringify(answer)) return { verdict: 'same' }
  const { number, hash } = context.view.latest
  const prestate = await prestateOf(params, { about: found.about, methods }, context)
  return {
    ...{ verdict: 'different', engine: context.engine.name, answer: again },
    latest: { number: `${number}`, hash: Buffer.from(hash).toString('hex') },
    ...(prestate === undefined ? {} : { prestate }),
  }
}

async function answerOf(
  method: Method,
  params: readonly unknown[],
  context: PoolContext,
): Promise<Answer> {
  try {
    return { result: await method.invoke(context, params) }
  } catch (error) {
    if (error instanceof RpcError) return { error: error.toObject() }
    throw error
  }
}

/** By a bound that is no rule of the chain. */
const isBounded = (answer: Answer): boolean =>
  'error' in answer &&
  (isBecause(answer.error, 'timeout') || answer.error.message.startsWith('out of memory'))

/** So that the call can be run again where its block is gone. */
async function prestateOf(
  [request, at, stateOverrides, blockOverrides]: readonly unknown[],
  { about, methods }: { readonly about: About | undefined; readonly methods: Methods },
  context: PoolContext,
): Promise<unknown> {
  const output = collected()
  const config = { tracer: 'prestateTracer', stateOverrides, blockOverrides }
  const traced: PoolContext = { ...context, output }
  try {
    const wire = [request, at ?? about?.whenLeftOut ?? 'latest', JSON.parse(JSON.stringify(config))]
    const text = await methods.get('debug_traceCall')!.invoke(traced, wire)
    return JSON.parse(text === '' ? output.text() : text)
  } catch {
    return undefined
  }
}

function collected(): TraceOutput & { text(): string } {
  let all = Buffer.alloc(0)
  return {
    limit: MOST_PRESTATE_BYTES,
    isFull: false,
    get length() {
      return all.length
    },
    write(text) {
      all = Buffer.concat([all, Buffer.from(text)])
    },
    writeBytes(text) {
      all = Buffer.concat([all, text])
    },
    cutTo(length) {
      all = all.subarray(0, length)
    },
    text: () => all.toString(),
  }
}
