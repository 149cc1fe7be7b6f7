/**
 * The system's figures of processor time, for a node's threads, and for others on the machine
 * meanwhile.
 */
import { readdirSync, readFileSync } from 'node:fs'

export type Processor = {
  /** Milliseconds that the front, the node's main thread, ran. */
  readonly frontMs: number
  /** Milliseconds in which the front was ready but the processors did other work. */
  readonly frontWaitedMs: number
  /** Milliseconds that all threads of the node ran. */
  readonly nodeMs: number
  /** Milliseconds that this process ran. */
  readonly ownMs: number
  /** Milliseconds that all processors of the machine ran. */
  readonly machineMs: number
}

/** The unit of /proc/stat, which is the same wherever Node runs. */
const TICK_MS = 10
/** These columns of /proc/stat are idle time. */
const IDLE = [3, 4]

export function processorOf(pid: number): Processor {
  const of = (thread: string): readonly number[] => {
    try {
      const text = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1')
      return text.split(' ').map((nanoseconds) => Number(nanoseconds) / 1e6)
    } catch {
      // The thread has ended.
      return [0, 0]
    }
  }
  const [frontMs, frontWaitedMs] = of(String(pid))
  let nodeMs = 0
  for (const thread of readdirSync(`/proc/${pid}/task`)) nodeMs += of(thread)[0]!
  const { user, system } = process.cpuUsage()
  return {
    frontMs: frontMs!,
    frontWaitedMs: frontWaitedMs!,
    nodeMs,
    ownMs: (user + system) / 1e3,
    machineMs: machineMs(),
  }
}

function machineMs(): number {
  const [line] = readFileSync('/proc/stat', 'latin1').split('\n', 1)
  const columns = line!.split(/ +/).slice(1, 9).map(Number)
  return columns.reduce((sum, ticks, at) => sum + (IDLE.includes(at) ? 0 : ticks), 0) * TICK_MS
}

export const since = (before: Processor, now: Processor): Processor => ({
  frontMs: now.frontMs - before.frontMs,
  frontWaitedMs: now.frontWaitedMs - before.frontWaitedMs,
  nodeMs: now.nodeMs - before.nodeMs,
  ownMs: now.ownMs - before.ownMs,
  machineMs: now.machineMs - before.machineMs,
})
