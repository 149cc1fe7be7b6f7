/** The writer's end of the feeds: what their threads send becomes events, and what the writer has taken of it gives them room again. */
import type { MessagePort } from 'node:worker_threads'
import type { FeedPacket } from '../../engine/sources/writer/types.ts'
import type { FeedState, FeedToWriter, WriterToFeed } from './messages.ts'
import { unpackMessage } from './pack.ts'

export type FeedEvent = { readonly type: 'packet'; readonly packet: FeedPacket } | FeedState

export interface FeedPorts {
  /**
   * This one has left the mailbox, and with it all that the same feed had brought before: the mailbox keeps the order of each feed, and
   * skips the oldest. Of what no feed has brought nothing is said.
   */
  taken(packet: object): void
  /** Of a feed's new thread: its old one has ended. */
  add(port: MessagePort): void
  close(): void
}

/** @param deliver puts the event into the mailbox */
export function listenToFeeds(
  ports: readonly MessagePort[],
  deliver: (event: FeedEvent) => void,
): FeedPorts {
  /** By packet, so that whoever takes one need not know where it came from. */
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
  /** In the mailbox, oldest first: bounded by what the feed's thread may have on its way. */
  let held: { readonly packet: object; readonly bytes: number }[] = []
  let connected: number | undefined
  const taken = (packet: object) => {
    const frames = held.findIndex((one) => one.packet === packet) + 1
    const bytes = held.slice(0, frames).reduce((sum, one) => sum + one.bytes, 0)
    held = held.slice(frames)
    if (frames > 0) port.postMessage({ type: 'taken', frames, bytes } satisfies WriterToFeed)
  }
  port.on('message', (message: FeedToWriter) => {
    if (message.type === 'feed') {
      connected = message.isConnected ? message.feed : undefined
      return deliver(message)
    }
    const { feed, digest, receivedAtMs, raw, bytes } = message
    const packet: FeedPacket = {
      ...{ feed, digest, receivedAtMs, raw },
      message: unpackMessage(message.message),
    }
    held.push({ packet, bytes })
    sources.set(packet, taken)
    deliver({ type: 'packet', packet })
  })
  // The feed's thread has ended.
  port.once('close', () => {
    held = []
    if (connected !== undefined) deliver({ type: 'feed', feed: connected, isConnected: false })
  })
}
