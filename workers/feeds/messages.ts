/** What the thread of a feed says to the writer and to main, and they to it: plain data. */
import type { FeedPlace } from '../../engine/flashblocks/types.ts'
import type { PackedMessage } from './pack.ts'

/** Over a port of their own. Not more than `heldFrames` and `heldBytes` are on their way. */
export type FeedToWriter =
  | {
      readonly type: 'frame'
      readonly feed: number
      readonly message: PackedMessage
      /** xxh3 of the packet. */
      readonly digest: bigint
      /** Monotonic milliseconds: all threads of a process have one clock. */
      readonly receivedAtMs: number
      /** As it came: for those who read /feed here, once it is judged. */
      readonly raw: Uint8Array<ArrayBuffer>
      /** What it has in memory, about. */
      readonly bytes: number
    }
  | FeedState

/** The connection opened or ended: frames may have been lost between, unless it goes on where it ended. */
export type FeedState = {
  readonly type: 'feed'
  readonly feed: number
  readonly isConnected: boolean
  readonly isResumed?: boolean
}

/** The writer has taken so many, or skipped them. */
export type WriterToFeed = {
  readonly type: 'taken'
  readonly frames: number
  readonly bytes: number
}

/** Main → feed. */
export type ToFeed =
  /** The canonical head has moved. */
  { readonly type: 'canonical'; readonly atMs: number } | { readonly type: 'stop' }

/** What a feed counts. */
export type FeedCount =
  /** Handed to the writer; bytes as they came, and of their JSON; milliseconds of decoding, of those refused too. */
  | 'frames'
  | 'wire_bytes'
  | 'json_bytes'
  | 'decode_ms'
  /** Well formed and not for us. */
  | 'foreign'
  /** Tries to connect, and connections that ended or did not come about. */
  | 'connects'
  | 'losses'
  /** Ended by us: no frame while canonical moves, and too many frames. */
  | 'silences'
  | 'floods'
  /** Frames of a flood that nobody looked at. */
  | 'dropped'
  /** For how long it was not read: the writer does not keep up, or the feed is beyond what it may use in a second. */
  | 'unread_ms'
  /**
   * Access lists beside flashblocks that were read, and that were ignored; rows of the database
   * read for them.
   */
  | 'access_lists'
  | 'access_lists_malformed'
  | 'access_lists_too_large'
  | 'rows_read_ahead'

export type FeedStatus = {
  readonly feed: number
  readonly isConnected: boolean
  /** Since the newest frame that decoded, or since the start. */
  readonly silentMs: number
  /** On their way to the writer. */
  readonly heldFrames: number
  readonly heldBytes: number
}

/** Feed → main. */
export type FromFeed =
  | { readonly type: 'ready' }
  | { readonly type: 'count'; readonly what: FeedCount; readonly by: number }
  | { readonly type: 'refused'; readonly field: string; readonly by: number }
  /** For the log, sampled. */
  | { readonly type: 'warning'; readonly message: string }
  | { readonly type: 'connected' }
  | {
      readonly type: 'status'
      readonly status: FeedStatus
      /** The newest frame that was handed over, of a peer that keeps them: a thread in the place of this one goes on from there. */
      readonly since: FeedPlace | undefined
    }
  /** No further frame will come from this thread: another one takes its place. */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }
