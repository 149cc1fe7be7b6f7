/**
 * This thread replaces the writer: it takes the messages of the feeds through the writer's mailbox,
 * and records their times.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { Mailbox } from '../../../engine/sources/writer/mailbox.ts'
import type { FeedPacket } from '../../../engine/sources/writer/types.ts'
import { listenToFeeds } from '../../../workers/feed-client/listen.ts'
import { clockUs, goodNumber } from './inputs.ts'

/** The messages of one feed. */
export type Received = {
  /** The numbers of good flashblocks in the order of arrival. */
  readonly good: number[]
  /** The milliseconds since each was sent. */
  readonly lateMs: number[]
  /** Messages that were decoded, but not sent as good flashblocks. */
  others: number
  connects: number
}
export type FromReceiver = { readonly type: 'received'; readonly feeds: readonly Received[] }

if (parentPort !== null) run(parentPort, workerData as { readonly ports: readonly MessagePort[] })

function run(main: MessagePort, { ports }: { readonly ports: readonly MessagePort[] }): void {
  const feeds: Received[] = ports.map(() => ({ good: [], lateMs: [], others: 0, connects: 0 }))
  const mailbox = new Mailbox()
  let isRunning = false
  function check(): void {
    const event = mailbox.next(() => false)
    isRunning = event !== undefined
    if (event?.type !== 'packet') return
    take(event.packet as FeedPacket)
    listening.taken(event.packet)
    setImmediate(check)
  }
  function take({ message, feed }: FeedPacket): void {
    const to = feeds[feed]!
    const number = message.type === 'flashblock' ? goodNumber(message) : undefined
    if (message.type !== 'flashblock' || number === undefined) to.others++
    else {
      to.good.push(number)
      to.lateMs.push(Number(clockUs() - message.delta.gasUsed) / 1_000)
    }
  }
  const listening = listenToFeeds(ports, (event) => {
    if (event.type === 'feed') {
      if (event.isConnected) feeds[event.feed]!.connects++
    } else {
      mailbox.push({ type: 'packet', packet: event.packet })
      if (!isRunning) check()
    }
  })
  main.on('message', (type: 'report' | 'end') => {
    main.postMessage({ type: 'received', feeds } satisfies FromReceiver)
    if (type === 'report') return
    listening.close()
    main.close()
  })
}
