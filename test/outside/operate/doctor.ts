/**
 * `doctor` must report no problem where there is none, and a line with advice for each planted
 * fault.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openSmall } from '../../fixtures/databases-open.ts'
import type { Check } from '../../kit/checks.ts'
import { freePort } from '../../kit/free-port.ts'
import { type Leader, temporary } from '../follow/nodes.ts'
import { type ProxyOptions, startProxy, startRelay, type UpstreamFault } from '../follow/wires.ts'
import { runJson } from './command.ts'
import { SPOILT, spoil } from './spoil.ts'
import { type Spoil, startSpoiltProxy } from './spoilt-proxy.ts'

type Line = {
  readonly about: string
  readonly status: 'ok' | 'warning' | 'error'
  readonly says: string
  readonly advice?: string
}
type Result = {
  readonly errors: number
  readonly warnings: number
  readonly lines: readonly Line[]
}
type Fault = {
  readonly name: string
  readonly status: 'warning' | 'error'
  /** The pattern matches the subject and the text of the line. */
  readonly line: RegExp
  readonly argv: Argv
}
/** Makes the arguments, and registers what must stop when the command ends. */
type Argv = (stops: (() => unknown)[]) => Promise<readonly string[]>
/** This many commands run at a time. */
const AT_ONCE = 3
const FEW_FILES = 80
/** Advice must contain one of these verbs. */
const TO_DO = /\b(give|set|look|check|use|add|run|start|stop|update|ask)\b/

export async function checkDoctor(
  leader: Leader,
  {
    full,
    older,
    check,
    random,
  }: {
    /** A directory that no node has open. */
    readonly full: string
    /** A directory that a node has open. */
    readonly older: string
    readonly check: Check
    readonly random: () => number
  },
): Promise<void> {
  const { node, genesis } = leader
  const feed = `${node.url.replace('http', 'ws')}/feed`
  const well = await runJson<Result>([
    ...['doctor', '--chain', genesis, '--upstream', `${node.url}/`, '--feed', feed],
    ...['--datadir', full, '--port', String(await freePort())],
  ])
  check(
    'doctor reports no error for a healthy setup',
    well.status === 0 && well.result.errors === 0 && well.result.lines.length > 12,
    well.result.lines
      .filter(({ status }) => status !== 'ok')
      .map(textOf)
      .join('; '),
  )
  const faults = await faultsOf(leader, { full, older, random })
  for (let at = 0; at < faults.length; at += AT_ONCE)
    await Promise.all(
      faults.slice(at, at + AT_ONCE).map(async ({ name, status, line, argv }) => {
        const stops: (() => unknown)[] = []
        const { status: exit, result } = await runJson<Result>(['doctor', ...(await argv(stops))])
        for (const stop of stops) await stop()
        const found = result.lines.find(
          (one) => one.status === status && line.test(`${one.about}: ${one.says}`),
        )
        const isRight = found?.advice !== undefined && TO_DO.test(found.advice)
        check(
          `doctor: ${name}`,
          isRight && exit === (result.errors > 0 ? 1 : 0),
          isRight ? textOf(found) : result.lines.map(textOf).join('; '),
        )
      }),
    )
  check('doctor reports a low limit of open files', await hasFewFiles(), `${FEW_FILES} allowed`)
  check('doctor: at least 15 faults were planted', faults.length + 1 >= 15, `${faults.length + 1}`)
}

const textOf = ({ about, status, says, advice }: Line): string =>
  `${status} ${about}: ${says}${advice === undefined ? '' : ` → ${advice}`}`

type Around = { readonly full: string; readonly older: string; readonly random: () => number }

async function faultsOf(leader: Leader, around: Around): Promise<readonly Fault[]> {
  return [...upstreamFaults(leader), ...feedFaults(leader), ...directoryFaults(leader, around)]
}

