/**
 * What main is told of a record waits until clients are shown it (ADR 55): the txpool, fronts, metrics and readiness then never know of what views
 * do not have. The sequencer and the follower are told at once.
 */
import type { WriterEffect } from '../../engine/sources/writer/types.ts'
import type { Showing, ShowPlace } from '../../engine/views/showing.ts'
import type { Published } from '../thread/messages.ts'

/** Of a record, in its order. */
type Told = Published | Extract<WriterEffect, { readonly type: 'sealed' }>
type Had = { readonly type: 'had'; readonly place: ShowPlace }

export interface HeldBack {
  tell(message: Told): void
  /** A replica has it. */
  heard(place: ShowPlace): void
  stop(): void
}

/** @param showing undefined: clients are shown records with their publish */
export function holdBack(
  showing: Showing | undefined,
  tell: (message: Told | Had) => void,
): HeldBack {
  if (showing === undefined) return { tell, heard() {}, stop() {} }
  /** No more than records may wait (showing.ts), and what belongs to them. */
  const waiting: Told[] = []
  let timer: NodeJS.Timeout | undefined

  function tellShown(): void {
    while (waiting.length > 0) {
      const [first] = waiting
      if (first!.type === 'published' && first!.record > showing!.shown) break
      tell(waiting.shift()!)
    }
    clearTimeout(timer)
    const dueMs = showing!.dueAtMs
    timer = dueMs === undefined ? undefined : setTimeout(onDue, Math.max(0, dueMs - now()))
  }
  function onDue(): void {
    showing!.look()
    tellShown()
  }
  return {
    tell(message) {
      // What it has changed is told at once.
      waiting.push(message.type === 'published' ? { ...message, isFollowed: false } : message)
      if (message.type === 'published') {
        const place = { height: message.pending, index: message.index }
        tell({ type: 'had', place })
      }
      tellShown()
    },
    heard(place) {
      showing.heard(place)
      tellShown()
    },
    stop: () => clearTimeout(timer),
  }
}

const now = () => performance.now()
