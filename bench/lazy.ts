/**
 * Compares calls on a lazy state that has all touched values with calls on a full state. Two
 * followers of one development chain take turns, A B A B; results are medians. Nothing is fetched
 * during the measurement, and no response is cached.
 * Usage: npm run bench:lazy -- [--rounds 5] [--seconds 4] [--connections 16] [--only TEXT]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { load } from '../workers/commands/bench/load.ts'
import { type Server, startCommand } from './servers.ts'
import { writeGenesis } from './workloads/genesis.ts'
import { READS } from './workloads/reads.ts'
import { bodyOf, NEVER_THE_SAME, type Row } from './workloads/row.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '16' },
    only: { type: 'string', default: 'eth_call' },
  },
})
const rounds = Number(values.rounds)
/**
 * Keys of this many requests are fetched beforehand; HOLDERS requests differ before the first
 * returns with another mark.
 */
const WARM = 200
const HOLDERS = 100_000

type Side = { readonly server: Server; requested: number; readonly perCpu: number[] }

/** Makes a new request each time that reads the same keys as one of the first requests. */
const questionAt = (row: Row, at: number, apart: number) =>
  bodyOf(row.question(Math.floor(at / WARM) * apart + (at % WARM)))

async function request(side: Side, row: Row, isOver: () => boolean): Promise<number> {
  // A multicall reads 50 holders.
  const apart = row.name.includes('multicall') ? HOLDERS / 50 : HOLDERS
  const { server } = side
  const cpu = server.cpuSeconds()
  const { responses, failed, firstFailure } = await load({
    url: server.url,
    connections: Number(values.connections),
    next: () => (isOver() ? undefined : { body: questionAt(row, side.requested++, apart) }),
  })
  if (failed > 0) throw new Error(`${row.name}: ${firstFailure}`)
  return responses / (server.cpuSeconds() - cpu)
}

async function compare(row: Row, servers: readonly Server[]): Promise<string> {
  const sides = servers.map((server): Side => ({ server, requested: 0, perCpu: [] }))
  // Requests sent one side after the other fetch missing values and warm the code.
  for (const side of sides) await request(side, row, () => side.requested >= 20 * WARM)
  for (let round = 0; round < rounds; round++)
    for (const side of sides) {
      const until = performance.now() + Number(values.seconds) * 1_000
      side.perCpu.push(await request(side, row, () => performance.now() > until))
    }
  const [full, lazy] = sides.map(({ perCpu }) => perCpu.toSorted((a, b) => a - b)[rounds >> 1]!)
  const text = (n: number) => Math.round(n).toLocaleString('en')
  return `| ${row.name} | ${text(lazy!)} | ${text(full!)} | ${(lazy! / full!).toFixed(2)} |`
}

const folder = mkdtempSync(join(tmpdir(), 'flashnode-lazy-'))
const { allocFile, genesisFile } = writeGenesis({ flashnode: HOLDERS, anvil: 0 })
const servers: Server[] = []
try {
  const chain = await startCommand([
    ...['dev', '--datadir', join(folder, 'dev'), '--genesis-alloc', allocFile],
  ])
  servers.push(chain)
  const { origin, host } = new URL(chain.url)
  const follow = (state: string) =>
    startCommand([
      ...['follow', '--chain', join(folder, 'dev/genesis.json'), '--datadir', join(folder, state)],
      ...['--state', state, '--upstream', origin, '--feed', `ws://${host}/feed`],
      ...['--upstream-rate', '10000'],
    ])
  for (const state of ['whole', 'lazy']) servers.push(await follow(state))
  console.log(`${cpus().length} cores, Node ${process.version}, ${rounds} rounds\n`)
  console.log(`| warm calls | lazy /CPU-s | full /CPU-s | ratio |\n|${'---|'.repeat(4)}`)
  const rows = READS.rows.filter(
    ({ name }) => name.includes(values.only) && name.includes(NEVER_THE_SAME),
  )
  for (const row of rows) console.log(await compare(row, servers.slice(1)))
} finally {
  for (const server of servers.toReversed()) await server.stop()
  for (const path of [allocFile, genesisFile, folder])
    rmSync(path, { recursive: true, force: true })
}
