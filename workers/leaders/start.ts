/** Starts the thread of the leaders. Whatever becomes of it, this node executes what it is not told. */
import type { MessagePort } from 'node:worker_threads'
import { createInbox } from '../thread/inbox.ts'
import { startThread } from '../thread/thread.ts'
import type { LeadersData } from './leaders.ts'
import { MOST_LEADERS } from './limits.ts'
import type { FromLeaders, ToLeaders } from './messages.ts'

export type LeadersOptions = Omit<LeadersData, 'writer'> & {
  /** To the writer: takes `LeadersToWriter`, gives `WriterToLeaders`. It is handed over. */
  readonly writer: MessagePort
  /** A thread's id, once it has really ended. */
  readonly onEnded: (thread: number) => void
}

export interface LeadersThread {
  /** Hosts, for the log. */
  readonly names: readonly string[]
  /** What the thread says from the start on, once. */
  listen(receiver: (message: FromLeaders) => void): void
  drop(leader: number): void
  stop(): Promise<void>
}

const STOP_MS = 3_000

export function startLeaders({ onEnded, ...data }: LeadersOptions): LeadersThread {
  const { urls, writer } = data
  if (urls.length > MOST_LEADERS) throw new Error(`${urls.length} leaders: at most ${MOST_LEADERS}`)
  const inbox = createInbox<FromLeaders>()
  const thread = startThread<ToLeaders, FromLeaders>({
    ...{ name: 'leaders', file: new URL('./leaders.ts', import.meta.url) },
    data: { ...data, urls: urls.map(enriched) } satisfies LeadersData,
    transfer: [writer],
    onMessage: inbox.push,
    onLost: (message) => inbox.push({ type: 'failed', message }),
    onEnded,
  })
  return {
    names: urls.map((url) => new URL(url).host),
    listen: inbox.open,
    drop: (leader) => thread.post({ type: 'drop', leader }),
    stop: () => thread.stop({ type: 'stop' }, STOP_MS),
  }
}

/** Of a URL of a feed, whether or not it says so already. */
function enriched(text: string): string {
  const url = new URL(text)
  url.searchParams.set('enrich', '1')
  return url.href
}
