/**
 * The upstream answers for a node with lazy state, which has state from its first block on, and no
 * trie. It serves older blocks and proofs. If the upstream cannot answer, the error says that the
 * history is pruned.
 */
import { quantity } from '../../engine/primitives/hex.ts'
import {
  concurrencyLimitReached,
  errorOf,
  historyPruned,
  isBecause,
  RpcError,
  type RpcErrorObject,
  responseTooLarge,
  unknownBlock,
} from '../core/errors.ts'
import { type PoolReply, resultText } from '../core/executor.ts'
import type { Forward } from '../core/ports.ts'
import { abortAfter, type Now } from '../core/timeout.ts'
import type { Call, Caller, Forwarding } from '../dispatch/call.ts'
import type { Provenance } from '../dispatch/provenance.ts'
import type { Read, Scope } from '../dispatch/scope.ts'
import { asciiJson, asciiText } from '../json/envelope.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'
import type { MethodLimits } from '../method/method.ts'
import { unlessAborted } from '../methods/shared/aborted.ts'
import { mergedLogs, rangeError } from './logs.ts'
import { type UpstreamRoute, upstreamRoute } from './upstream-route.ts'

type Options = {
  readonly forward: Forward
  readonly limits: MethodLimits
  readonly concurrencyLimits: OpenConcurrencyLimit
  readonly provenance?: Pick<Provenance, 'elsewhere'> | undefined
  readonly now: Now
}
/** A request to the upstream, and the local range of blocks. */
type Question = {
  readonly method: string
  readonly params: readonly unknown[]
  readonly oldest: bigint
  readonly newest: bigint
  /** The view that routed the call; a newer view may have the data by the time of the response. */
  readonly read: Read
}

export function createUpstream(options: Options): Forwarding {
  const requester = createRequester(options)
  const { limits } = options
  return {
    isRouted: (call, scope) => routeOf(call, scope, limits).to !== 'here',
    callerOver: (local) => (call, scope, isPinned) => {
      const where = routeOf(call, scope, limits)
      if (where.to === 'here') return local(call, scope, isPinned)
      try {
        call.found.decode(call.params, limits)
      } catch (error) {
        scope.release()
        if (error instanceof RpcError) return refused(error)
        throw error
      }
      return new UpstreamRequest({ ...requester, limits, local, call, scope, isPinned }).respond(
        where,
      )
    },
    get stats() {
      return requester.stats()
    },
  }
}

const routeOf = (call: Call, scope: Scope, limits: MethodLimits): UpstreamRoute =>
  upstreamRoute(call, limits, {
    view: scope.view,
    isExpected: (hash) => scope.services.transactions.isExpected(hash),
  })

type UpstreamRequestParts = Pick<ReturnType<typeof createRequester>, 'request'> & {
  readonly limits: MethodLimits
  readonly local: Caller
  readonly call: Call
  readonly scope: Scope
  readonly isPinned: boolean
}

class UpstreamRequest {
  readonly #parts: UpstreamRequestParts

  constructor(parts: UpstreamRequestParts) {
    this.#parts = parts
  }

  respond(where: Exclude<UpstreamRoute, { readonly to: 'here' }>): Promise<PoolReply> {
    if (where.to === 'both') return this.#both(where.fromBlock)
    return where.isLocalFirst ? this.#localFirst(where.params) : this.#there(where.params)
  }

  async #there(params: readonly unknown[]): Promise<PoolReply> {
    const { request, call, scope } = this.#parts
    const question = questionOf(call, params, scope)
    scope.release()
    const reply = newerLeftOut(this.#capped(await request(question, scope)), call, question)
    return { ...reply, ...question.read }
  }

  /** A block below the oldest state may be stored here, or at least its header. */
  async #localFirst(params: readonly unknown[]): Promise<PoolReply> {
    const { local, call, scope, isPinned } = this.#parts
    const reply = await local(call, scope, isPinned)
    const isMissing =
      'error' in reply
        ? isBecause(reply.error, 'pruned', 'input')
        : 'result' in reply && reply.result === 'null'
    return isMissing ? this.#there(params) : reply
  }

  /**
   * Answers a log query on both sides of the first block. Local logs come first, so that a query
   * that fails here makes no request.
   */
  async #both(fromBlock: bigint): Promise<PoolReply> {
    const { request, local, call, scope, isPinned } = this.#parts
    const query = call.params[0] as object
    const cutoff = scope.view.oldestState
    const later = [{ ...query, fromBlock: quantity(cutoff) }]
    const earlier = { ...query, fromBlock: quantity(fromBlock), toBlock: quantity(cutoff - 1n) }
    const question = questionOf(call, [earlier], scope)
    const ours = await local({ ...call, params: later, text: asciiJson(later) }, scope, isPinned)
    scope.release()
    if ('stale' in ours) return ours
    const { snapshot, pending } = ours
    const read = { snapshot, pending }
    if ('error' in ours) return { error: rangeError(ours.error, { fromBlock, cutoff }), ...read }
    const theirs = await request(question, scope)
    if (!('result' in theirs)) return { ...theirs, ...read }
    try {
      const logs: unknown = JSON.parse(theirs.result)
      const merged = mergedLogs(logs, resultText(ours), { fromBlock, cutoff })
      return { ...this.#capped({ result: merged }), ...read }
    } catch (error) {
      if (error instanceof RpcError) return refusedAsPruned(question, error.message)
      throw error
    }
  }

  #capped(reply: PoolReply): PoolReply {
    const { responseBytes } = this.#parts.limits
    if (!('result' in reply) || reply.result.length <= responseBytes) return reply
    return refused(responseTooLarge(reply.result.length, responseBytes))
  }
}

