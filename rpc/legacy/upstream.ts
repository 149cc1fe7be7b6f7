/**
 * A node that fetches its state has it from its first block on, and no trie: its upstream answers for what is older, and proves. What that
 * cannot answer is as if pruned.
 */
import { quantity } from '../../engine/primitives/hex.ts'
import type { Call, Caller, Legacy } from '../dispatch/call.ts'
import type { Read, Scope } from '../dispatch/scope.ts'
import { asciiJson, asciiText } from '../json/envelope.ts'
import type { MethodLimits } from '../method/method.ts'
import { unlessAborted } from '../seam/aborted.ts'
import {
  capReached,
  errorOf,
  historyPruned,
  isBecause,
  RpcError,
  type RpcErrorObject,
  responseTooLarge,
  unknownBlock,
} from '../seam/errors.ts'
import { type PoolReply, resultText } from '../seam/executor.ts'
import { abortAfter, type Now } from '../seam/patience.ts'
import type { Forward } from '../seam/ports.ts'
import type { Provenance } from '../seam/provenance.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'
import { mergedLogs, rangeError } from './logs.ts'
import { type UpstreamRoute, upstreamRoute } from './upstream-route.ts'

type Options = {
  readonly forward: Forward
  readonly limits: MethodLimits
  readonly caps: OpenCaps
  readonly provenance?: Pick<Provenance, 'elsewhere'> | undefined
  readonly now: Now
}
/** What is asked for, and the range of blocks that is here. */
type Question = {
  readonly method: string
  readonly params: readonly unknown[]
  readonly oldest: bigint
  readonly newest: bigint
  /** The view that sent the call there: by the time of the answer a newer one may have what was asked for. */
  readonly read: Read
}

export function createUpstream(options: Options): Legacy {
  const asking = createAsking(options)
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
      return new Asked({ ...asking, limits, local, call, scope, isPinned }).answer(where)
    },
    get stats() {
      return asking.stats()
    },
  }
}

const routeOf = (call: Call, scope: Scope, limits: MethodLimits): UpstreamRoute =>
  upstreamRoute(call, limits, {
    view: scope.view,
    isExpected: (hash) => scope.services.transactions.isExpected(hash),
  })

type AskedParts = Pick<ReturnType<typeof createAsking>, 'ask'> & {
  readonly limits: MethodLimits
  readonly local: Caller
  readonly call: Call
  readonly scope: Scope
  readonly isPinned: boolean
}

/** A call that takes the upstream. */
class Asked {
  readonly #parts: AskedParts

  constructor(parts: AskedParts) {
    this.#parts = parts
  }

  answer(where: Exclude<UpstreamRoute, { readonly to: 'here' }>): Promise<PoolReply> {
    if (where.to === 'both') return this.#both(where.fromBlock)
    return where.isHereFirst ? this.#hereFirst(where.params) : this.#there(where.params)
  }

  async #there(params: readonly unknown[]): Promise<PoolReply> {
    const { ask, call, scope } = this.#parts
    const question = questionOf(call, params, scope)
    scope.release()
    const reply = newerLeftOut(this.#capped(await ask(question, scope)), call, question)
    return { ...reply, ...question.read }
  }

  /** Below the state a block may have been kept, or its header. */
  async #hereFirst(params: readonly unknown[]): Promise<PoolReply> {
    const { local, call, scope, isPinned } = this.#parts
    const reply = await local(call, scope, isPinned)
    const isAway =
      'error' in reply
        ? isBecause(reply.error, 'pruned', 'input')
        : 'result' in reply && reply.result === 'null'
    return isAway ? this.#there(params) : reply
  }

  /** Logs of both sides. Those that are here come first, so that a query that cannot be answered asks nobody. */
  async #both(fromBlock: bigint): Promise<PoolReply> {
    const { ask, local, call, scope, isPinned } = this.#parts
    const query = call.params[0] as object
    const cutoff = scope.view.oldestState
    const later = [{ ...query, fromBlock: quantity(cutoff) }]
    const earlier = { ...query, fromBlock: quantity(fromBlock), toBlock: quantity(cutoff - 1n) }
    const question = questionOf(call, [earlier], scope)
    const ours = await local({ ...call, params: later, text: asciiJson(later) }, scope, isPinned)
    scope.release()
    if ('stale' in ours) return ours
    const { record, pending } = ours
    const read = { record, pending }
    if ('error' in ours) return { error: rangeError(ours.error, { fromBlock, cutoff }), ...read }
    const theirs = await ask(question, scope)
    if (!('result' in theirs)) return { ...theirs, ...read }
    try {
      const logs: unknown = JSON.parse(theirs.result)
      const merged = mergedLogs(logs, resultText(ours), { fromBlock, cutoff })
      return { ...this.#capped({ result: merged }), ...read }
    } catch (error) {
      if (error instanceof RpcError) return away(question, error.message)
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
  read: { record: view.record, pending: view.pending },
  method: about?.elsewhere ?? name,
  params,
  oldest: view.oldestState,
  newest: view.latest.number,
})

