/** What the thread of the leaders says to the writer and to main, and they to it: plain data. */
import type { WriterEvent } from '../../engine/sources/writer/types.ts'

/** Over a port of their own. */
export type LeadersToWriter = Extract<WriterEvent, { readonly type: 'diff' | 'leader' }>

/** The writer has taken so many diffs of it. */
export type WriterToLeaders = {
  readonly type: 'taken'
  readonly leader: number
  readonly diffs: number
}

/** Main → leaders. */
export type ToLeaders =
  /** Nobody believes it any more: its connection ends for good. */
  { readonly type: 'drop'; readonly leader: number } | { readonly type: 'stop' }

export type LeaderStatus = {
  readonly leader: number
  readonly isConnected: boolean
  /** Since its newest message, or since the start. */
  readonly silentMs: number
}

/** Leaders → main. */
export type FromLeaders =
  | { readonly type: 'ready' }
  | { readonly type: 'connected'; readonly leader: number }
  | { readonly type: 'count'; readonly what: string; readonly by: number }
  | { readonly type: 'status'; readonly status: LeaderStatus }
  /** For the log, sampled. */
  | { readonly type: 'warning'; readonly leader: number; readonly message: string }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'stopped' }
