/**
 * Measures eth_getLogs over 1,000 and 10,000 blocks, filtered and not. flashnode and anvil take
 * turns in one run, A B A B; results are medians. Every request has another range, so no result
 * cache answers.
 * Anvil's time for a block grows with the chain. With --blocks 2500 it is ready in a minute, and is
 * measured with 1,000 blocks only.
 * Usage: npm run bench:logs -- [--rounds 3] [--seconds 5] [--connections 4] [--blocks 10500]
 * [--only TEXT] [--no-anvil]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { columnsOf, compare } from './compare.ts'
import { COMMON, EVENT, ONE_IN_BLOCK, RARE, sendLogs, word, writeLogs } from './logs-chain.ts'
import { installAnvil, rpc, type Server, startBareAnvil, startCommand } from './servers.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string', default: '4' },
    blocks: { type: 'string', default: '10500' },
    only: { type: 'string', default: '' },
    'no-anvil': { type: 'boolean', default: false },
  },
})
const load = {
  rounds: Number(values.rounds),
  seconds: Number(values.seconds),
  connections: Number(values.connections),
}
const BLOCKS = Number(values.blocks)

type Workload = { readonly name: string; readonly width: number; readonly filter: object }
const filters: readonly (readonly [name: string, filter: object])[] = [
  ['no match', { address: `0x${'99'.repeat(20)}` }],
  ['address, 1 % of blocks', { address: RARE }],
  ['topic, 1 % of blocks', { topics: [EVENT, word(7)] }],
  ['address and one of 3 topics, 3 %', { address: COMMON, topics: [null, [1, 2, 3].map(word)] }],
  ['address, 99 % of blocks', { address: COMMON }],
  ['unfiltered', {}],
]
const widths = [1_000, 10_000].filter((width) => width < BLOCKS)
const workloads: readonly Workload[] = widths.flatMap((width) =>
  filters.map(([name, filter]) => ({
    name: `${width.toLocaleString('en')} blocks, ${name}`,
    width,
    filter,
  })),
)

const paramsOf = ({ width, filter }: Workload, first: number) => {
  const hex = (number: number) => `0x${number.toString(16)}`
  return [{ ...filter, fromBlock: hex(first), toBlock: hex(first + width - 1) }]
}

const requestsOf = (workload: Workload) =>
  Array.from({ length: 400 }, (_, at) => ({
    method: 'eth_getLogs',
    params: paramsOf(workload, 1 + ((at * 197) % (BLOCKS - workload.width))),
  }))

async function rowOf(workload: Workload, servers: readonly Server[]): Promise<string> {
  const counts = await Promise.all(
    servers.map(
      async ({ url }) =>
        ((await rpc(url, 'eth_getLogs', paramsOf(workload, 100))) as unknown[]).length,
    ),
  )
  if (new Set(counts).size > 1) throw new Error(`${workload.name}: ${counts.join(' and ')} logs`)
  const requests = requestsOf(workload)
  const { fields, errors } = await compare(servers, () => requests, load)
  return `| ${workload.name}${errors > 0 ? ` (${errors} errors)` : ''} | ${counts[0]} | ${fields.join(' | ')} |`
}

if (!values['no-anvil']) installAnvil()
const path = mkdtempSync(join(tmpdir(), 'flashnode-logs-'))
const servers: Server[] = []
try {
  await writeLogs(join(path, 'data'), BLOCKS)
  servers.push(await startCommand(['serve', '--datadir', join(path, 'data')]))
  if (!values['no-anvil']) {
    const anvil = await startBareAnvil(ONE_IN_BLOCK)
    servers.push(anvil)
    await sendLogs(anvil, BLOCKS)
  }
  console.log(
    `${cpus().length} cores, Node ${process.version}, ${load.rounds} rounds of ${load.seconds} s, ${load.connections} connections\n`,
  )
  const columns = columnsOf(servers)
  console.log(`| workload | logs | ${columns.join(' | ')} |\n|${'---|'.repeat(columns.length + 2)}`)
  for (const workload of workloads)
    if (workload.name.includes(values.only)) console.log(await rowOf(workload, servers))
} finally {
  for (const server of servers) await server.stop()
  rmSync(path, { recursive: true, force: true })
}
