/**
 * Sources of the writer's events, beside persistence thread and main thread: a sequencer, or feeds
 * and a follower.
 */
import type { MessagePort } from 'node:worker_threads'
import { decodePacket } from '../../engine/flashblocks/codec.ts'
import { checksum } from '../../engine/primitives/checksum.ts'
import type { WriterEffect, WriterEvent } from '../../engine/sources/writer/types.ts'
import { listenToFeeds } from '../feed-client/listen.ts'
import type { FollowerToWriter, WriterToFollower } from '../thread/follower-messages.ts'
import type { SequencerToWriter, WriterToSequencer } from '../thread/messages.ts'
import { type Frames, openFrames } from './frames.ts'

export type Deliver = (event: WriterEvent) => void
export interface Source {
  /** Delivers events from now on; the port has buffered earlier ones. */
  listen(deliver: Deliver, count: (what: string) => void, warn: (message: string) => void): void
  /** The packet has left the mailbox. */
  taken(packet: object): void
  /** A feed has a new thread. */
  feed?(port: MessagePort): void
  /** Handles the effects that concern the source. */
  onEffect(effect: WriterEffect): void
  close(): void
}

/**
 * Source of a development chain.
 * The port buffers less than two blocks, because the sequencer reads each parent from the views
 * that the writer publishes. The mailbox has limits of its own.
 */
export function sequencerSource(port: MessagePort): Source {
  return {
    listen(deliver, count, warn) {
      let isWarned = false
      const onPacket = (bytes: Uint8Array) => {
        const receivedAtMs = performance.now()
        const decoded = decodePacket(bytes)
        if ('message' in decoded) {
          const packet = {
            feed: 0,
            message: decoded.message,
            digest: checksum(bytes),
            receivedAtMs,
          }
          deliver({ type: 'packet', packet })
        } else if ('refuse' in decoded) {
          count('feed_refused')
          if (!isWarned) warn(`packet of the feed refused: ${decoded.refuse}`)
          isWarned = true
        } else count('feed_foreign')
      }
      deliver({ type: 'feed', feed: 0, isConnected: true })
      port.on('message', (message: SequencerToWriter) => {
        if (message.type === 'packet') onPacket(message.packet)
        else deliver(message)
      })
      // The sequencer's thread has ended.
      port.once('close', () => deliver({ type: 'feed', feed: 0, isConnected: false }))
    },
    taken() {},
    onEffect(effect) {
      if (effect.type === 'published')
        port.postMessage({ type: 'published' } satisfies WriterToSequencer)
    },
    close: () => port.close(),
  }
}

/** Source of a follower; feeds and follower limit the messages that they have under way. */
export function followedSource({
  follower,
  feeds,
  frames,
  onFill,
}: {
  readonly follower: MessagePort
  readonly feeds: readonly MessagePort[]
  readonly frames?: string | undefined
  /** Receives fetched values on a node that is recorded. */
  readonly onFill?: ((fill: FollowerToWriter & { readonly type: 'fill' }) => void) | undefined
}): Source {
  let ports: ReturnType<typeof listenToFeeds> | undefined
  let ownFrames: Frames | undefined
  const notify = (message: WriterToFollower) => follower.postMessage(message)
  return {
    listen(deliver, _, warn) {
      if (frames !== undefined) ownFrames = openFrames(frames, warn)
      for (const packet of ownFrames?.found ?? []) deliver({ type: 'packet', packet })
      ports = listenToFeeds(feeds, deliver)
      follower.on('message', (message: FollowerToWriter) => {
        if (message.type === 'fill') onFill?.(message)
        else deliver(message)
      })
    },
    taken: (packet) => ports?.taken(packet),
    feed: (port) => ports?.add(port),
    onEffect(effect) {
      if (effect.type === 'published') {
        notify({ type: 'published' })
        ownFrames?.canonical(effect.canonical)
      } else if (effect.type === 'executed') ownFrames?.executed(effect.packet)
      else if (isForFollower(effect)) notify(effect)
    },
    close() {
      follower.close()
      ports?.close()
      ownFrames?.close()
    },
  }
}

const FOR_FOLLOWER = ['need', 'refused', 'check', 'begun', 'notBegun'] as const
const isForFollower = (
  effect: WriterEffect,
): effect is WriterEffect & { readonly type: (typeof FOR_FOLLOWER)[number] } =>
  FOR_FOLLOWER.some((type) => type === effect.type)