function upstreamFaults({ node, genesis }: Leader): readonly Fault[] {
  const target = `${node.url}/`
  const chain = ['--chain', genesis, '--upstream']
  const proxied =
    (options: Omit<ProxyOptions, 'target'>, fault: UpstreamFault = 'none') =>
    async (stops: (() => unknown)[]) => {
      const proxy = await startProxy({ ...options, target })
      stops.push(proxy.stop)
      if (fault !== 'none') await proxy.fault(fault)
      return [...chain, proxy.url]
    }
  const spoilt =
    (spoils: Readonly<Record<string, Spoil>>): Argv =>
    async (stops) => {
      const proxy = await startSpoiltProxy(target, spoils)
      stops.push(proxy.stop)
      return [...chain, proxy.url]
    }
  const shifted = (seconds: number) =>
    spoilt({
      eth_getBlockByNumber: (block) => ({
        ...block,
        timestamp: `0x${(Number(block.timestamp) + seconds).toString(16)}`,
      }),
    })
  const isMissing = (...names: readonly string[]) =>
    proxied({ methods: METHODS.filter((name) => !names.includes(name)) })
  return [
    fault('an upstream that cannot be reached', 'error', /cannot reach/, proxied({}, 'cut')),
    fault('an upstream that is silent', 'error', /no answer|within|silent/, proxied({}, 'silence')),
    fault('an upstream that wants fewer requests', 'error', /fewer requests/, proxied({}, '429')),
    fault('an upstream of another chain', 'error', /another chain|has no block/, async () => [
      ...['--chain', 'xlayer', '--upstream', target],
    ]),
    fault('an upstream without proofs', 'warning', /proofs: none/, isMissing('eth_getProof')),
    fault(
      'an upstream with little state',
      'error',
      /state: \d+ blocks/,
      proxied({ stateBlocks: 4 }),
    ),
    fault(
      'an upstream without a method',
      'error',
      /eth_getBlockByHash/,
      isMissing('eth_getBlockByHash'),
    ),
    fault(
      'an upstream without traces',
      'warning',
      /debug_trace/,
      isMissing('debug_traceBlockByHash'),
    ),
    fault(
      'an upstream without a finalized block',
      'warning',
      /tags/,
      spoilt({
        eth_getBlockByNumber: (block, [tag]) => (tag === 'finalized' ? null : block),
      }),
    ),
    fault('a clock that is behind', 'error', /clock: .* ahead of/, shifted(100)),
    fault('a head that stands still', 'error', /clock: .* behind/, shifted(-1_000)),
  ]
}
const METHODS = [
  ...['eth_chainId', 'eth_blockNumber', 'eth_getBlockByNumber', 'eth_getBlockByHash'],
  ...['eth_getBlockReceipts', 'eth_getBalance', 'eth_getCode', 'eth_getStorageAt'],
  ...['eth_getTransactionCount', 'eth_getProof', 'debug_traceBlockByHash'],
]

function feedFaults({ node }: Leader): readonly Fault[] {
  const target = `${node.url.replace('http', 'ws')}/feed`
  const relayed =
    (fault: 'cut' | 'silence' | 'garbage' | 'falls silent', ms = '2000'): Argv =>
    async (stops) => {
      const relay = await startRelay({ target })
      stops.push(relay.stop)
      await relay.fault(fault)
      return ['--feed', relay.url, '--feed-ms', ms]
    }
  return [
    fault('a feed that cannot be reached', 'error', /:\d+: \S/, relayed('cut')),
    fault('a feed that says nothing', 'error', /sends nothing/, relayed('silence')),
    fault(
      'a feed that falls silent',
      'warning',
      /at most [3-9]\d{3} ms$/,
      relayed('falls silent', '8000'),
    ),
    fault('a feed that sends garbage', 'error', /not valid flashblocks/, relayed('garbage')),
  ]
}

function directoryFaults({ node }: Leader, { full, older, random }: Around): readonly Fault[] {
  const copied = (name: string, change: (path: string) => void | Promise<void>) => async () => {
    const path = temporary(name)
    cpSync(full, path, { recursive: true })
    await change(path)
    return ['--datadir', path, '--sample', '100000']
  }
  const marked = (fields: object) => (path: string) => {
    const file = join(path, 'flashnode.json')
    const marker = JSON.parse(readFileSync(file, 'utf8')) as object
    writeFileSync(file, JSON.stringify({ ...marker, ...fields }))
  }
  return [
    fault('a directory of something else', 'error', /no data directory/, async () => {
      const path = temporary('foreign')
      mkdirSync(join(path, 'photos'))
      return ['--datadir', path]
    }),
    fault(
      'a directory of a newer version',
      'error',
      /newer/,
      copied('newer', marked({ version: 99 })),
    ),
    fault(
      'a directory of an older version',
      'error',
      /has format 1/,
      copied('old', marked({ version: 1 })),
    ),
    fault('a directory that a node has open', 'error', /open in another process/, async () => [
      ...['--datadir', older],
    ]),
    fault('a directory of another chain', 'error', /directory chain: has chain/, async () => [
      ...['--chain', 'xlayer', '--datadir', full, '--sample', '0'],
    ]),
    fault(
      'a directory that is damaged',
      'error',
      /directory sample: \d+ findings/,
      copied('damaged', async (path) => {
        const database = await openSmall(join(path, 'state'))
        spoil(database, SPOILT.find(({ column }) => column === 'receipts')!, random)
        await database.close()
      }),
    ),
    fault('a port that is taken', 'error', /port \d+: .*EADDRINUSE/, async () => [
      ...['--port', new URL(node.url).port],
    ]),
  ]
}

function fault(name: string, status: Fault['status'], line: RegExp, argv: Argv): Fault {
  return { name, status, line, argv }
}

/**
 * Whether the command reports the low limit of open files, like every other command; it could not
 * open anything.
 */
async function hasFewFiles(): Promise<boolean> {
  const command = `ulimit -n ${FEW_FILES}; exec "${process.execPath}" workers/main.ts doctor`
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString()
    })
  const [status] = (await once(child, 'close')) as [number | null]
  return status === 1 && output.includes(`only ${FEW_FILES} files`)
}