/** Asks the upstream, as often at a time as a client and all may. */
function createAsking({ forward, limits, caps: openCaps, provenance, now }: Options) {
  const { forwardMs } = limits
  const caps = openCaps('upstream', {
    perClient: limits.forwardsPerClient,
    total: limits.forwardsTotal,
  })
  const unknown = createUnknown()
  let calls = 0
  let errors = 0

  async function ask(question: Question, { client }: Scope): Promise<PoolReply> {
    provenance?.elsewhere()
    const key = lookupOf(question)
    if (key !== undefined && unknown.has(key, now())) return { result: 'null' }
    const giveBack = caps.take(client.address)
    if (giveBack === undefined)
      return refused(capReached('too many calls of the upstream', limits.forwardsPerClient))
    calls++
    const { method, params } = question
    const late = abortAfter(forwardMs, now)
    const signal = AbortSignal.any([client.signal, late.signal])
    try {
      const asked = { to: 'upstream', client: client.address, signal } as const
      const said = (await unlessAborted(forward.forward(method, params, asked), signal)) ?? {
        silent: `no answer within ${forwardMs} ms`,
      }
      if ('result' in said) {
        if (said.result === 'null' && key !== undefined) unknown.add(key, now())
        return { result: asciiText(said.result) }
      }
      errors++
      if ('silent' in said) return away(question, said.silent)
      return lacks(said.error) ? away(question, said.error.message) : refused(errorOf(said.error))
    } finally {
      late.end()
      giveBack()
    }
  }

  return { ask, stats: () => ({ calls, errors, inFlight: caps.here }) }
}

/** How long nobody asks again for what the upstream has not got, and how much of that is kept in mind. */
const UNKNOWN_MS = 1_000
const MOST_UNKNOWN = 1_000

/** Clients ask for the receipt of what waits for its block again and again, and the upstream has little time for each node. */
function createUnknown() {
  /** The oldest stands first. */
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
      if (since.size > MOST_UNKNOWN) since.delete(since.keys().next().value!)
    },
  }
}
/** undefined: it is not about a hash, or a place, alone. */
const lookupOf = ({ method, params }: Question): string | undefined =>
  params.every((one) => typeof one === 'string' && one.length <= HASH_CHARACTERS)
    ? `${method} ${params.join(' ')}`
    : undefined
const HASH_CHARACTERS = 66

/** As pruned as here. */
const away = ({ method, oldest, newest }: Question, why: string) =>
  refused(historyPruned(`${method} is the upstream's to answer: ${why}`, { oldest, newest }))

/** Of a node that has not got it: there are as many codes and texts as nodes. */
function lacks({ code, message }: RpcErrorObject): boolean {
  if (LACKING_CODES.has(code)) return true
  // What a contract says is its own.
  return !message.startsWith('execution reverted') && LACKING_TEXT.test(message)
}
/** Method not found, not supported; resource not found, not available; pruned history; limited. */
const LACKING_CODES: ReadonlySet<number> = new Set([
  -32_601, -32_004, -32_001, -32_002, 4_444, -32_005, -32_016,
])
const LACKING_TEXT =
  /missing trie node|proof window|pruned|(state|history|header|block|proofs?|data)\b.*\b(not (found|available|supported)|unavailable|unknown)|unknown block|not whitelisted|archive/i

/** The upstream may be ahead of this node, or on another branch: what it knows of blocks that should be here is not so yet. */
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
