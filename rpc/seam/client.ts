/** Who asks: what the sockets tell of a client to those that answer it. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'

/** JSON in pieces, in ASCII, that are one after the other. */
export type Message = readonly Bytes[]

export type Client = {
  readonly address: string
  readonly endpoint: Endpoint
  /** Sends notifications in one write; undefined over HTTP. False: it takes no more, because it has gone or reads too slowly. */
  readonly notify: ((messages: readonly Message[]) => boolean) | undefined
  /** What its request says in `X-Min-Flashblock`, as it was sent. */
  readonly minFlashblock?: string | undefined
  /** The client has gone away: its answer is thrown away. */
  readonly isGone: boolean
  /** Aborted when it goes away: for those that wait. To be made, unlike `isGone`. */
  readonly signal: AbortSignal
}
