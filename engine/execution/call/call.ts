/** eth_call: a message on a block's state, of which nothing stays (go-ethereum: internal/ethapi, DoCall). */
import type { ChainSpec, Rules } from '../../chainspec/types.ts'
import { BLOCK_FIELDS } from '../../evm/block-fields.ts'
import type { BlockEnv, Engine, Limits, Missing, Session, SessionRules } from '../../evm/engine.ts'
import { revertReason } from '../../evm/revert-reason.ts'
import { recoverAuthority } from '../../primitives/authorization.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import type { Log } from '../../primitives/receipt.ts'
import type { AccessList, Authorization } from '../../primitives/transaction.ts'
import { ZERO_20 } from '../../primitives/words.ts'
import type { StateReader } from '../../state/reader.ts'
import type { Observer } from '../../tracers/types.ts'
import { AUTHORIZATION_GAS } from '../transaction/intrinsic-gas.ts'
import { andFinally, andThen, type Maybe } from '../transaction/maybe.ts'
import type { KeptSession } from './kept-session.ts'
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

/** As on the wire, decoded; a nonce is not looked at. */
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
  /** The block called on. */
  readonly env: BlockEnv
  readonly reader: StateReader
  readonly request: CallRequest
  /** More is clamped to it; what is taken when none is asked for. */
  readonly gasCap: bigint
  /** One deadline for all runs of an estimate. */
  readonly limits: Limits
  readonly stateOverrides?: readonly AccountOverride[]
  readonly blockOverrides?: BlockOverrides
  readonly tracer?: Observer
  /** Of `reader` in `env` under the chain's rules: what a call that overrides and traces nothing runs in, so that others profit. */
  readonly kept?: KeptSession
  /** Hears what the call has read of the block, or may have, as bits (evm/block-fields.ts): where it has a session of its own. */
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

/** At once with an engine that answers at once. @throws {ViewError} {MissingError} */
export function call(options: CallOptions): Maybe<CallResult> {
  return onCallSession(options, (opened): Maybe<CallResult> => {
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
  /** Its gas is still to be set. */
  readonly message: SimulatedMessage
  /** Where the session's block has another one than `env`. */
  readonly baseFee?: bigint
}

/** Runs with a session in which the overrides are written, and ends it. @throws {ViewError} {MissingError} */
export function onCallSession<Result extends { readonly status: string }>(
  options: CallOptions,
  run: (opened: OpenedCall) => Maybe<Result>,
): Maybe<Result | Refused> {
  const prepared = prepareCall(options)
  if ('refusal' in prepared) return refused(prepared.refusal)
  const { reader, env, rules, sessionRules, message } = prepared
  const { kept } = options
  const session = canKeep(options, env) ? kept?.take() : undefined
  if (kept !== undefined && session !== undefined) {
    let isWhole = false
    return andFinally(
      () =>
        // The session's own block has its own base fee.
        andThen(run({ session, env, rules, message, baseFee: env.baseFee }), (result) => {
          isWhole = result.status !== 'stopped' && result.status !== 'missing'
          return result
        }),
      () => kept.give(isWhole),
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

/** What is read of the block outside of a run: its base fee where somebody pays; others hardly ever change. */
const fieldsOf = ({ feeCap, tipCap }: SimulatedMessage): number =>
  ALWAYS_READ | (feeCap > 0n || tipCap > 0n ? BLOCK_FIELDS.baseFee : 0)
const { coinbase, gasLimit, blobBaseFee, difficulty, rules: ofFork } = BLOCK_FIELDS
const ALWAYS_READ = coinbase | gasLimit | blobBaseFee | difficulty | ofFork

/** Whether a call sees the state as the kept session does, and the block but for its base fee. */
function canKeep(options: CallOptions, env: BlockEnv): boolean {
  return (
    options.kept?.reader === options.reader &&
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

/** What a request is about, and on what it runs. */
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
    // Who pays nothing sees a base fee of nothing.
    baseFee: message.gasPrice === 0n ? 0n : block.baseFee,
    blobBaseFee: hasFreeBlobs(request) ? 0n : block.blobBaseFee,
  }
  const reader = overrideHashes(options.reader, blockOverrides?.blockHash)
  const sessionRules =
    overridden.moved.length === 0 ? rules.evm : { ...rules.evm, moved: overridden.moved }
  return { reader, env, rules, sessionRules, message }
}

/** A blob fee of nothing is the default of a message with blobs. */
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

/** Signatures are recovered of no more than the gas pays for: a message with more is refused before it runs. */
export const payableAuthorizations = (
  list: readonly Authorization[] = [],
  gas: bigint,
): readonly Authorization[] => list.slice(0, Number(gas / BigInt(AUTHORIZATION_GAS)))
