/** Messages between the main thread and the thread that reads for new replicas. */
import type { SharedDatabase } from '../../engine/storage/database/types.ts'

export type ReaderData = {
  readonly database: SharedDatabase
  readonly path: string
  readonly chunkBytes: number
  readonly keepsDiffs: boolean
}

export type ToReader =
  | { readonly type: 'ask'; readonly request: number; readonly query: string }
  | { readonly type: 'stop' }

export type FromReader =
  | { readonly type: 'answer'; readonly request: number; readonly response: Read }
  | { readonly type: 'failed'; readonly message: string }

export type Read = { readonly bytes: Uint8Array<ArrayBuffer> } | { readonly wrong: string }
