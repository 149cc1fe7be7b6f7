/** Processor time of a process's threads, as the kernel counts it. */
import { readdirSync, readFileSync } from 'node:fs'

/** Milliseconds of a tick of /proc. */
const TICK_MS = 10

/** User and system milliseconds by thread name; threads with the same name are added up. */
export function threadTimes(pid: number): ReadonlyMap<string, number> {
  const times = new Map<string, number>()
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const stat = statOf(pid, task)
    if (stat === undefined) continue
    const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'))
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const ms = (Number(fields[11]) + Number(fields[12])) * TICK_MS
    times.set(name, (times.get(name) ?? 0) + ms)
  }
  return times
}

/** Returns undefined if the thread has ended meanwhile. */
function statOf(pid: number, task: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/task/${task}/stat`, 'latin1')
  } catch {
    return undefined
  }
}

export const sumOf = (times: ReadonlyMap<string, number>): number =>
  [...times.values()].reduce((sum, ms) => sum + ms, 0)

export const since = (
  now: ReadonlyMap<string, number>,
  before: ReadonlyMap<string, number>,
): ReadonlyMap<string, number> =>
  new Map([...now].map(([name, ms]) => [name, ms - (before.get(name) ?? 0)]))
