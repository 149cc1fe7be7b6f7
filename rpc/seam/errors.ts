/** The errors that callers see: the code of each reason, which nobody else writes or compares, and what most of them say. */
import type { FlashblockPlace } from '../../engine/chain/types.ts'
import type { SimulatedCallResult } from '../../engine/execution/call/simulate.ts'
import type { SimulationError } from '../../engine/execution/call/simulate-chain.ts'
import type { InvalidTransaction } from '../../engine/execution/transaction/types.ts'
import {
  describeMissing,
  type HeldPlace,
  type MissingKey,
  type PlaceError,
} from '../../engine/state/reader.ts'
import { refusal } from '../../engine/txpool/refusal.ts'

/** As JSON-RPC 2.0, EIP-1474 and go-ethereum have them. */
export const CODES = {
  reverted: 3,
  /** eth_sendRawTransactionSync: accepted, but not seen in a block in time. */
  unconfirmed: 4,
  /** Wrong in itself, or about something that is not there: go-ethereum's code for most of what it refuses. */
  input: -32000,
  pruned: -32001,
  /** A flashblock that is not held any more, or that a view does not reach. */
  place: -32001,
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

/** Of eth_simulateV1, as execution-apis has them; what that has no code for has the code that eth_call gives it. */
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

/** Every code that this node makes itself. */
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

/** A failure the caller should see. Everything else thrown is a bug and becomes an internal error. */
export class RpcError extends Error {
  override name = 'RpcError'
  readonly code: number
  readonly data: unknown

  /** @param why a number: the code that a worker or another node has given it */
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

/** Whether it has the code of one of these reasons. */
export const isBecause = ({ code }: RpcErrorObject, ...reasons: readonly Reason[]): boolean =>
  reasons.some((reason) => CODES[reason] === code)

/** What a worker answered, or another node. */
export const errorOf = ({ code, message, data }: RpcErrorObject): RpcError =>
  new RpcError(code, message, data)

const NAME_CHARACTERS = 64
/** What a caller wrote, short enough for an answer and a log line. */
const shown = (text: string): string =>
  text.length <= NAME_CHARACTERS ? text : text.slice(0, NAME_CHARACTERS)

// Envelope.
export const parseError = (why?: string): RpcError =>
  new RpcError('json', why === undefined ? 'parse error' : `parse error: ${why}`)
export const invalidRequest = (): RpcError => new RpcError('request', 'invalid request')
export const emptyBatch = (): RpcError => new RpcError('request', 'empty batch')
export const batchTooLarge = (items: number, limit: number): RpcError =>
  new RpcError('request', 'batch too large', { items, limit })
export const methodNotFound = (name: string): RpcError =>
  new RpcError('method', `the method ${shown(name)} does not exist/is not available`)
const CONTROL = /^(dev|evm|anvil|hardhat)_/
/** Whether a name is one that only development chains serve. */
export const isControl = (name: string): boolean => CONTROL.test(name)
export const controlElsewhere = (name: string): RpcError =>
  new RpcError(
    'method',
    `the method ${shown(name)} is not available: dev_, evm_, anvil_ and hardhat_ methods are served by flashnode dev only`,
  )
export const unacceptable = (message: string): RpcError => new RpcError('request', message)
export const notificationsUnsupported = (): RpcError =>
  new RpcError('method', 'notifications not supported')

// Parameters.
export const invalidParams = (message: string): RpcError => new RpcError('parameters', message)
export const missingValue = (index: number): RpcError =>
  invalidParams(`missing value for required argument ${index}`)
export const tooManyArguments = (most: number): RpcError =>
  invalidParams(`too many arguments, want at most ${most}`)
export const invalidArgument = (index: number, problem: string): RpcError =>
  invalidParams(`invalid argument ${index}: ${problem}`)
/** A parameter of a method that go-ethereum does not have; `path` begins with a dot. */
export const invalidParameter = (index: number, problem: string, path = ''): RpcError =>
  invalidParams(`params[${index}]${path}: ${problem}`)
export const unknownSubscription = (kind: string): RpcError =>
  invalidParams(`no ${JSON.stringify(shown(kind))} subscription in eth namespace`)
export const notOnThisEndpoint = (what: string): RpcError =>
  invalidParams(`${what} is served on the flashblocks endpoint alone`)

// What is not there.
export const headerNotFound = (): RpcError => new RpcError('input', 'header not found')
export const headerForHashNotFound = (): RpcError =>
  new RpcError('input', 'header for hash not found')
export const flashblockNotFound = ({ number, index }: FlashblockPlace): RpcError =>
  new RpcError('input', `header not found: flashblock ${index} of block ${number} is not here`)
export const unknownBlock = (): RpcError => new RpcError('input', 'unknown block')
export const filterNotFound = (): RpcError => new RpcError('input', 'filter not found')
export const subscriptionNotFound = (): RpcError => new RpcError('input', 'subscription not found')
export const unknownAccount = (): RpcError => new RpcError('input', 'unknown account')
/** `why` names the block asked for; `oldest` the first whose state is kept, where that is known. */
export const historyPruned = (
  why: string,
  range: { readonly oldest: bigint | undefined; readonly newest: bigint },
): RpcError => {
  const { oldest, newest } = range
  const from = oldest === undefined ? '' : `; the oldest kept is block ${oldest}`
  return new RpcError('pruned', `history not available: ${why}${from}`, {
    ...(oldest === undefined ? {} : { oldest: `0x${oldest.toString(16)}` }),
    newest: `0x${newest.toString(16)}`,
  })
}
type Place = Pick<HeldPlace, 'number' | 'index'> & { readonly payloadId?: string | undefined }
const placeData = ({ number, index, payloadId }: Place) => ({
  number: `0x${number.toString(16)}`,
  index: `0x${index.toString(16)}`,
  ...(payloadId === undefined ? {} : { payloadId }),
})
/** A flashblock that was asked for: `data` has the places that could have been. */
export function flashblockGone({ message, why, held }: PlaceError): RpcError {
  const from =
    held === undefined
      ? 'none is held'
      : `the oldest held is ${held.oldest.index} of block ${held.oldest.number}`
  return new RpcError('place', `${message}; ${from}`, {
    reason: why,
    ...(held && { oldest: placeData(held.oldest), newest: placeData(held.newest) }),
  })
}
/** A view that has not come as far as its request asks for; `here`: how far it has. */
export const flashblockBehind = (
  { number, index, payloadId }: FlashblockPlace,
  here: Place,
  why: 'behind' | 'replaced',
): RpcError =>
  new RpcError(
    'place',
    why === 'behind'
      ? `flashblock ${index} of block ${number} is not here: the newest is ${here.index} of block ${here.number}`
      : `flashblock ${index} of block ${number} was of payload ${payloadId}, which is replaced here`,
    { reason: why, newest: placeData(here) },
  )

// Execution.
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
/** Of a call in an answer of eth_simulateV1. */
export const simulatedCode = ({ why }: SimulatedError): number => SIMULATION_CODES[why]
/** eth_sendRawTransactionSync: accepted, but not seen in a block in time. */
export const syncTimeout = (hash: string, waitedMs: number): RpcError =>
  new RpcError(
    'unconfirmed',
    `Transaction ${hash} was added to the mempool but wasn't confirmed within ${waitedMs}ms.`,
    hash,
  )
/** eth_sendRawTransactionSync: accepted, and gone again. */
export const transactionDropped = (hash: string, reason: string): RpcError => {
  const { why, message } = refusal.dropped(reason)
  return new RpcError(why, message, hash)
}

// Limits.
export type Refusal = {
  /** Whose points they are; left out: those of its address. */
  readonly bucket?: 'key'
  /** Points per second. */
  readonly limit: number
  /** Points already used in this second, this request not counted. */
  readonly used: number
  readonly cost: number
  readonly retryAfterMs: number
}
export const rateLimited = (refusal: Refusal): RpcError => {
  const { bucket = 'address', limit, used, cost, retryAfterMs } = refusal
  const remaining = Math.max(0, limit - used)
  return new RpcError('limited', 'request rate limit exceeded', {
    ...{ reason: 'rate', bucket, limit, used, cost, retryAfterMs, remaining },
  })
}
/** A queue or a cap is full; clients come again after a while. */
export const overloaded = (what: string, retryAfterMs: number): RpcError =>
  new RpcError('limited', `server busy: ${what}`, { reason: 'overloaded', retryAfterMs })
export const capReached = (what: string, limit: number): RpcError =>
  new RpcError('limited', `${what}: at most ${limit}`, { reason: 'cap', limit })
/** A log query that is too wide; `suggested` is strictly smaller than what was asked, or left out when nothing smaller exists. */
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
/** The times where they are known, and a range that is strictly smaller where a log query took too long. */
export const timedOut = (data?: {
  readonly elapsedMs?: number
  readonly limitMs?: number
  readonly queuedMs?: number
  readonly suggestedRange?: { readonly fromBlock: unknown; readonly toBlock: unknown }
}): RpcError => new RpcError('timeout', 'request timed out', data)
/** A lazy node did not get what a call reads. `why`: what stood in the way; undefined: time. */
export const stateMissing = (
  missing: readonly MissingKey[],
  why: string | undefined,
  data: { readonly rounds: number; readonly keys: number },
): RpcError => {
  const [first, ...others] = missing
  const name = first === undefined ? '' : `: ${describeMissing(first)}`
  const more = others.length === 0 ? '' : `; ${others.length} more`
  const reason = why === undefined ? '' : ` (${why})`
  return new RpcError('timeout', `state is not at hand${name}${more}${reason}`, data)
}
export const responseTooLarge = (bytes: number, limit: number): RpcError =>
  new RpcError('too large', 'response too large', { bytes, limit })

export const internalError = (): RpcError => new RpcError('internal', 'internal error')
/** A thread fails, the disk, or a node that this one asks. */
export const broken = (message: string): RpcError => new RpcError('internal', message)
/** Nothing is answered yet, or any more. */
export const unavailable = (message: string, reason: string): RpcError =>
  new RpcError('limited', message, { reason })
