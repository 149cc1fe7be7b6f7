/** Performs the tracker's effects: asks upstreams and passes their responses on. */

import { bytesToHex, quantity } from '../../primitives/hex.ts'
import { field, isObject, Refusal, readBytes, readObject } from '../../primitives/json-fields.ts'
import type { FetchedBlock } from './block-json.ts'
import { type BlockReader, createBlockReader } from './blocks.ts'
import type { Pace } from './call-rate.ts'
import type { Upstream } from './client.ts'
import { UpstreamError } from './error.ts'
import { decodeHead } from './header-json.ts'
import type { Call, CallOptions, Settled } from './messages.ts'
import type { Clock } from './permits.ts'
import type { Tracker } from './tracker.ts'
import type { Point, TrackedBlock, TrackerEffect, TrackerEvent } from './tracker-types.ts'

export type FollowedBlock = TrackedBlock & { readonly fetched: FetchedBlock }
type Event = TrackerEvent<FollowedBlock>
type Effect = TrackerEffect<FollowedBlock>
type Question = Effect & { readonly type: 'poll' | 'fetch' | 'ask' }
export type DriverEffect = Exclude<Effect, { readonly type: 'poll' | 'fetch' | 'ask' }>

export type DriverOptions = {
  readonly tracker: Tracker<FollowedBlock>
  /** Upstreams in the tracker's order. Calls to one with another chain fail as `foreign`. */
  readonly upstreams: readonly Upstream[]
  readonly clock: Clock
  /** Rate limit of each upstream. */
  readonly paces: readonly Pace[]
  /** Takes effects that are no questions to upstreams. */
  readonly notify: (effect: DriverEffect) => void
  /** Takes a bug, after which nothing continues. */
  readonly onBug: (error: unknown) => void
}

type LocalEventType = 'published' | 'refused' | 'beginning' | 'begun' | 'notBegun' | 'tick'

export interface Driver {
  /** Passes on an event that no upstream sent. */
  notify(event: Event & { readonly type: LocalEventType }): void
  stop(): void
}

export function createDriver(options: DriverOptions): Driver {
  const { tracker, upstreams, clock, onBug } = options
  const gone = new AbortController()
  const responder = createResponder(options, gone.signal, apply)
  let cancel = () => {}

  function apply(event: Event): void {
    if (gone.signal.aborted) return
    cancel()
    try {
      for (const effect of tracker.apply(event)) carryOut(effect)
    } catch (error) {
      onBug(error)
      return
    }
    const ms = Math.max(0, tracker.wakeAtMs() - clock.now())
    cancel = clock.after(ms, () => apply({ type: 'tick' }))
  }

  function carryOut(effect: Effect): void {
    if (effect.type === 'poll' || effect.type === 'fetch' || effect.type === 'ask')
      void responder(effect).then(apply, onFault)
    else options.notify(effect)
  }

  /** Calls that are open at the stop are aborted, which is no bug. */
  function onFault(error: unknown): void {
    if (!gone.signal.aborted) onBug(error)
  }

  return {
    notify: apply,
    stop() {
      cancel()
      gone.abort()
      for (const upstream of upstreams) upstream.close()
    },
  }
}

/** Makes the function that asks an upstream. Its promise rejects only for a bug. */
function createResponder(
  options: DriverOptions,
  signal: AbortSignal,
  notify: (event: Event) => void,
): (question: Question) => Promise<Event> {
  const { upstreams, paces, onBug } = options
  const readers = upstreams.map(createBlockReader)

  async function sendRequest(question: Question): Promise<Event> {
    const { request, upstream: at, hasOthers } = question
    const callOptions: CallOptions = { hasOthers }
    const upstream = upstreams[at]!
    await paces[at]!.take(callsOf(question), signal)
    if (question.type === 'fetch') {
      const blocks = await fetchBlocks(readers[at]!, question, { ...callOptions, signal })
      return { type: 'blocks', request, blocks }
    }
    if (question.type === 'ask')
      return { type: 'hash', request, hash: await hashAt(upstream, question.number, callOptions) }
    watch(at)
    const head = await headOf(upstream, question.hasTags, callOptions)
    return { type: 'head', upstream: at, request, ...head }
  }

  /** Subscribes to heads if possible. A lost subscription is renewed with the next question. */
  function watch(at: number): void {
    const upstream = upstreams[at]!
    if (upstream.watchHeads === undefined || upstream.isWatching) return
    const onHead = (json: unknown) => {
      try {
        notify({ type: 'head', upstream: at, request: undefined, head: decodeHead(json) })
      } catch (error) {
        // The next poll will give the head.
        if (!(error instanceof Refusal)) onBug(error)
      }
    }
    // A failure is ignored, because heads are also polled.
    upstream.watchHeads(onHead).catch((error: unknown) => {
      if (!(error instanceof UpstreamError)) onBug(error)
    })
  }

  return async (question) => {
    const { request, upstream } = question
    try {
      return await sendRequest(question)
    } catch (error) {
      const { kind, message, retryAfterMs } = failureOf(error, upstreams[upstream]!.name)
      if (kind === 'foreign') return { type: 'foreign', request, message }
      return { type: 'failed', request, kind, message, retryAfterMs }
    }
  }
}

function callsOf(question: Question): number {
  if (question.type === 'fetch') return question.count
  return question.type === 'poll' && question.hasTags ? 3 : 1
}

async function fetchBlocks(
  reader: BlockReader,
  { first, count }: { readonly first: number; readonly count: number },
  options: CallOptions,
): Promise<readonly FollowedBlock[]> {
  return (await reader.byNumber(first, count, options)).map((fetched) => ({
    number: fetched.number,
    hash: fetched.hash,
    parentHash: fetched.parentHash,
    gasUsed: Number(fetched.header.gasUsed),
    bytes: fetched.bytes,
    unknown: fetched.unknown,
    fetched,
  }))
}

const blockCall = (block: string): Call => ({
  method: 'eth_getBlockByNumber',
  params: [block, false],
})

async function headOf(upstream: Upstream, hasTags: boolean, options: CallOptions) {
  const names = hasTags ? ['latest', 'safe', 'finalized'] : ['latest']
  const [latest, safe, finalized] = await upstream.batch(names.map(blockCall), options)
  if (latest === undefined) throw new UpstreamError('broken', `${upstream.name} is silent`)
  if ('error' in latest) throw latest.error
  const head = decodeHead(latest.result)
  return hasTags ? { head, tags: { safe: pointOf(safe), finalized: pointOf(finalized) } } : { head }
}

/** Returns undefined for an unknown tag, or one without a block. */
function pointOf(response: Settled | undefined): Point | undefined {
  if (response === undefined || 'error' in response || !isObject(response.result)) return undefined
  const { number, hash } = decodeHead(response.result)
  return { number, hash }
}

async function hashAt(upstream: Upstream, number: number, options: CallOptions) {
  const { method, params } = blockCall(quantity(number))
  const block = await upstream.call(method, params, options)
  if (block === null) return undefined
  return bytesToHex(readBytes(field(readObject(block, 'block'), 'hash'), 'hash', 32))
}

/** @throws errors that are no failure of an upstream */
function failureOf(error: unknown, name: string): UpstreamError {
  if (error instanceof UpstreamError) return error
  if (error instanceof Refusal) return new UpstreamError('wrong', `${name}: ${error.message}`)
  throw error
}
