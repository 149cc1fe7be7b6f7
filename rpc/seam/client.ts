/** Who asks: what the sockets tell of a client to those that answer it. */
import type { Endpoint } from '../../engine/chain/types.ts'

export type Client = {
  readonly address: string
  readonly endpoint: Endpoint
  /** Sends a notification; undefined over HTTP. */
  readonly notify: ((text: string) => void) | undefined
  /** The client has gone away: its answer is thrown away. */
  readonly isGone: boolean
  /** Aborted when it goes away: for those that wait. To be made, unlike `isGone`. */
  readonly signal: AbortSignal
}
