/** Errors that callers see. Codes are written and compared only in this file. */
import type { FlashblockId } from '../../engine/chain/types.ts'
import type { SimulatedCallResult } from '../../engine/execution/call/simulate.ts'
import type { SimulationError } from '../../engine/execution/call/simulate-chain.ts'
import { type InvalidTransaction, refusal } from '../../engine/execution/transaction/invalid.ts'
import {
  describeMissing,
  type FlashblockUnavailableError,
  type MissingKey,
  type RetainedFlashblockId,
} from '../../engine/state/reader.ts'

/** Codes of JSON-RPC 2.0, EIP-1474 and go-ethereum. */
export const CODES = {
  reverted: 3,
  /** eth_sendRawTransactionSync: accepted, but not seen in a block in time. */
  unconfirmed: 4,
  /** Wrong input, or a subject that does not exist: go-ethereum's code for most refusals. */
  input: -32000,
  pruned: -32001,
  /** A flashblock that is no longer retained, or that a view does not reach. */
  flashblock: -32001,
  timeout: -32002,
  rejected: -32003,
  'too large': -32003,
  limited: -32005,
  request: -32600,
  method: -32601,
  parameters: -32602,
  internal: -32603,
  json: -32700,
} as const
export type Reason = keyof typeof CODES

/**
 * Codes of eth_simulateV1 in execution-apis. Other failures have the code that eth_call returns.
 */
const SIMULATION_CODES: Readonly<Record<SimulationError['why'] | SimulatedError['why'], number>> = {
  reverted: CODES.reverted,
  halted: -32015,
  input: CODES.input,
  fees: CODES.input,
  lists: CODES.input,
  'nonce max': CODES.internal,
  'nonce low': -38010,
  'nonce high': -38011,
  'base fee': -38012,
  gas: -38013,
  funds: -38014,
  'block gas': -38015,
  'block numbers': -38020,
  'block times': -38021,
  'init code': -38025,
  'too many': -38026,
}
type SimulatedError = NonNullable<SimulatedCallResult['error']>

/** Every code that this node produces itself. */
export const OWN_CODES: ReadonlySet<number> = new Set([
  ...Object.values(CODES),
  ...Object.values(SIMULATION_CODES),
])

