/**
 * Internal pool method that repeats an answered call on the other engine; clients cannot call it.
 */
import type { Engine } from '../../../engine/evm/engine.ts'
import { noSession } from '../../../engine/execution/call/cached-session.ts'
import type { TraceOutput } from '../../../engine/tracers/types.ts'
import type { About } from '../../core/about.ts'
import { isBecause, RpcError, type RpcErrorObject } from '../../core/errors.ts'
import { textResult } from '../../json/results.ts'
import type { PlainCodec } from '../../json/schema.ts'
import {
  type Method,
  type Methods,
  type PoolContext,
  param,
  poolMethod,
} from '../../method/method.ts'

/** Name and queue class of the internal method. */
export const VERIFY_CALL = { name: 'verifyCall', runs: 'call' } as const

/** Result as JSON text, or an error. */
export type CallOutcome = { readonly result: string } | { readonly error: RpcErrorObject }
export type CallWithOutcome = {
  readonly method: string
  readonly params: readonly unknown[]
  readonly answer: CallOutcome
}
export type Verdict =
  | { readonly verdict: 'same' }
  /**
   * The call took too long on the other engine, or met a memory limit that the engines count
   * differently.
   */
  | { readonly verdict: 'unknown' }
  | {
      readonly verdict: 'different'
      readonly engine: string
      readonly answer: CallOutcome
      /** Number and hash of the newest block that is visible in the view. */
      readonly latest: { readonly number: string; readonly hash: string }
      /** State that the call reads, by prestateTracer; absent when the trace failed. */
      readonly prestate?: unknown
    }

/** Calls whose response is one text that depends on the state and the engine alone. */
export const VERIFIED: ReadonlySet<string> = new Set([
  'eth_call',
  'eth_estimateGas',
  'eth_createAccessList',
])
/** Time for the repeated call: some 2 Mgas on the slower engine. */
const MAX_MS = 100
const MAX_PRESTATE_BYTES = 4 * 1024 * 1024

/**
 * Creates the method.
 * @param other creates the other engine on first use
 */
export function verifyMethod(methods: Methods, other: () => Engine): Method {
  return poolMethod({
    ...VERIFY_CALL,
    summary: 'Whether the other engine returns the same result.',
    params: [param('Call', callWithOutcome)],
    result: textResult('Verdict', { type: 'object' }),
    async handler(context, request) {
      return JSON.stringify(await verdictOf(request, methods, onEngine(context, other())))
    },
  })
}

const callWithOutcome: PlainCodec<CallWithOutcome> = {
  // Only the node calls it, so there is no check.
  decode: (wire) => wire as CallWithOutcome,
  encode: (value) => value,
  schema: { type: 'object' },
}

function onEngine(context: PoolContext, engine: Engine): PoolContext {
  const end = context.now() + MAX_MS
  return {
    ...context,
    engine,
    isExpired: () => context.now() >= end || context.isExpired(),
    stateOf(block) {
      const { env, reader } = context.stateOf(block)
      return { env, reader, cached: noSession(reader) }
    },
  }
}

async function verdictOf(
  { method, params, answer: response }: CallWithOutcome,
  methods: Methods,
  context: PoolContext,
): Promise<Verdict> {
  const found = methods.get(method)!
  const repeated = await responseOf(found, params, context)
  if ([response, repeated].some(isBounded)) return { verdict: 'unknown' }
  if (JSON.stringify(repeated) === JSON.stringify(response)) return { verdict: 'same' }
  const { number, hash } = context.view.latest
  const prestate = await prestateOf(params, { about: found.about, methods }, context)
  return {
    verdict: 'different',
    engine: context.engine.name,
    answer: repeated,
    latest: { number: `${number}`, hash: Buffer.from(hash).toString('hex') },
    ...(prestate === undefined ? {} : { prestate }),
  }
}

async function responseOf(
  method: Method,
  params: readonly unknown[],
  context: PoolContext,
): Promise<CallOutcome> {
  try {
    return { result: await method.invoke(context, params) }
  } catch (error) {
    if (error instanceof RpcError) return { error: error.toObject() }
    throw error
  }
}

/** Tells whether a limit that is no rule of the chain ended the call. */
const isBounded = (response: CallOutcome): boolean =>
  'error' in response &&
  (isBecause(response.error, 'timeout') || response.error.message.startsWith('out of memory'))

/** Traces the call's state, so that the call can be repeated after its block is gone. */
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
    limit: MAX_PRESTATE_BYTES,
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
