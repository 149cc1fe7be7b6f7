/** This module starts a development chain, its followers, and the proxies between them. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../kit/free-port.ts'
import { metricsUrl, readMetrics, sumOfMetrics } from '../../kit/metrics.ts'
import { call, type RunningNode, startNode } from '../../kit/node.ts'
import { type Load, startLoad } from './load.ts'

export type Leader = { readonly node: RunningNode; readonly genesis: string; readonly load: Load }

const folders: string[] = []
process.once('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
export function temporary(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `flashnode-follow-${name}-`))
  folders.push(folder)
  return folder
}

/** On a busy machine a call may wait longer than a node's default limit. */
const LIMITS = ['--limit-call-ms', '--limit-trace-ms', '--limit-logs-ms'].flatMap((flag) => [
  flag,
  '120000',
])
const COMMON = ['--rate-limit', 'off', '--pool-threads', '2', ...LIMITS]

/**
 * Starts a chain with load.
 * @param more further flags of its node
 */
export async function startLeader(
  random: () => number,
  rate: number,
  more: readonly string[] = [],
): Promise<Leader> {
  const datadir = temporary('dev')
  const node = await startNode(['--datadir', datadir, ...COMMON, ...more])
  const load = await startLoad(node.url, { rate, random })
  return { node, genesis: join(datadir, 'genesis.json'), load }
}

export type FollowerFlags = {
  readonly datadir: string
  readonly upstreams: readonly string[]
  readonly feeds: readonly string[]
  readonly more?: readonly string[]
}

export function startFollower(
  { genesis, node }: Leader,
  { datadir, upstreams, feeds, more = [] }: FollowerFlags,
): Promise<RunningNode> {
  return startNode(
    [
      ...['--chain', genesis, '--datadir', datadir, ...COMMON],
      ...['--upstream', upstreams.join(','), '--feed', feeds.join(',') || 'none'],
      ...['--sequencer', `${node.url}/`],
      ...more,
    ],
    'follow',
  )
}

export type Readiness = {
  readonly status: string
  readonly reasons: readonly string[]
  readonly [key: string]: unknown
}
export async function readiness(url: string): Promise<Readiness & { readonly code: number }> {
  const response = await fetch(`${url}/readyz`)
  return { code: response.status, ...((await response.json()) as Readiness) }
}

export type Metrics = {
  /** The flags of the node whose metrics are read. */
  readonly flags: readonly string[]
  /** Sums the metrics whose name with labels matches. */
  metric(pattern: RegExp): Promise<number>
}

/** Chooses a free admin port for one node. */
export async function withMetrics(): Promise<Metrics> {
  const port = await freePort()
  return {
    flags: ['--admin-port', String(port)],
    metric: async (pattern) => sumOfMetrics(await readMetrics(metricsUrl(port)), pattern),
  }
}

export const headOf = async (url: string): Promise<number> =>
  Number(await call(`${url}/`, 'eth_blockNumber'))

/** Repeats a condition until it holds, or the time is over. */
export async function until(
  condition: () => Promise<boolean>,
  withinMs: number,
  everyMs = 50,
): Promise<boolean> {
  const end = performance.now() + withinMs
  while (performance.now() < end) {
    if (await condition()) return true
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
  return false
}
