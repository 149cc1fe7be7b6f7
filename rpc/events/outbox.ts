/** Results for subscribers. All results of one event leave in one write per connection. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Client, Message } from '../core/client.ts'
import { encoded } from './flashblock.ts'

export type Subscriber = {
  readonly id: string
  readonly client: Client
  /** Bytes of a notification before its result. */
  readonly head: Bytes
  /** Before the start the client does not know the id, so results are buffered. */
  isStarted: boolean
  readonly results: Bytes[]
}

const TAIL = encoded('}}')

/** Returns the bytes of a message without its result. */
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
  /** Starts the output, because the client has received the id. */
  start(subscriber: Subscriber): void {
    subscriber.isStarted = true
    if (subscriber.results.length > 0) this.#waiting.add(subscriber)
  }
  drop(subscriber: Subscriber): void {
    this.#waiting.delete(subscriber)
    subscriber.results.length = 0
  }

  /**
   * Sends the buffered results.
   * @returns clients that accept nothing more
   */
  flush(): readonly Client[] {
    if (this.#waiting.size === 0) return []
    const messages = new Map<Client, Message[]>()
    for (const { client, head, results } of this.#waiting) {
      const own = messages.get(client)
      const notifications = results.map((result) => [head, result, TAIL])
      if (own === undefined) messages.set(client, notifications)
      else own.push(...notifications)
      results.length = 0
    }
    this.#waiting.clear()
    return [...messages]
      .filter(([client, notifications]) => client.notify?.(notifications) !== true)
      .map(([client]) => client)
  }
}
