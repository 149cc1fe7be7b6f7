/** Results on their way to subscribers: those of one event leave together, in one write for each connection. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Client, Message } from '../seam/client.ts'
import { encoded } from './flashblock.ts'

export type Subscriber = {
  readonly id: string
  readonly client: Client
  /** A notification up to its result. */
  readonly head: Bytes
  /** Before that its client does not know the id: what it gets waits. */
  isStarted: boolean
  readonly results: Bytes[]
}

const TAIL = encoded('}}')

/** Of a message, but for its result. */
export const envelopeBytes = ({ head }: Subscriber): number => head.length + TAIL.length

export const newSubscriber = (id: string, client: Client): Subscriber => ({
  id,
  client,
  head: encoded(
    `{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"${id}","result":`,
  ),
  isStarted: false,
  results: [],
})

export class Outbox {
  readonly #waiting = new Set<Subscriber>()

  put(subscriber: Subscriber, result: Bytes): void {
    subscriber.results.push(result)
    if (subscriber.isStarted) this.#waiting.add(subscriber)
  }
  /** Its client has its id. */
  start(subscriber: Subscriber): void {
    subscriber.isStarted = true
    if (subscriber.results.length > 0) this.#waiting.add(subscriber)
  }
  drop(subscriber: Subscriber): void {
    this.#waiting.delete(subscriber)
    subscriber.results.length = 0
  }

  /** @returns clients that take nothing any more */
  flush(): readonly Client[] {
    if (this.#waiting.size === 0) return []
    const messages = new Map<Client, Message[]>()
    for (const { client, head, results } of this.#waiting) {
      const own = messages.get(client)
      const notes = results.map((result) => [head, result, TAIL])
      if (own === undefined) messages.set(client, notes)
      else own.push(...notes)
      results.length = 0
    }
    this.#waiting.clear()
    return [...messages]
      .filter(([client, notes]) => client.notify?.(notes) !== true)
      .map(([client]) => client)
  }
}
