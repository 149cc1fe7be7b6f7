/** `flashnode doctor`: one look after the other, a line for each, and a status by the worst of them. */
import { ChainError } from '../../../engine/chainspec/error.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { forkTimesOf } from '../../config/fork-time.ts'
import type { JobContext } from '../shared/job.ts'
import { startParts } from '../shared/parts.ts'
import { say } from '../shared/said.ts'
import { table } from '../shared/table.ts'
import { directoryLines } from './directory.ts'
import { feedLines } from './feeds.ts'
import { error, type Line } from './line.ts'
import { machineLines } from './machine.ts'
import { portLine } from './ports.ts'
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
type Look = { readonly name: string; readonly run: () => Promise<readonly Line[]> }

/** Returns the exit status: 1 where there is an error, 0 where all is well or there are warnings only. */
export async function runDoctor(config: DoctorConfig, context: JobContext): Promise<number> {
  const lines: Line[] = []
  const parts = startParts(context)
  const looks = looksOf(config)
  try {
    for (const [done, { name, run }] of looks.entries()) {
      if (context.isStopped()) break
      parts.update({ part: name, done, total: looks.length })
      lines.push(...(await run()))
    }
  } finally {
    parts.stop()
  }
  const count = (status: Line['status']) => lines.filter((line) => line.status === status).length
  const [errors, warnings] = [count('error'), count('warning')]
  await say(
    config.json
      ? `${JSON.stringify({ errors, warnings, lines })}\n`
      : `${textOf(lines, errors, warnings)}${isMachineAlone(config) ? MACHINE_ALONE : ''}`,
  )
  return errors === 0 && !context.isStopped() ? 0 : 1
}

const isMachineAlone = ({ upstream, feed, datadir, port, adminPort }: DoctorConfig): boolean =>
  upstream.length + feed.length === 0 && (datadir ?? port ?? adminPort) === undefined
const MACHINE_ALONE =
  'This is the machine alone: --upstream, --feed, --datadir, --port are looked at where they are given.\n'

function looksOf(config: DoctorConfig): readonly Look[] {
  const { datadir, upstream, host, port, adminPort } = config
  const feeds = config.feed === 'none' ? [] : config.feed
  const asked = askedChain(config)
  let held: ChainSpec | undefined
  const isNamed = asked !== undefined && 'chain' in asked
  const looks: Look[] = [
    { name: 'machine', run: async () => machineLines(config.poolThreads, datadir ?? '.') },
    {
      name: 'chain',
      run: async () => (asked !== undefined && 'line' in asked ? [asked.line] : []),
    },
  ]
  if (datadir !== undefined)
    looks.push({
      name: 'directory',
      async run() {
        const found = await directoryLines(datadir, {
          asked: isNamed ? asked.chain : undefined,
          sample: config.sample,
        })
        held = found.chain
        return found.lines
      },
    })
  for (const url of upstream)
    looks.push({
      name: 'upstream',
      run: () => upstreamLines(url, (isNamed ? asked.chain : undefined) ?? held, Date.now),
    })
  for (const url of feeds) looks.push({ name: 'feed', run: () => feedLines(url, config.feedMs) })
  const ports = { port, 'admin-port': adminPort }
  for (const [flag, number] of Object.entries(ports))
    if (number !== undefined && number !== 0)
      looks.push({
        name: 'ports',
        run: async () => [await portLine(flag, flag === 'port' ? host : '127.0.0.1', number)],
      })
  return looks
}

/** undefined: none is named. */
function askedChain({
  chain: name,
  forkTime,
}: DoctorConfig): { readonly chain: ChainSpec } | { readonly line: Line } | undefined {
  if (name === undefined) return undefined
  try {
    return { chain: chainSpec({ name, forkTimes: forkTimesOf(forkTime) }) }
  } catch (fault) {
    if (!(fault instanceof ChainError)) throw fault
    return { line: error('chain', fault.message, 'give --chain a name, or a genesis.json') }
  }
}

function textOf(lines: readonly Line[], errors: number, warnings: number): string {
  const rows = lines.map(({ status, about, says }) => [status, about, says])
  const texts = table(rows).trimEnd().split('\n')
  const shown = lines.map(
    ({ advice, status }, at) =>
      `${texts[at]}\n${advice === undefined || status === 'ok' ? '' : `         ${advice}\n`}`,
  )
  return `${shown.join('')}${errors} errors, ${warnings} warnings\n`
}
