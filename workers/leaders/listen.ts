/** The writer's end of the leaders: what they tell becomes events, and what the writer has taken of it gives them room again. */
import type { MessagePort } from 'node:worker_threads'
import type { WriterEvent } from '../../engine/sources/writer/types.ts'
import type { LeadersToWriter, WriterToLeaders } from './messages.ts'

export interface LeadersPort {
  /** It has left the mailbox. Of what is no leader's nothing is said. */
  taken(diff: object): void
  close(): void
}

/** @param deliver puts the event into the mailbox */
export function listenToLeaders(
  port: MessagePort,
  deliver: (event: WriterEvent) => void,
): LeadersPort {
  const connected = new Set<number>()
  const open = new WeakMap<object, number>()
  port.on('message', (message: LeadersToWriter) => {
    if (message.type === 'diff') open.set(message.diff, message.diff.leader)
    else if (message.isConnected) connected.add(message.leader)
    else connected.delete(message.leader)
    deliver(message)
  })
  // Their thread has ended.
  port.once('close', () => {
    for (const leader of connected) deliver({ type: 'leader', leader, isConnected: false })
  })
  return {
    taken(diff) {
      const leader = open.get(diff)
      if (leader === undefined) return
      port.postMessage({ type: 'taken', leader, diffs: 1 } satisfies WriterToLeaders)
    },
    close: () => port.close(),
  }
}
