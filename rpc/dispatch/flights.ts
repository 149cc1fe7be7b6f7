/** Equal concurrent calls run once in a worker, and all of them get its response. */
import type { Basis, Endpoint } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { Client } from '../core/client.ts'
import { isBecause } from '../core/errors.ts'
import type { PoolReply } from '../core/executor.ts'
import type { Following, ResultCache } from './cache.ts'
import type { Scope } from './scope.ts'

/**
 * Identity of a response: its key, the view's part of the key, and the head that the response
 * follows.
 */
export type Subject = {
  readonly key: string
  readonly basis: Basis
  readonly basisKey: string
  readonly following: Following | undefined
}
type Caller = {
  readonly subject: Subject
  readonly scope: Scope
  /** The call must read the leased snapshot of its batch. */
  readonly isPinned: boolean
}
/** A running call that equal calls wait for. */
type Flight = { readonly landing: Promise<Landed>; readonly client: Client }
/** `isCached`: the reply belongs to its subject for certain and is in the cache. */
type Landed = { readonly reply: PoolReply; readonly isCached: boolean }

export class Flights {
  readonly #endpoint: Endpoint
  readonly #cache: ResultCache
  readonly #flights = new Map<string, Flight>()

  constructor(endpoint: Endpoint, cache: ResultCache) {
    this.#endpoint = endpoint
    this.#cache = cache
  }

  /**
   * Runs a call or waits for an equal one.
   * @param start runs the call in a worker; may throw
   */
  async share(
    { subject, scope, isPinned }: Caller,
    start: () => PoolReply | Promise<PoolReply>,
  ): Promise<PoolReply> {
    const { key } = subject
    const { snapshot, client } = scope
    // A queued call leases no view, because the worker takes the newest at its start.
    if (!isPinned) scope.release()
    for (
      let flight = this.#flights.get(key);
      flight !== undefined;
      flight = this.#flights.get(key)
    ) {
      const { reply, isCached } = await flight.landing
      // Missing state is fetched once for all equal calls.
      if (isCached || ('stale' in reply && reply.missing !== undefined)) return reply
      // The first caller disconnected and ended the call, or its share of the workers was used up.
      // Other callers try again.
      const isOther = flight.client.address !== client.address
      if ((flight.client.isGone || (isOther && !isLasting(reply))) && !client.isGone) continue
      if (!isLasting(reply)) return reply
      // A reply from a newer snapshot is valid for a call that is not pinned.
      if (!isPinned && (reply.snapshot ?? 0) >= snapshot) return reply
      break
    }
    const running = Promise.resolve(start())
    const landing = running.then((reply) => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key)
      const isCached = isLasting(reply) && this.#isOf(subject, reply.snapshot, { scope, snapshot })
      if (isCached) this.#store(subject, reply)
      return { reply, isCached }
    })
    const flight = { landing, client }
    this.#flights.set(key, flight)
    return (await landing).reply
  }

  #store({ key, following }: Subject, reply: PoolReply): void {
    if (following === undefined) this.#cache.set(key, reply)
    else this.#cache.setFollowing(following, reply)
  }

  /**
   * Tells whether a worker's snapshot matches the subject: the same snapshot, or the newest with
   * the same heads.
   */
  #isOf(
    { basis, basisKey }: Subject,
    read: number | undefined,
    seen: { readonly scope: Scope; readonly snapshot: number },
  ): boolean {
    if (read === undefined || read === seen.snapshot) return read !== undefined
    const { reader } = seen.scope.services
    if (read !== reader.newestSnapshot()) return false
    return readNewest(
      reader,
      this.#endpoint,
      (view) => view.snapshot === read && view.cacheKey(basis) === basisKey,
    )
  }
}

/** Tells whether a reply depends on the view alone. Reverts and refused inputs do too. */
export function isLasting(reply: PoolReply): reply is Exclude<PoolReply, { stale: true }> {
  return (
    'result' in reply ||
    'pieces' in reply ||
    ('error' in reply && isBecause(reply.error, 'reverted', 'input'))
  )
}
