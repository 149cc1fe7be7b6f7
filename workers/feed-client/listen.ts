/**
 * The writer's end of the feeds: turns messages of their threads into events, and acknowledges
 * frames.
 */
import type { MessagePort } from 'node:worker_threads'
import type { FeedPacket } from '../../engine/sources/writer/types.ts'
import type { FeedState, FeedToWriter, WriterToFeed } from './messages.ts'
import { unpackMessage } from './pack.ts'

export type FeedEvent = { readonly type: 'packet'; readonly packet: FeedPacket } | FeedState

export interface FeedPorts {
  /**
   * Acknowledges a packet that has left the mailbox, and all earlier ones of the same feed. Earlier
   * ones were taken or skipped, because the mailbox retains the order of each feed. Packets of
   * other origin are ignored.
   */
  taken(packet: object): void
  /** Adds the port of a feed's replaced thread. */
  add(port: MessagePort): void
  close(): void
}

export function listenToFeeds(
  ports: readonly MessagePort[],
  deliver: (event: FeedEvent) => void,
): FeedPorts {
  /** Maps each packet to its acknowledgement, so that its consumer need not know its feed. */
  const sources = new WeakMap<object, (packet: object) => void>()
  const open = new Set<MessagePort>()
  const add = (port: MessagePort) => {
    open.add(port)
    port.once('close', () => open.delete(port))
    listen(port, deliver, sources)
  }
  for (const port of ports) add(port)
  return {
    taken: (packet) => sources.get(packet)?.(packet),
    add,
    close() {
      for (const port of open) port.close()
    },
  }
}

function listen(
  port: MessagePort,
  deliver: (event: FeedEvent) => void,
  sources: WeakMap<object, (packet: object) => void>,
): void {
  /** Packets in the mailbox, oldest first; the feed's limits bound their number. */
  let buffered: { readonly packet: object; readonly bytes: number }[] = []
  let connected: number | undefined
  const taken = (packet: object) => {
    const frames = buffered.findIndex((one) => one.packet === packet) + 1
    const bytes = buffered.slice(0, frames).reduce((sum, one) => sum + one.bytes, 0)
    buffered = buffered.slice(frames)
    if (frames > 0) port.postMessage({ type: 'taken', frames, bytes } satisfies WriterToFeed)
  }
  port.on('message', (message: FeedToWriter) => {
    if (message.type === 'feed') {
      connected = message.isConnected ? message.feed : undefined
      return deliver(message)
    }
    const { feed, digest, receivedAtMs, raw, bytes } = message
    const packet: FeedPacket = {
      feed,
      digest,
      receivedAtMs,
      raw,
      message: unpackMessage(message.message),
    }
    buffered.push({ packet, bytes })
    sources.set(packet, taken)
    deliver({ type: 'packet', packet })
  })
  // The feed's thread has ended.
  port.once('close', () => {
    buffered = []
    if (connected !== undefined) deliver({ type: 'feed', feed: connected, isConnected: false })
  })
}
