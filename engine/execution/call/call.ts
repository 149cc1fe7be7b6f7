/**
 * eth_call: runs a message on a block's state and discards its changes (go-ethereum:
 * internal/ethapi, DoCall).
 */
import type { ChainSpec, Rules } from '../../chainspec/types.ts'
import { BLOCK_FIELDS } from '../../evm/block-fields.ts'
import type { BlockEnv, Engine, Limits, Missing, Session, SessionRules } from '../../evm/engine.ts'
import { revertReason } from '../../evm/revert-reason.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import type { Log } from '../../primitives/receipt.ts'
import { recoverAuthority } from '../../primitives/signature.ts'
import type { AccessList, Authorization } from '../../primitives/transaction.ts'
import { ZERO_20 } from '../../primitives/words.ts'
import type { StateReader } from '../../state/reader.ts'
import type { Observer } from '../../tracers/types.ts'
import { AUTHORIZATION_GAS } from '../transaction/intrinsic-gas.ts'
import { andFinally, andThen, type MaybePromise } from '../transaction/maybe-promise.ts'
import type { CachedSession } from './cached-session.ts'
import type { SimulatedMessage } from './message.ts'
import {
  type AccountOverride,
  applyOverrides,
  type BlockOverrides,
  movedPrecompiles,
  overrideBlock,
  overrideHashes,
} from './overrides.ts'
import { type Simulated, type SimulationContext, simulate } from './simulated-message.ts'

/** The decoded request; a nonce is ignored. */
export type CallRequest = {
  readonly from?: Bytes
  readonly to?: Bytes
  readonly gas?: bigint
  readonly gasPrice?: bigint
  readonly maxFeePerGas?: bigint
  readonly maxPriorityFeePerGas?: bigint
  readonly maxFeePerBlobGas?: bigint
  readonly value?: bigint
  readonly input?: Bytes
  readonly accessList?: AccessList
  readonly authorizationList?: readonly Authorization[]
  readonly blobVersionedHashes?: readonly Bytes[]
  readonly chainId?: bigint
}
export type CallOptions = {
  readonly engine: Engine
  readonly chain: ChainSpec
  /** The block of the call. */
  readonly env: BlockEnv
  readonly reader: StateReader
  readonly request: CallRequest
  /** Maximum gas, and the default if the request names none. */
  readonly gasCap: bigint
  /** The deadline covers all runs of an estimate. */
  readonly limits: Limits
  readonly stateOverrides?: readonly AccountOverride[]
  readonly blockOverrides?: BlockOverrides
  readonly tracer?: Observer
  /**
   * Shared session of `reader` in `env` under the chain's rules, for calls without overrides and
   * tracer.
   */
  readonly cached?: CachedSession
  /**
   * Receives the block fields that the call has or may have read, as bits (evm/block-fields.ts).
   * Called only if the call has its own session.
   */
  readonly onFields?: ((fields: number) => void) | undefined
}

export type CallFailure =
  | { readonly status: 'revert'; readonly output: Bytes; readonly reason: string | undefined }
  | { readonly status: 'refused'; readonly message: string }
  | { readonly status: 'stopped'; readonly why: 'fuel' | 'deadline' | 'memory' }
  | Missing
export type CallResult =
  | {
      readonly status: 'success'
      readonly output: Bytes
      readonly gasUsed: bigint
      readonly logs: readonly Log[]
    }
  | CallFailure

/**
 * Runs a call; synchronous if the engine is.
 * @throws {ViewError} {MissingError}
 */
export function call(options: CallOptions): MaybePromise<CallResult> {
  return onCallSession(options, (opened): MaybePromise<CallResult> => {
    const gas = gasOf(options)
    const message = { ...opened.message, gas }
    const { limits, tracer } = options
    const traced = tracer === undefined ? {} : startTrace(tracer, message, opened)
    return andThen(simulate(message, { ...opened, limits, ...traced }), (simulated) =>
      simulated.status === 'refused'
        ? refused(`err: ${simulated.message} (supplied gas ${gas})`)
        : resultOf(simulated),
    )
  })
}

function startTrace(
  tracer: Observer,
  message: SimulatedMessage,
  { session, env, rules }: OpenedCall,
): Pick<SimulationContext, 'onEnd'> {
  const { from, to, value, input, gas, authorizations } = message
  const authorities = payableAuthorizations(authorizations, gas)
    .map(recoverAuthority)
    .filter((found) => found !== undefined)
  const about = { from, to, value, input, gasLimit: gas, authorities }
  tracer.start?.({ ...about, state: session, rules, coinbase: env.coinbase })
  session.setTrace(tracer.sink)
  return {
    onEnd(_session, simulated) {
      if (simulated.status === 'ran') tracer.end?.(simulated.gasUsed)
    },
  }
}

export type OpenedCall = {
  readonly session: Session
  readonly env: BlockEnv
  readonly rules: Rules
  /** The message, whose gas the caller still sets. */
  readonly message: SimulatedMessage
  /** Set if the session's block has another base fee than `env`. */
  readonly baseFee?: bigint
}

/**
 * Calls `run` with a session that has the overrides applied, and closes the session afterwards.
 * @throws {ViewError} {MissingError}
 */
