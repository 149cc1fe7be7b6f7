/** A plain request and its answer: who asks, to those that answer it. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Client } from '../seam/client.ts'
import type { Answer } from '../seam/exchange.ts'

/** The AbortController is made only when somebody asks for the signal, as costs a microsecond. */
export class PlainExchange implements Client {
  readonly address: string
  readonly endpoint: Endpoint
  readonly notify = undefined
  readonly minFlashblock: string | undefined
  /** Accept-Encoding, as it was sent. */
  readonly acceptEncoding: string | undefined
  /** undefined: it is being made. */
  answer: Answer | undefined
  #isOver = false
  #controller: AbortController | undefined

  constructor(
    address: string,
    endpoint: Endpoint,
    asked: Pick<PlainExchange, 'minFlashblock' | 'acceptEncoding'>,
  ) {
    this.address = address
    this.endpoint = endpoint
    this.minFlashblock = asked.minFlashblock
    this.acceptEncoding = asked.acceptEncoding
  }

  /** The answer is written, or never will be. */
  end(): void {
    this.#isOver = true
    this.#controller?.abort()
  }
  get writableFinished(): boolean {
    return this.#isOver
  }
  get isGone(): boolean {
    return this.#isOver
  }
  get destroyed(): boolean {
    return this.#isOver
  }
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#isOver) this.#controller.abort()
    }
    return this.#controller.signal
  }
}
