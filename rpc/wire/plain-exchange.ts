/** A plain request with its client and response. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Client } from '../core/client.ts'
import type { RpcResponse } from '../core/exchange.ts'

/**
 * Client of a plain request. The AbortController costs a microsecond, so it is created on demand.
 */
export class PlainExchange implements Client {
  readonly address: string
  readonly endpoint: Endpoint
  readonly notify = undefined
  readonly minFlashblock: string | undefined
  /** Header Accept-Encoding, as sent. */
  readonly acceptEncoding: string | undefined
  /** undefined until the response is ready. */
  response: RpcResponse | undefined
  #isOver = false
  #controller: AbortController | undefined

  constructor(
    address: string,
    endpoint: Endpoint,
    requested: Pick<PlainExchange, 'minFlashblock' | 'acceptEncoding'>,
  ) {
    this.address = address
    this.endpoint = endpoint
    this.minFlashblock = requested.minFlashblock
    this.acceptEncoding = requested.acceptEncoding
  }

  /** Marks the response as written, or impossible to write. */
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
