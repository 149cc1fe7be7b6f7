/** Where the writer's events come from, beside the keeper and main: a sequencer, or feeds and a follower. */
import type { MessagePort } from 'node:worker_threads'
import { decodePacket } from '../../engine/flashblocks/codec.ts'
import { checksum } from '../../engine/primitives/checksum.ts'
import type { WriterEffect, WriterEvent } from '../../engine/sources/writer/types.ts'
import { listenToFeeds } from '../feeds/listen.ts'
import type { FollowerToWriter, WriterToFollower } from '../thread/follower-messages.ts'
import type { SequencerToWriter, WriterToSequencer } from '../thread/messages.ts'
import { type Frames, openFrames } from './frames.ts'

export type Deliver = (event: WriterEvent) => void
export interface Source {
  /** From now on; what was sent before is still in the port. */
  listen(deliver: Deliver, count: (what: string) => void, warn: (message: string) => void): void
  /** The packet has left the mailbox. */
  taken(packet: object): void
  /** A feed that has another thread. */
  feed?(port: MessagePort): void
  /** Of the effects those that are its own. */
  hear(effect: WriterEffect): void
  close(): void
}

/**
 * What waits in the port is less than two blocks: the sequencer begins one when it reads its parent in the shared views, where only the
 * writer's thread puts it. What is taken out waits in the mailbox, which has bounds of its own.
 */
export function sequencerSource(port: MessagePort): Source {
  return {
    listen(deliver, count, warn) {
      let isTold = false
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
          if (!isTold) warn(`packet of the feed refused: ${decoded.refuse}`)
          isTold = true
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
    hear(effect) {
      if (effect.type === 'published')
        port.postMessage({ type: 'published' } satisfies WriterToSequencer)
    },
    close: () => port.close(),
  }
}

/** Each feed has a bound of what it has on its way; the follower sends no more blocks than it may have under way. */
export function followedSource({
  follower,
  feeds,
  frames,
  onFill,
}: {
  readonly follower: MessagePort
  readonly feeds: readonly MessagePort[]
  readonly frames?: string | undefined
  /** Of a node that is recorded. */
  readonly onFill?: ((fill: FollowerToWriter & { readonly type: 'fill' }) => void) | undefined
}): Source {
  let ports: ReturnType<typeof listenToFeeds> | undefined
  let kept: Frames | undefined
  const tell = (message: WriterToFollower) => follower.postMessage(message)
  return {
    listen(deliver, _, warn) {
      if (frames !== undefined) kept = openFrames(frames, warn)
      for (const packet of kept?.found ?? []) deliver({ type: 'packet', packet })
      ports = listenToFeeds(feeds, deliver)
      follower.on('message', (message: FollowerToWriter) => {
        if (message.type === 'fill') onFill?.(message)
        else deliver(message)
      })
    },
    taken: (packet) => ports?.taken(packet),
    feed: (port) => ports?.add(port),
    hear(effect) {
      if (effect.type === 'published') {
        tell({ type: 'published' })
        kept?.canonical(effect.canonical)
      } else if (effect.type === 'executed') kept?.executed(effect.packet)
      else if (isForFollower(effect)) tell(effect)
    },
    close() {
      follower.close()
      ports?.close()
      kept?.close()
    },
  }
}

const FOR_FOLLOWER = ['need', 'refused', 'check', 'begun', 'notBegun'] as const
const isForFollower = (
  effect: WriterEffect,
): effect is WriterEffect & { readonly type: (typeof FOR_FOLLOWER)[number] } =>
  FOR_FOLLOWER.some((type) => type === effect.type)