/** JSON-RPC error object: the only error shape that crosses a thread or a socket. */
export type RpcErrorObject = {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/** Failure that the caller sees. All other errors are bugs and become an internal error. */
export class RpcError extends Error {
  override name = 'RpcError'
  readonly code: number
  readonly data: unknown

  /** @param why a reason, or the numeric code from a worker or another node */
  constructor(why: Reason | number, message: string, data?: unknown) {
    super(message)
    this.code = typeof why === 'number' ? why : CODES[why]
    this.data = data
  }

  toObject(): RpcErrorObject {
    return this.data === undefined
      ? { code: this.code, message: this.message }
      : { code: this.code, message: this.message, data: this.data }
  }
}

/** Tells whether an error has the code of one of these reasons. */
export const isBecause = ({ code }: RpcErrorObject, ...reasons: readonly Reason[]): boolean =>
  reasons.some((reason) => CODES[reason] === code)

/** Converts an error object from a worker or another node. */
export const errorOf = ({ code, message, data }: RpcErrorObject): RpcError =>
  new RpcError(code, message, data)

const NAME_CHARACTERS = 64
/** Shortens a caller's text for a response or a log line. */
const format = (text: string): string =>
  text.length <= NAME_CHARACTERS ? text : text.slice(0, NAME_CHARACTERS)

// Errors of the envelope.
export const parseError = (why?: string): RpcError =>
  new RpcError('json', why === undefined ? 'parse error' : `parse error: ${why}`)
export const invalidRequest = (): RpcError => new RpcError('request', 'invalid request')
export const emptyBatch = (): RpcError => new RpcError('request', 'empty batch')
export const batchTooLarge = (items: number, limit: number): RpcError =>
  new RpcError('request', 'batch too large', { items, limit })
export const methodNotFound = (name: string): RpcError =>
  new RpcError('method', `the method ${format(name)} does not exist/is not available`)
const CONTROL = /^(dev|evm|anvil|hardhat)_/
/** Tells whether only development chains serve a method of this name. */
export const isControl = (name: string): boolean => CONTROL.test(name)
export const controlElsewhere = (name: string): RpcError =>
  new RpcError(
    'method',
    `the method ${format(name)} is not available: only flashnode dev has dev_, evm_, anvil_ and hardhat_ methods`,
  )
export const unacceptable = (message: string): RpcError => new RpcError('request', message)
export const notificationsUnsupported = (): RpcError =>
  new RpcError('method', 'notifications not supported')

// Errors of parameters.
export const invalidParams = (message: string): RpcError => new RpcError('parameters', message)
export const missingValue = (index: number): RpcError =>
  invalidParams(`missing value for required argument ${index}`)
export const tooManyArguments = (max: number): RpcError =>
  invalidParams(`too many arguments, want at most ${max}`)
export const invalidArgument = (index: number, problem: string): RpcError =>
  invalidParams(`invalid argument ${index}: ${problem}`)
/**
 * Reports a bad parameter of a method that go-ethereum does not have.
 * @param path starts with a dot
 */
export const invalidParameter = (index: number, problem: string, path = ''): RpcError =>
  invalidParams(`params[${index}]${path}: ${problem}`)
export const unknownSubscription = (kind: string): RpcError =>
  invalidParams(`no ${JSON.stringify(format(kind))} subscription in eth namespace`)
export const notOnThisEndpoint = (what: string): RpcError =>
  invalidParams(`${what} is available only on the flashblocks endpoint, /flashblocks`)

// Errors about subjects that do not exist.
export const headerNotFound = (): RpcError => new RpcError('input', 'header not found')
export const headerForHashNotFound = (): RpcError =>
  new RpcError('input', 'header for hash not found')
export const flashblockNotFound = ({ number, index }: FlashblockId): RpcError =>
  new RpcError(
    'input',
    `header not found: this node does not have flashblock ${index} of block ${number}`,
  )
export const unknownBlock = (): RpcError => new RpcError('input', 'unknown block')
export const filterNotFound = (): RpcError => new RpcError('input', 'filter not found')
export const subscriptionNotFound = (): RpcError => new RpcError('input', 'subscription not found')
export const unknownAccount = (): RpcError => new RpcError('input', 'unknown account')
/**
 * Reports a block whose history is pruned.
 * @param why names the requested block
 * @param range `oldest` is the first block with state, if known
 */
export const historyPruned = (
  why: string,
  range: { readonly oldest: bigint | undefined; readonly newest: bigint },
): RpcError => {
  const { oldest, newest } = range
  const from = oldest === undefined ? '' : `; the oldest available block is ${oldest}`
  return new RpcError('pruned', `history not available: ${why}${from}`, {
    ...(oldest === undefined ? {} : { oldest: `0x${oldest.toString(16)}` }),
    newest: `0x${newest.toString(16)}`,
  })
}
type FlashblockData = Pick<RetainedFlashblockId, 'number' | 'index'> & {
  readonly payloadId?: string | undefined
}
const flashblockData = ({ number, index, payloadId }: FlashblockData) => ({
  number: `0x${number.toString(16)}`,
  index: `0x${index.toString(16)}`,
  ...(payloadId === undefined ? {} : { payloadId }),
})
/**
 * Reports an unavailable flashblock. `data` has the ids of the oldest and newest retained
 * flashblocks.
 */
export function flashblockGone({ message, why, retained }: FlashblockUnavailableError): RpcError {
  const from =
    retained === undefined
      ? 'no flashblock is retained'
      : `the oldest retained is ${retained.oldest.index} of block ${retained.oldest.number}`
  return new RpcError('flashblock', `${message}; ${from}`, {
    reason: why,
    ...(retained && {
      oldest: flashblockData(retained.oldest),
      newest: flashblockData(retained.newest),
    }),
  })
}
/**
 * Reports a view that is older than the request requires.
 * @param current id of the newest flashblock in the view
 */
export const flashblockNotReached = (
  { number, index, payloadId }: FlashblockId,
  current: FlashblockData,
  why: 'behind' | 'replaced',
): RpcError =>
  new RpcError(
    'flashblock',
    why === 'behind'
      ? `flashblock ${index} of block ${number} is not available yet: the newest is ${current.index} of block ${current.number}`
      : `flashblock ${index} of block ${number} is of payload ${payloadId}, which another payload has replaced`,
    { reason: why, newest: flashblockData(current) },
  )

// Errors of execution.
export const executionReverted = (data: string, reason: string | undefined): RpcError =>
  new RpcError(
    'reverted',
    reason === undefined ? 'execution reverted' : `execution reverted: ${reason}`,
    data,
  )
export const failed = (message: string): RpcError => new RpcError('input', message)
export const invalidTransaction = ({ why, message }: InvalidTransaction): RpcError =>
  new RpcError(why, message)
export const simulationFailed = ({ why, message }: Pick<SimulationError, 'why' | 'message'>) =>
  new RpcError(SIMULATION_CODES[why], message)
/** Returns the code of a failed call inside a response of eth_simulateV1. */
export const simulatedCode = ({ why }: SimulatedError): number => SIMULATION_CODES[why]
/** eth_sendRawTransactionSync: accepted, but not seen in a block in time. */
export const syncTimeout = (hash: string, waitedMs: number): RpcError =>
  new RpcError(
    'unconfirmed',
    `Transaction ${hash} was added to the mempool but wasn't confirmed within ${waitedMs}ms.`,
    hash,
  )
/** eth_sendRawTransactionSync: accepted, and dropped later. */
export const transactionDropped = (hash: string, reason: string): RpcError => {
  const { why, message } = refusal.dropped(reason)
  return new RpcError(why, message, hash)
}

// Errors of limits.
export type Refusal = {
  /** Bucket that the points belong to (default: the address). */
  readonly bucket?: 'key'
  /** Points per second. */
  readonly limit: number
  /** Points already used in this second, without this request. */
  readonly used: number
  readonly cost: number
  readonly retryAfterMs: number
}
export const rateLimited = (refusal: Refusal): RpcError => {
  const { bucket = 'address', limit, used, cost, retryAfterMs } = refusal
  const remaining = Math.max(0, limit - used)
  return new RpcError('limited', 'request rate limit exceeded', {
    reason: 'rate',
    bucket,
    limit,
    used,
    cost,
    retryAfterMs,
    remaining,
  })
}
/** A queue or a concurrency limit is full. Clients retry after `retryAfterMs`. */
export const overloaded = (what: string, retryAfterMs: number): RpcError =>
  new RpcError('limited', `server busy: ${what}`, { reason: 'overloaded', retryAfterMs })
export const concurrencyLimitReached = (what: string, limit: number): RpcError =>
  new RpcError('limited', `${what}: at most ${limit}`, { reason: 'cap', limit })
/**
 * Reports a log query that is too wide. `suggested` is strictly smaller than the request, or left
 * out if impossible.
 */
export const tooManyLogs = (options: {
  readonly message: string
  readonly limit: number
  readonly found?: number
  readonly suggested?: { readonly fromBlock: unknown; readonly toBlock: unknown }
}): RpcError => {
  const { message, limit, found, suggested } = options
  return new RpcError('limited', message, {
    limit,
    ...(found === undefined ? {} : { found }),
    ...(suggested === undefined ? {} : { suggestedRange: suggested }),
  })
}
/**
 * Reports a timeout, with the known times. `suggestedRange` is strictly smaller than the log query.
 */
export const timedOut = (data?: {
  readonly elapsedMs?: number
  readonly limitMs?: number
  readonly queuedMs?: number
  readonly suggestedRange?: { readonly fromBlock: unknown; readonly toBlock: unknown }
}): RpcError => new RpcError('timeout', 'request timed out', data)
/**
 * Reports state that a lazy node could not fetch for a call.
 * @param why reason; undefined means lack of time
 */
export const stateMissing = (
  missing: readonly MissingKey[],
  why: string | undefined,
  data: { readonly rounds: number; readonly keys: number },
): RpcError => {
  const [first, ...others] = missing
  const name = first === undefined ? '' : `: ${describeMissing(first)}`
  const more = others.length === 0 ? '' : `; ${others.length} more`
  const reason = why === undefined ? '' : ` (${why})`
  return new RpcError('timeout', `state could not be fetched${name}${more}${reason}`, data)
}
export const responseTooLarge = (bytes: number, limit: number): RpcError =>
  new RpcError('too large', 'response too large', { bytes, limit })

export const internalError = (): RpcError => new RpcError('internal', 'internal error')
/** Reports a failure of a thread, the disk or another node. */
export const broken = (message: string): RpcError => new RpcError('internal', message)
/** The node does not answer yet, or not any more. */
export const unavailable = (message: string, reason: string): RpcError =>
  new RpcError('limited', message, { reason })
