/** What the thread of the leaders tells main, and what follows from it: lines of the log, metrics, what health shows. */
import type { Doubt } from '../../engine/sources/doubt.ts'
import type { LeaderDroppedEffect } from '../../engine/sources/writer/types.ts'
import { type Log, loggable } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Report } from '../observe/reporter.ts'
import type { LeaderStatus } from './messages.ts'
import type { LeadersThread } from './start.ts'

export type LeaderParts = {
  readonly log: Pick<Log, 'info'>
  readonly report: Report
  readonly metrics: Pick<Metrics, 'count'>
}
export interface ConnectedLeaders {
  /** Of each that has said it; `dropped`: for what. */
  statuses(): readonly (LeaderStatus & { readonly name: string; readonly dropped?: string })[]
  /** Why the node executes what others should. */
  doubts(): readonly Doubt[]
  /** The writer does not believe it any more. */
  dropped(effect: LeaderDroppedEffect): void
}

/** Characters of a line that has words of the peer in it. */
const LINE = 200

export function connectLeaders(leaders: LeadersThread, parts: LeaderParts): ConnectedLeaders {
  const { log, report, metrics } = parts
  const statuses = new Map<number, LeaderStatus>()
  const dropped = new Map<number, string>()
  const nameOf = (leader: number) => `leader ${leader} (${leaders.names[leader]})`
  const doubt = (leader: number, what: string): Doubt => ({
    text: `${nameOf(leader)} ${what}`,
    outside: `leader ${leader} ${what}`,
  })
  leaders.listen((message) => {
    switch (message.type) {
      case 'status':
        return void statuses.set(message.status.leader, message.status)
      case 'connected':
        return log.info({ leader: message.leader }, `${nameOf(message.leader)}: connected`)
      case 'count':
        return metrics.count(message.what, message.by)
      case 'warning': {
        const { leader } = message
        if (dropped.has(leader)) return
        const reason = `${nameOf(leader)}: ${loggable(message.message, LINE)}`
        return report('leader_doubt', { leader, reason })
      }
      case 'failed':
        statuses.clear()
        return report('leaders_failed', {
          reason: `leaders are not read, everything is executed here until another thread reads them: ${message.message}`,
        })
      case 'ready':
      case 'stopped':
    }
  })
  return {
    statuses: () =>
      [...statuses.values()].map((status) => {
        const why = dropped.get(status.leader)
        const name = leaders.names[status.leader] ?? ''
        return { ...status, name, ...(why === undefined ? {} : { dropped: why }) }
      }),
    doubts: () =>
      leaders.names.flatMap((_, leader) => {
        if (dropped.has(leader)) return [doubt(leader, 'is not believed any more')]
        return statuses.get(leader)?.isConnected === true ? [] : [doubt(leader, 'is not connected')]
      }),
    dropped({ leader, kind, message }) {
      const why = `${kind}: ${loggable(message, LINE)}`
      dropped.set(leader, why)
      leaders.drop(leader)
      report('leader_dropped', {
        ...{ leader, kind },
        reason: `${nameOf(leader)} is not believed any more, ${why}; what it told is executed here from now on`,
      })
    },
  }
}
