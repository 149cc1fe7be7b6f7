/** Every error a caller may see is made here. */

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

  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.code = code
    this.data = data
  }

  toObject(): RpcErrorObject {
    return this.data === undefined
      ? { code: this.code, message: this.message }
      : { code: this.code, message: this.message, data: this.data }
  }
}

const NAME_CHARACTERS = 64
/** What a caller wrote, short enough for an answer and a log line. */
const shown = (text: string): string =>
  text.length <= NAME_CHARACTERS ? text : text.slice(0, NAME_CHARACTERS)

// Envelope.
export const parseError = (why?: string): RpcError =>
  new RpcError(-32700, why === undefined ? 'parse error' : `parse error: ${why}`)
export const invalidRequest = (): RpcError => new RpcError(-32600, 'invalid request')
export const emptyBatch = (): RpcError => new RpcError(-32600, 'empty batch')
export const batchTooLarge = (items: number, limit: number): RpcError =>
  new RpcError(-32600, 'batch too large', { items, limit })
export const methodNotFound = (name: string): RpcError =>
  new RpcError(-32601, `the method ${shown(name)} does not exist/is not available`)
export const notificationsUnsupported = (): RpcError =>
  new RpcError(-32601, 'notifications not supported')

// Parameters.
export const invalidParams = (message: string): RpcError => new RpcError(-32602, message)
export const missingValue = (index: number): RpcError =>
  invalidParams(`missing value for required argument ${index}`)
export const tooManyArguments = (most: number): RpcError =>
  invalidParams(`too many arguments, want at most ${most}`)
export const invalidArgument = (index: number, problem: string): RpcError =>
  invalidParams(`invalid argument ${index}: ${problem}`)
export const unknownSubscription = (kind: string): RpcError =>
  invalidParams(`no ${JSON.stringify(shown(kind))} subscription in eth namespace`)

// What is not there.
export const headerNotFound = (): RpcError => new RpcError(-32000, 'header not found')
export const headerForHashNotFound = (): RpcError =>
  new RpcError(-32000, 'header for hash not found')
export const unknownBlock = (): RpcError => new RpcError(-32000, 'unknown block')
export const filterNotFound = (): RpcError => new RpcError(-32000, 'filter not found')
export const subscriptionNotFound = (): RpcError => new RpcError(-32000, 'subscription not found')
export const unknownAccount = (): RpcError => new RpcError(-32000, 'unknown account')
/** `why` names the block asked for; `oldest` the first whose state is kept, where that is known. */
export const historyPruned = (
  why: string,
  range: { readonly oldest: bigint | undefined; readonly newest: bigint },
): RpcError => {
  const { oldest, newest } = range
  const from = oldest === undefined ? '' : `; the oldest kept is block ${oldest}`
  return new RpcError(-32001, `history not available: ${why}${from}`, {
    ...(oldest === undefined ? {} : { oldest: `0x${oldest.toString(16)}` }),
    newest: `0x${newest.toString(16)}`,
  })
}

// Execution.
export const executionReverted = (data: string, reason: string | undefined): RpcError =>
  new RpcError(
    3,
    reason === undefined ? 'execution reverted' : `execution reverted: ${reason}`,
    data,
  )
export const failed = (message: string): RpcError => new RpcError(-32000, message)
/** eth_sendRawTransactionSync: accepted, but not seen in a block in time. */
export const syncTimeout = (hash: string, waitedMs: number): RpcError =>
  new RpcError(
    4,
    `Transaction ${hash} was added to the mempool but wasn't confirmed within ${waitedMs}ms.`,
    hash,
  )

// Limits.
export type Refusal = {
  /** Points per second. */
  readonly limit: number
  readonly used: number
  readonly cost: number
  readonly retryAfterMs: number
}
export const rateLimited = (refusal: Refusal): RpcError =>
  new RpcError(-32005, 'request rate limit exceeded', {
    reason: 'rate',
    bucket: 'address',
    ...refusal,
  })
/** A queue or a cap is full; clients come again after a while. */
export const overloaded = (what: string, retryAfterMs: number): RpcError =>
  new RpcError(-32005, `server busy: ${what}`, { reason: 'overloaded', retryAfterMs })
export const capReached = (what: string, limit: number): RpcError =>
  new RpcError(-32005, `${what}: at most ${limit}`, { reason: 'cap', limit })
/** A log query that is too wide; `suggested` is strictly smaller than what was asked, or left out when nothing smaller exists. */
export const tooManyLogs = (options: {
  readonly message: string
  readonly limit: number
  readonly found?: number
  readonly suggested?: { readonly fromBlock: string; readonly toBlock: string }
}): RpcError => {
  const { message, limit, found, suggested } = options
  return new RpcError(-32005, message, {
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
  readonly suggestedRange?: { readonly fromBlock: string; readonly toBlock: string }
}): RpcError => new RpcError(-32002, 'request timed out', data)
export const responseTooLarge = (bytes: number, limit: number): RpcError =>
  new RpcError(-32003, 'response too large', { bytes, limit })

export const internalError = (): RpcError => new RpcError(-32603, 'internal error')
