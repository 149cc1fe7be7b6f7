/** Messages between a feed's thread, the writer and the main thread. */
import type { FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { PackedMessage } from './pack.ts'

/** Sent over a port of their own. At most `heldFrames` and `heldBytes` are unacknowledged. */
export type FeedToWriter =
  | {
      readonly type: 'frame'
      readonly feed: number
      readonly message: PackedMessage
      /** The xxh3 hash of the packet. */
      readonly digest: bigint
      /** Monotonic milliseconds, which all threads of a process share. */
      readonly receivedAtMs: number
      /** The packet as it arrived; readers of this node's /feed get it once it is judged. */
      readonly raw: Uint8Array<ArrayBuffer>
      /** Approximate bytes in memory. */
      readonly bytes: number
    }
  | FeedState

/** The connection opened or ended. Frames may be lost in between, unless it is resumed. */
export type FeedState = {
  readonly type: 'feed'
  readonly feed: number
  readonly isConnected: boolean
  readonly isResumed?: boolean
}

/** The writer has taken or skipped this many frames. */
export type WriterToFeed = {
  readonly type: 'taken'
  readonly frames: number
  readonly bytes: number
}

/** Messages from the main thread to a feed's thread. */
export type ToFeed =
  /** The canonical head has moved. */
  { readonly type: 'canonical'; readonly atMs: number } | { readonly type: 'stop' }

export type FeedCount =
  /**
   * Frames submitted to the writer, their bytes as received and as JSON, and milliseconds of
   * decoding, refused ones included.
   */
  | 'frames'
  | 'wire_bytes'
  | 'json_bytes'
  | 'decode_ms'
  /** Valid frames that are not meant for this node. */
  | 'foreign'
  /** Attempts to connect, and connections that failed or ended. */
  | 'connects'
  | 'losses'
  /**
   * Connections closed by this node: without frames while the canonical head moves, or with too
   * many frames.
   */
  | 'silences'
  | 'floods'
  /** Frames of a flood that were dropped before decoding. */
  | 'dropped'
  /**
   * Milliseconds in which the feed was not read, because the writer lags or the feed exceeds its
   * rates.
   */
  | 'unread_ms'
  /** Access lists of flashblocks that were read or ignored, and rows prefetched for them. */
  | 'access_lists'
  | 'access_lists_malformed'
  | 'access_lists_too_large'
  | 'rows_read_ahead'

export type FeedStatus = {
  readonly feed: number
  readonly isConnected: boolean
  /** Milliseconds since the newest valid frame, or since the start. */
  readonly silentMs: number
  readonly heldFrames: number
  readonly heldBytes: number
}

/** Messages from a feed's thread to the main thread. */
export type FromFeed =
  | { readonly type: 'ready' }
  | { readonly type: 'count'; readonly what: FeedCount; readonly by: number }
  | { readonly type: 'refused'; readonly field: string; readonly by: number }
  /** A warning for the log, already sampled. */
  | { readonly type: 'warning'; readonly message: string }
  | { readonly type: 'connected' }
  | {
      readonly type: 'status'
      readonly status: FeedStatus
      /**
       * The newest submitted frame, if the peer buffers frames; a replaced thread resumes after it.
       */
      readonly since: FeedMessageId | undefined
    }
  /** The thread sends no further frame and is replaced. */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }
