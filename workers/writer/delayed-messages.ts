/**
 * Delays messages to the main thread about a snapshot until clients can see it (ADR 55).
 * Txpool, fronts, metrics and readiness therefore never know more than the views. The sequencer and
 * the follower are notified at once.
 */
import type { WriterEffect } from '../../engine/sources/writer/types.ts'
import type { ChainPosition, Visibility } from '../../engine/views/visibility.ts'
import type { Published } from '../thread/messages.ts'

/** A message about a snapshot, in its order. */
type DelayedMessage = Published | Extract<WriterEffect, { readonly type: 'sealed' }>
type Had = { readonly type: 'had'; readonly position: ChainPosition }

export interface DelayedMessages {
  notify(message: DelayedMessage): void
  /** A replica has this flashblock. */
  onPosition(position: ChainPosition): void
  stop(): void
}

/** @param visibility undefined makes snapshots visible when they are published */
export function delayMessages(
  visibility: Visibility | undefined,
  notify: (message: DelayedMessage | Had) => void,
): DelayedMessages {
  if (visibility === undefined) return { notify, onPosition() {}, stop() {} }
  /** Bounded by the number of snapshots that may wait (visibility.ts) and their messages. */
  const waiting: DelayedMessage[] = []
  let timer: NodeJS.Timeout | undefined

  function notifyVisible(): void {
    while (waiting.length > 0) {
      const [first] = waiting
      if (first!.type === 'published' && first!.snapshot > visibility!.visible) break
      notify(waiting.shift()!)
    }
    clearTimeout(timer)
    const dueMs = visibility!.dueAtMs
    timer = dueMs === undefined ? undefined : setTimeout(onDue, Math.max(0, dueMs - now()))
  }
  function onDue(): void {
    visibility!.update()
    notifyVisible()
  }
  return {
    notify(message) {
      // The snapshot's changes are emitted at once, ahead of this message.
      waiting.push(message.type === 'published' ? { ...message, isFollowed: false } : message)
      if (message.type === 'published') {
        const position = { height: message.pending, index: message.index }
        notify({ type: 'had', position })
      }
      notifyVisible()
    },
    onPosition(position) {
      visibility.onPosition(position)
      notifyVisible()
    },
    stop: () => clearTimeout(timer),
  }
}

const now = () => performance.now()
