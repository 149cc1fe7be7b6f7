/** Starts the thread of the leaders, and another one where it fails: until then this node executes what it is not told. */
import type { MessagePort } from 'node:worker_threads'
import { createInbox } from '../thread/inbox.ts'
import { keepThread, type ReplaceLimits } from '../thread/kept.ts'
import { startThread } from '../thread/thread.ts'
import type { LeadersData } from './leaders.ts'
import { LEADER_LIMITS, MOST_LEADERS } from './limits.ts'
import type { FromLeaders, ToLeaders } from './messages.ts'

export type LeadersOptions = Omit<LeadersData, 'writer'> & {
  /** A port to the writer for each thread: takes `LeadersToWriter`, gives `WriterToLeaders`. It is handed over. */
  readonly newPort: () => MessagePort
  readonly limits?: Partial<ReplaceLimits>
  /** A thread's id, once it has really ended. */
  readonly onEnded: (thread: number) => void
}

export interface LeadersThread {
  /** Hosts, for the log. */
  readonly names: readonly string[]
  /** What the thread says from the start on, once. */
  listen(receiver: (message: FromLeaders) => void): void
  drop(leader: number): void
  stop(withinMs?: number): Promise<void>
}

const STOP_MS = 3_000

export function startLeaders(options: LeadersOptions): LeadersThread {
  const { onEnded, newPort, limits, ...data } = options
  const { urls } = data
  if (urls.length > MOST_LEADERS) throw new Error(`${urls.length} leaders: at most ${MOST_LEADERS}`)
  const inbox = createInbox<FromLeaders>()
  const dropped = new Set<number>()
  const thread = keepThread<ToLeaders>({ ...LEADER_LIMITS, ...limits }, (onFailed) => {
    const writer = newPort()
    const own = startThread<ToLeaders, FromLeaders>({
      ...{ name: 'leaders', file: new URL('./leaders.ts', import.meta.url) },
      data: { ...data, urls: urls.map(enriched), writer } satisfies LeadersData,
      transfer: [writer],
      onMessage: inbox.push,
      onLost(message) {
        inbox.push({ type: 'failed', message })
        onFailed()
      },
      onEnded,
    })
    for (const leader of dropped) own.post({ type: 'drop', leader })
    return own
  })
  return {
    names: urls.map((url) => new URL(url).host),
    listen: inbox.open,
    drop(leader) {
      dropped.add(leader)
      thread.post({ type: 'drop', leader })
    },
    stop: (withinMs = STOP_MS) => thread.stop({ type: 'stop' }, withinMs),
  }
}

/** Of a URL of a feed, whether or not it says so already. */
function enriched(text: string): string {
  const url = new URL(text)
  url.searchParams.set('enrich', '1')
  url.searchParams.set('packed', '1')
  return url.href
}