const questionOf = (
  { found: { name, about } }: Call,
  params: readonly unknown[],
  { view }: Scope,
): Question => ({
  read: { snapshot: view.snapshot, pending: view.pending },
  method: about?.elsewhere ?? name,
  params,
  oldest: view.oldestState,
  newest: view.latest.number,
})

/** Sends requests to the upstream, within the concurrency limits of a client and of all clients. */
function createRequester({
  forward,
  limits,
  concurrencyLimits: openConcurrencyLimit,
  provenance,
  now,
}: Options) {
  const { forwardMs } = limits
  const concurrencyLimits = openConcurrencyLimit('upstream', {
    perClient: limits.forwardsPerClient,
    total: limits.forwardsTotal,
  })
  const unknown = createUnknown()
  let calls = 0
  let errors = 0

  async function request(question: Question, { client }: Scope): Promise<PoolReply> {
    provenance?.elsewhere()
    const key = lookupOf(question)
    if (key !== undefined && unknown.has(key, now())) return { result: 'null' }
    const giveBack = concurrencyLimits.take(client.address)
    if (giveBack === undefined)
      return refused(
        concurrencyLimitReached(
          'too many concurrent calls to the upstream',
          limits.forwardsPerClient,
        ),
      )
    calls++
    const { method, params } = question
    const late = abortAfter(forwardMs, now)
    const signal = AbortSignal.any([client.signal, late.signal])
    try {
      const requested = { to: 'upstream', client: client.address, signal } as const
      const said = (await unlessAborted(forward.forward(method, params, requested), signal)) ?? {
        silent: `no answer within ${forwardMs} ms`,
      }
      if ('result' in said) {
        if (said.result === 'null' && key !== undefined) unknown.add(key, now())
        return { result: asciiText(said.result) }
      }
      errors++
      if ('silent' in said) return refusedAsPruned(question, said.silent)
      return isUnavailable(said.error)
        ? refusedAsPruned(question, said.error.message)
        : refused(errorOf(said.error))
    } finally {
      late.end()
      giveBack()
    }
  }

  return { request, stats: () => ({ calls, errors, inFlight: concurrencyLimits.ownCount }) }
}

/**
 * Time without a new request for data that the upstream lacks, and the maximum number of such
 * entries.
 */
const UNKNOWN_MS = 1_000
const MAX_UNKNOWN = 1_000

/**
 * Remembers requests for data that the upstream lacks. Clients poll for receipts of waiting
 * transactions, and the upstream limits each node.
 */
function createUnknown() {
  /** Oldest first. */
  const since = new Map<string, number>()
  return {
    has(key: string, now: number): boolean {
      const at = since.get(key)
      if (at === undefined) return false
      if (now < at + UNKNOWN_MS) return true
      since.delete(key)
      return false
    },
    add(key: string, now: number): void {
      since.delete(key)
      since.set(key, now)
      if (since.size > MAX_UNKNOWN) since.delete(since.keys().next().value!)
    },
  }
}
/** Returns a key for a lookup by hash or index alone; otherwise undefined. */
const lookupOf = ({ method, params }: Question): string | undefined =>
  params.every((one) => typeof one === 'string' && one.length <= HASH_CHARACTERS)
    ? `${method} ${params.join(' ')}`
    : undefined
const HASH_CHARACTERS = 66

/** Refuses the call with the same error as for pruned history here. */
const refusedAsPruned = ({ method, oldest, newest }: Question, why: string) =>
  refused(historyPruned(`only the upstream can answer ${method}: ${why}`, { oldest, newest }))

/** Tells whether an error means missing data; codes and texts differ from node to node. */
function isUnavailable({ code, message }: RpcErrorObject): boolean {
  if (LACKING_CODES.has(code)) return true
  // A revert text comes from a contract and proves nothing.
  return !message.startsWith('execution reverted') && LACKING_TEXT.test(message)
}
/** Method not found, not supported; resource not found, not available; pruned history; limited. */
const LACKING_CODES: ReadonlySet<number> = new Set([
  -32_601, -32_004, -32_001, -32_002, 4_444, -32_005, -32_016,
])
const LACKING_TEXT =
  /missing trie node|proof window|pruned|(state|history|header|block|proofs?|data)\b.*\b(not (found|available|supported)|unavailable|unknown)|unknown block|not whitelisted|archive/i

/**
 * Hides blocks above this node's oldest state, which should be local. The upstream may be ahead or
 * on another branch, so they are not valid here yet.
 */
function newerLeftOut(
  reply: PoolReply,
  { found: { about } }: Call,
  { oldest }: Question,
): PoolReply {
  if (!('result' in reply) || about?.is === 'state') return reply
  const found: unknown = JSON.parse(reply.result)
  const { blockNumber, number = blockNumber } = ((Array.isArray(found) ? found[0] : found) ??
    {}) as { readonly blockNumber?: unknown; readonly number?: unknown }
  if (!QUANTITY.test(`${number}`) || BigInt(`${number}`) <= oldest) return reply
  return about?.is === 'query' ? refused(unknownBlock()) : { result: 'null' }
}
const QUANTITY = /^0x[0-9a-fA-F]{1,16}$/

const refused = (error: RpcError): { readonly error: RpcErrorObject } => ({
  error: error.toObject(),
})
