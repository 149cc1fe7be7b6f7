/**
 * `flashnode doctor`: runs one check after the other and prints a line for each; the worst one sets
 * the status.
 */

import { once } from 'node:events'
import { createServer } from 'node:net'
import { ChainError } from '../../../engine/chainspec/error.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { forkTimesOf } from '../../config/fork-time.ts'
import type { JobContext } from '../shared/job.ts'
import { startParts } from '../shared/parts.ts'
import { print } from '../shared/print.ts'
import { table } from '../shared/table.ts'
import { directoryLines } from './directory.ts'
import { feedLines } from './feeds.ts'
import { error, type Line, ok } from './line.ts'
import { machineLines } from './machine.ts'
import { upstreamLines } from './upstreams.ts'

type DoctorConfig = {
  readonly chain: string | undefined
  readonly forkTime: readonly string[]
  readonly upstream: readonly string[]
  readonly feed: readonly string[] | 'none'
  readonly datadir: string | undefined
  readonly host: string
  readonly port: number | undefined
  readonly adminPort: number | undefined
  readonly poolThreads: number
  readonly sample: number
  readonly feedMs: number
  readonly json: boolean
}
type Check = { readonly name: string; readonly run: () => Promise<readonly Line[]> }

/** Returns the exit status: 1 if there is an error, 0 otherwise. */
export async function runDoctor(config: DoctorConfig, context: JobContext): Promise<number> {
  const lines: Line[] = []
  const parts = startParts(context)
  const checks = checksOf(config)
  try {
    for (const [done, { name, run }] of checks.entries()) {
      if (context.isStopped()) break
      parts.update({ part: name, done, total: checks.length })
      lines.push(...(await run()))
    }
  } finally {
    parts.stop()
  }
  const count = (status: Line['status']) => lines.filter((line) => line.status === status).length
  const [errors, warnings] = [count('error'), count('warning')]
  await print(
    config.json
      ? `${JSON.stringify({ errors, warnings, lines })}\n`
      : `${textOf(lines, errors, warnings)}${isMachineAlone(config) ? MACHINE_ALONE : ''}`,
  )
  return errors === 0 && !context.isStopped() ? 0 : 1
}

const isMachineAlone = ({ upstream, feed, datadir, port, adminPort }: DoctorConfig): boolean =>
  upstream.length + feed.length === 0 && (datadir ?? port ?? adminPort) === undefined
const MACHINE_ALONE =
  'Only the machine was checked: give --upstream, --feed, --datadir or --port to check these too.\n'

function checksOf(config: DoctorConfig): readonly Check[] {
  const { datadir, upstream, host, port, adminPort } = config
  const feeds = config.feed === 'none' ? [] : config.feed
  const requested = requestedChain(config)
  let stored: ChainSpec | undefined
  const isNamed = requested !== undefined && 'chain' in requested
  const checks: Check[] = [
    { name: 'machine', run: async () => machineLines(config.poolThreads, datadir ?? '.') },
    {
      name: 'chain',
      run: async () => (requested !== undefined && 'line' in requested ? [requested.line] : []),
    },
  ]
  if (datadir !== undefined)
    checks.push({
      name: 'directory',
      async run() {
        const found = await directoryLines(datadir, {
          requested: isNamed ? requested.chain : undefined,
          sample: config.sample,
        })
        stored = found.chain
        return found.lines
      },
    })
  for (const url of upstream)
    checks.push({
      name: 'upstream',
      run: () => upstreamLines(url, (isNamed ? requested.chain : undefined) ?? stored, Date.now),
    })
  for (const url of feeds) checks.push({ name: 'feed', run: () => feedLines(url, config.feedMs) })
  const ports = { port, 'admin-port': adminPort }
  for (const [flag, number] of Object.entries(ports))
    if (number !== undefined && number !== 0)
      checks.push({
        name: 'ports',
        run: async () => [await portLine(flag, flag === 'port' ? host : '127.0.0.1', number)],
      })
  return checks
}

function requestedChain({
  chain: name,
  forkTime,
}: DoctorConfig): { readonly chain: ChainSpec } | { readonly line: Line } | undefined {
  if (name === undefined) return undefined
  try {
    return { chain: chainSpec({ name, forkTimes: forkTimesOf(forkTime) }) }
  } catch (fault) {
    if (!(fault instanceof ChainError)) throw fault
    return {
      line: error(
        'chain',
        fault.message,
        'give --chain the name of a known chain, or a genesis.json',
      ),
    }
  }
}

function textOf(lines: readonly Line[], errors: number, warnings: number): string {
  const rows = lines.map(({ status, about, says }) => [status, about, says])
  const texts = table(rows).trimEnd().split('\n')
  const printedLines = lines.map(
    ({ advice, status }, at) =>
      `${texts[at]}\n${advice === undefined || status === 'ok' ? '' : `         ${advice}\n`}`,
  )
  return `${printedLines.join('')}${errors} errors, ${warnings} warnings\n`
}

/** Checks if the node can listen on an address. */
async function portLine(flag: string, host: string, port: number): Promise<Line> {
  const about = `port ${port}`
  const server = createServer()
  try {
    const listening = once(server, 'listening')
    server.listen({ port, host })
    await listening
    return ok(about, `free on ${host}`)
  } catch (fault) {
    const { code, message } = fault as Error & { readonly code?: string }
    const advice =
      code === 'EADDRINUSE'
        ? `another process listens there: stop it, or give another --${flag}`
        : `give another --${flag}, or another --host`
    return error(about, `${host}: ${message}`, advice)
  } finally {
    server.close()
  }
}
