/** Equal calls of a moment run once, in a worker, and all of them get its answer. */
import { readNewest } from '../../engine/chain/newest.ts'
import type { Basis, Endpoint } from '../../engine/chain/types.ts'
import type { Client } from '../seam/client.ts'
import { isBecause } from '../seam/errors.ts'
import type { PoolReply } from '../seam/executor.ts'
import type { Following, ResultCache } from './cache.ts'
import type { Scope } from './scope.ts'

/** What an answer is of: its key, and the view's own part of it; how it is kept where it follows a head. */
export type Subject = {
  readonly key: string
  readonly basis: Basis
  readonly basisKey: string
  readonly following: Following | undefined
}
type Caller = {
  readonly subject: Subject
  readonly scope: Scope
  /** The call belongs to a batch that holds a record. */
  readonly isPinned: boolean
}
/** A call on its way that equal calls wait for. */
type Flight = { readonly landing: Promise<Landed>; readonly client: Client }
/** `isKept`: it is of its subject for certain, and in the cache. */
type Landed = { readonly reply: PoolReply; readonly isKept: boolean }

export class Flights {
  readonly #endpoint: Endpoint
  readonly #cache: ResultCache
  readonly #flights = new Map<string, Flight>()

  constructor(endpoint: Endpoint, cache: ResultCache) {
    this.#endpoint = endpoint
    this.#cache = cache
  }

  /** @param start calls the worker; may throw */
  async share(
    { subject, scope, isPinned }: Caller,
    start: () => PoolReply | Promise<PoolReply>,
  ): Promise<PoolReply> {
    const { key } = subject
    const { record, client } = scope
    // A queued call holds no view: the worker takes the newest when it starts.
    if (!isPinned) scope.release()
    for (
      let flight = this.#flights.get(key);
      flight !== undefined;
      flight = this.#flights.get(key)
    ) {
      const { reply, isKept } = await flight.landing
      // What is missing is fetched once for all of them.
      if (isKept || ('stale' in reply && reply.missing !== undefined)) return reply
      // The first caller went away and took its call along, or had no share of the workers left: that is no answer to others.
      const isOther = flight.client.address !== client.address
      if ((flight.client.isGone || (isOther && !isLasting(reply))) && !client.isGone) continue
      if (!isLasting(reply)) return reply
      // From a newer record: that does for who holds no view.
      if (!isPinned && (reply.record ?? 0) >= record) return reply
      break
    }
    const running = Promise.resolve(start())
    const landing = running.then((reply) => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key)
      const isKept = isLasting(reply) && this.#isOf(subject, reply.record, { scope, record })
      if (isKept) this.#keep(subject, reply)
      return { reply, isKept }
    })
    const flight = { landing, client }
    this.#flights.set(key, flight)
    return (await landing).reply
  }

  #keep({ key, following }: Subject, reply: PoolReply): void {
    if (following === undefined) this.#cache.set(key, reply)
    else this.#cache.setFollowing(following, reply)
  }

  /** Whether the record that a worker read stands for the subject: the one that was seen, or the newest when it has the same heads. */
  #isOf(
    { basis, basisKey }: Subject,
    read: number | undefined,
    seen: { readonly scope: Scope; readonly record: number },
  ): boolean {
    if (read === undefined || read === seen.record) return read !== undefined
    const { reader } = seen.scope.services
    if (read !== reader.newestRecord()) return false
    return readNewest(
      reader,
      this.#endpoint,
      (view) => view.record === read && view.cacheKey(basis) === basisKey,
    )
  }
}

/** Reverts and refusals that the view alone decides are answers like any other. */
export function isLasting(reply: PoolReply): reply is Exclude<PoolReply, { stale: true }> {
  return (
    'result' in reply ||
    'pieces' in reply ||
    ('error' in reply && isBecause(reply.error, 'reverted', 'input'))
  )
}
