/** Client of a request, as the sockets describe it to the code that answers. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'

/** A JSON text as a list of consecutive ASCII pieces. */
export type Message = readonly Bytes[]

export type Client = {
  readonly address: string
  readonly endpoint: Endpoint
  /**
   * Sends notifications in one write; undefined over HTTP. Returns false when the client has gone
   * or reads too slowly.
   */
  readonly notify: ((messages: readonly Message[]) => boolean) | undefined
  /** Value of the header `X-Min-Flashblock`, as sent. */
  readonly minFlashblock?: string | undefined
  /** The client has disconnected, so its response is discarded. */
  readonly isGone: boolean
  /** Aborted when the client disconnects. The signal is created on first use, unlike `isGone`. */
  readonly signal: AbortSignal
}