export function onCallSession<Result extends { readonly status: string }>(
  options: CallOptions,
  run: (opened: OpenedCall) => MaybePromise<Result>,
): MaybePromise<Result | Refused> {
  const prepared = prepareCall(options)
  if ('refusal' in prepared) return refused(prepared.refusal)
  const { reader, env, rules, sessionRules, message } = prepared
  const { cached } = options
  const session = canUseCached(options, env) ? cached?.take() : undefined
  if (cached !== undefined && session !== undefined) {
    let isIntact = false
    return andFinally(
      () =>
        // The session's block has its own base fee.
        andThen(run({ session, env, rules, message, baseFee: env.baseFee }), (result) => {
          isIntact = result.status !== 'stopped' && result.status !== 'missing'
          return result
        }),
      () => cached.give(isIntact),
    )
  }
  const own = options.engine.openSession(reader, env, sessionRules)
  return andFinally(
    () => {
      applyOverrides(own, options.stateOverrides ?? [])
      return andThen(run({ session: own, env, rules, message }), (result) => {
        options.onFields?.(own.fieldsRead() | fieldsOf(message))
        return result
      })
    },
    () => own.close(),
  )
}

/**
 * Block fields read outside of a run. The base fee counts only if the sender pays; fields that
 * rarely change always count.
 */
const fieldsOf = ({ feeCap, tipCap }: SimulatedMessage): number =>
  ALWAYS_READ | (feeCap > 0n || tipCap > 0n ? BLOCK_FIELDS.baseFee : 0)
const { coinbase, gasLimit, blobBaseFee, difficulty, rules: ofFork } = BLOCK_FIELDS
const ALWAYS_READ = coinbase | gasLimit | blobBaseFee | difficulty | ofFork

/** Checks that a call has the cached session's state and block, except for the base fee. */
function canUseCached(options: CallOptions, env: BlockEnv): boolean {
  return (
    options.cached?.reader === options.reader &&
    options.tracer === undefined &&
    options.blockOverrides === undefined &&
    (options.stateOverrides ?? []).length === 0 &&
    env.blobBaseFee === options.env.blobBaseFee
  )
}

type PreparedCall = Omit<OpenedCall, 'session'> & {
  readonly reader: StateReader
  readonly sessionRules: SessionRules
}

/** Derives message, block, rules and reader from a request. */
function prepareCall(options: CallOptions): PreparedCall | { readonly refusal: string } {
  const { engine, chain, request, stateOverrides = [], blockOverrides } = options
  const block = overrideBlock(options.env, blockOverrides)
  const rules = chain.rulesAt(block.number, block.timestamp)
  const message = messageOf(request, block, chain)
  if (typeof message === 'string') return { refusal: message }
  const overridden = movedPrecompiles(stateOverrides, () => engine.precompiles(rules.evm))
  if ('refusal' in overridden) return overridden
  const env = {
    ...block,
    // A sender who pays nothing sees a base fee of 0.
    baseFee: message.gasPrice === 0n ? 0n : block.baseFee,
    blobBaseFee: hasFreeBlobs(request) ? 0n : block.blobBaseFee,
  }
  const reader = overrideHashes(options.reader, blockOverrides?.blockHash)
  const sessionRules =
    overridden.moved.length === 0 ? rules.evm : { ...rules.evm, moved: overridden.moved }
  return { reader, env, rules, sessionRules, message }
}

/** True if a message with blobs pays nothing for them, which is the default. */
const hasFreeBlobs = ({ maxFeePerBlobGas, blobVersionedHashes }: CallRequest): boolean =>
  maxFeePerBlobGas === 0n || (maxFeePerBlobGas === undefined && blobVersionedHashes !== undefined)

type Refused = CallFailure & { readonly status: 'refused' }
export const refused = (message: string): Refused => ({ status: 'refused', message })

export function resultOf(simulated: Exclude<Simulated, { status: 'refused' }>): CallResult {
  if (simulated.status !== 'ran') return simulated
  const { outcome, gasUsed, logs } = simulated
  switch (outcome.status) {
    case 'success':
      return { status: 'success', output: outcome.output, gasUsed, logs }
    case 'revert':
      return { status: 'revert', output: outcome.output, reason: revertReason(outcome.output) }
    case 'halt':
      return refused(outcome.reason)
  }
}

export function messageOf(
  request: CallRequest,
  env: BlockEnv,
  chain: Pick<ChainSpec, 'chainId'>,
): SimulatedMessage | string {
  const { gasPrice, maxFeePerGas, maxPriorityFeePerGas, chainId } = request
  if (gasPrice !== undefined && (maxFeePerGas !== undefined || maxPriorityFeePerGas !== undefined))
    return 'both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified'
  if (chainId !== undefined && chainId !== chain.chainId)
    return `chainId does not match node's (have=${chainId}, want=${chain.chainId})`
  const feeCap = gasPrice ?? maxFeePerGas ?? 0n
  const tipCap = gasPrice ?? maxPriorityFeePerGas ?? 0n
  const highest = tipCap + env.baseFee
  return {
    from: request.from ?? ZERO_20,
    to: request.to,
    value: request.value ?? 0n,
    input: request.input ?? NO_BYTES,
    gas: 0n,
    feeCap,
    tipCap,
    gasPrice: gasPrice ?? (highest < feeCap ? highest : feeCap),
    accessList: request.accessList ?? [],
    authorizations: request.authorizationList,
    blobHashes: request.blobVersionedHashes,
    blobFeeCap: request.maxFeePerBlobGas ?? 0n,
  }
}

/**
 * Gas of a call: the requested amount or the cap, whichever is less. The sender's balance does not
 * lower it, because go-ethereum refuses a sender who cannot pay.
 */
export const gasOf = ({ request: { gas }, gasCap }: CallOptions): bigint =>
  gas !== undefined && gas < gasCap ? gas : gasCap

/**
 * Limits signature recovery to authorizations that the gas covers. A message with more is refused
 * before it runs.
 */
export const payableAuthorizations = (
  list: readonly Authorization[] = [],
  gas: bigint,
): readonly Authorization[] => list.slice(0, Number(gas / BigInt(AUTHORIZATION_GAS)))
