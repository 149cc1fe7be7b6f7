/**
 * Measures requests a second and per CPU-second of flashnode and a peer in one run. They take
 * turns, A B B A; results are medians of the rounds. The peer is anvil, or with --against another
 * checkout of flashnode. Both start with the same state, and have to answer a sample of each row
 * alike.
 * Usage: npm run bench -- [--rounds 3] [--seconds 5] [--connections 32] [--only TEXT] [--against
 * DIRECTORY]
 */
import { rmSync } from 'node:fs'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { load } from '../workers/commands/bench/load.ts'
import { agree } from './agree.ts'
import { installAnvil, type Server, startAnvil, startFlashnode } from './servers.ts'
import { fillHolders } from './workloads/fill.ts'
import { writeGenesis } from './workloads/genesis.ts'
import { READS } from './workloads/reads.ts'
import { bodyOf, type Group, type Row } from './workloads/row.ts'
import { SENDS } from './workloads/sends.ts'
import { TRACES } from './workloads/traces.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string', default: '32' },
    only: { type: 'string', default: '' },
    against: { type: 'string' },
  },
})
const rounds = Number(values.rounds)
const seconds = Number(values.seconds)
const connections = Number(values.connections)
const GROUPS: readonly Group[] = [READS, ...SENDS, ...TRACES]

type Sample = {
  readonly rate: number
  readonly perCpu: number
  readonly p50Ms: number
  readonly p99Ms: number
}
/** A server under one row, with the number of requests sent. */
type Side = {
  readonly server: Server
  requested: number
  readonly samples: Sample[]
  errors: number
}

async function measure(side: Side, row: Row): Promise<Sample> {
  const { server } = side
  const last = side.requested + (row.amount ?? Number.POSITIVE_INFINITY)
  // The last request is made now, which also makes all earlier ones.
  if (row.amount !== undefined) row.question(last - 1)
  const cpu = server.cpuSeconds()
  const until = performance.now() + seconds * 1_000
  const isOver = () =>
    row.amount === undefined ? performance.now() > until : side.requested >= last
  const loaded = await load({
    url: server.url,
    connections: Math.min(connections, row.connections),
    next: () => (isOver() ? undefined : { body: bodyOf(row.question(side.requested++)) }),
  })
  if (loaded.failed > 0 && side.errors === 0)
    process.stderr.write(`${server.name}: ${row.name}: ${loaded.firstFailure}\n`)
  side.errors += loaded.failed
  await row.settle?.(server, side.requested)
  const { responses, p50Ms, p99Ms } = loaded
  const perCpu = responses / (server.cpuSeconds() - cpu)
  return { rate: responses / loaded.seconds, perCpu, p50Ms, p99Ms }
}

async function compare(row: Row, servers: readonly Server[]): Promise<string> {
  const isPeerOptional = row.isPeerOptional === true || values.against !== undefined
  const responding = await agree(row, { servers, isPeerOptional })
  const sides = responding.map((server): Side => ({ server, requested: 0, samples: [], errors: 0 }))
  for (const side of sides) await measure(side, row)
  // The order changes, because a round of sends also signs what the next side sends again.
  for (let round = 0; round < rounds; round++)
    for (const side of round % 2 === 0 ? sides : sides.toReversed())
      side.samples.push(await measure(side, row))
  const errors = sides.reduce((sum, side) => sum + side.errors, 0)
  if (errors > 0) process.exitCode = 1
  const latency = ({ samples }: Side) =>
    `${median(samples, 'p50Ms').toFixed(2)} / ${median(samples, 'p99Ms').toFixed(2)}`
  const fields = [
    errors > 0 ? `${row.name} (${errors} errors)` : row.name,
    ...pair(sides, 'rate'),
    ...pair(sides, 'perCpu'),
    values.against === undefined ? (row.aim ?? '') : '',
    latency(sides[0]!),
    sides[1] === undefined ? '-' : latency(sides[1]),
  ]
  return `| ${fields.join(' | ')} |`
}

function median(samples: readonly Sample[], key: keyof Sample): number {
  return samples.map((sample) => sample[key]).toSorted((a, b) => a - b)[samples.length >> 1]!
}

function pair([ours, theirs]: readonly Side[], key: 'rate' | 'perCpu'): readonly string[] {
  const mine = median(ours!.samples, key)
  if (theirs === undefined) return [rounded(mine), '-', '-']
  const other = median(theirs.samples, key)
  return [rounded(mine), rounded(other), (mine / other).toFixed(2)]
}
const rounded = (n: number) => (n < 100 ? n.toPrecision(3) : Math.round(n).toLocaleString('en'))

async function run(group: Group): Promise<void> {
  const { rows, holders, isFilled, prepare } = group
  const { allocFile, genesisFile } = writeGenesis({
    flashnode: isFilled ? 0 : holders,
    anvil: holders,
  })
  const servers: Server[] = []
  try {
    servers.push(await startFlashnode(allocFile))
    servers.push(
      values.against === undefined
        ? await startAnvil(genesisFile, group)
        : await startFlashnode(allocFile, values.against),
    )
    if (isFilled) await fillHolders(values.against === undefined ? [servers[0]!] : servers, holders)
    await prepare?.(servers)
    for (const row of rows) console.log(await compare(row, servers))
  } finally {
    for (const server of servers) await server.stop()
    for (const file of [allocFile, genesisFile]) rmSync(file)
  }
}

if (values.against === undefined) installAnvil()
const peer = values.against === undefined ? 'anvil' : 'the other'
console.log(
  `${cpus().length} cores, Node ${process.version}, ${rounds} rounds of ${seconds} s, at most ${connections} connections\n`,
)
const columns = [
  ...['/s', '/CPU-s'].flatMap((unit) => [`flashnode ${unit}`, `${peer} ${unit}`, 'ratio']),
  ...['aim', 'flashnode p50 / p99 ms', `${peer} p50 / p99 ms`],
]
console.log(`| workload | ${columns.join(' | ')} |\n|${'---|'.repeat(columns.length + 1)}`)
for (const group of GROUPS) {
  const rows = group.rows.filter(({ name }) => name.includes(values.only))
  if (rows.length > 0) await run({ ...group, rows })
}
