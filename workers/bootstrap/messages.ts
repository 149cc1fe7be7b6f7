/** What the main thread and the thread that reads for new replicas say to each other: plain data. */
import type { SharedDatabase } from '../../engine/storage/database/types.ts'

export type ReaderData = {
  readonly database: SharedDatabase
  /** Of the node. */
  readonly path: string
  readonly chunkBytes: number
  readonly keepsDiffs: boolean
}

export type ToReader =
  | { readonly type: 'ask'; readonly request: number; readonly query: string }
  | { readonly type: 'stop' }

export type FromReader =
  | { readonly type: 'answer'; readonly request: number; readonly answer: Read }
  | { readonly type: 'failed'; readonly message: string }

/** `wrong`: the question is. */
export type Read = { readonly bytes: Uint8Array<ArrayBuffer> } | { readonly wrong: string }
