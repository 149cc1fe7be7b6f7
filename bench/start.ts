/**
 * Measures seconds from the start of a process to its line "flashnode ready". It covers a start
 * with nothing compiled (npm ci --ignore-scripts) and the first start after npm ci. It also covers
 * the second start on a new data directory, and one on the same directory.
 * With --against, another checkout takes turns, A B A B. It prints medians of time and of the
 * process's own processor time until it was ready. It ends with 1 if a start with nothing compiled
 * takes more than 2.2 times the second.
 * Usage: npm run bench:start -- [--rounds 5] [--against DIRECTORY]
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startCommand } from './servers.ts'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, against: { type: 'string' } },
})
const rounds = Number(values.rounds)
const checkouts = values.against === undefined ? ['.'] : ['.', values.against]
/** Maximum ratio of a start with nothing compiled to the second start. */
const MAX = 2.2

const KINDS = [
  'first, nothing compiled',
  'first after npm ci',
  'second, new data directory',
  'third, same data directory',
] as const
type Sample = { readonly seconds: number; readonly cpuSeconds: number }
type Round = readonly Sample[]

async function ready(checkout: string, datadir: string): Promise<Sample> {
  const started = performance.now()
  const server = await startCommand(['dev', '--datadir', datadir], checkout)
  const sample = { seconds: (performance.now() - started) / 1000, cpuSeconds: server.cpuSeconds() }
  await server.stop()
  return sample
}

async function round(checkout: string): Promise<Round> {
  const folder = mkdtempSync(join(tmpdir(), 'flashnode-start-'))
  const clear = () =>
    rmSync(join(checkout, 'node_modules/.cache'), { recursive: true, force: true })
  try {
    clear()
    const samples = [await ready(checkout, join(folder, 'bare'))]
    clear()
    execFileSync('npm', ['run', '-s', '--if-present', 'prepare'], { cwd: checkout })
    for (const name of ['first', 'second', 'second'])
      samples.push(await ready(checkout, join(folder, name)))
    return samples
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const all = checkouts.map((): Round[] => [])
for (let at = 0; at < rounds; at++)
  for (const [side, checkout] of checkouts.entries()) all[side]!.push(await round(checkout))

const median = (side: number, kind: number, key: keyof Sample): number =>
  all[side]!.map((samples) => samples[kind]![key]).toSorted((a, b) => a - b)[rounds >> 1]!
const fields = (kind: number, key: keyof Sample): string[] => {
  const each = all.map((_, side) => median(side, kind, key))
  return [...each, ...(each.length > 1 ? [each[0]! / each[1]!] : [])].map((n) => n.toFixed(2))
}
const columns = ['s', 'CPU-s'].flatMap((unit) => [
  `flashnode ${unit}`,
  ...(all.length > 1 ? [`the other ${unit}`, 'ratio'] : []),
])
console.log(`${cpus().length} cores, Node ${process.version}, ${rounds} rounds\n`)
console.log(`| start | ${columns.join(' | ')} |\n|${'---|'.repeat(columns.length + 1)}`)
for (const [kind, name] of KINDS.entries())
  console.log(
    `| ${name} | ${[...fields(kind, 'seconds'), ...fields(kind, 'cpuSeconds')].join(' | ')} |`,
  )
const toSecond = (side: number, kind: number) =>
  median(side, kind, 'seconds') / median(side, 2, 'seconds')
for (const kind of [0, 1]) {
  const ratios = all.map((_, side) => toSecond(side, kind).toFixed(2))
  console.log(
    `${kind === 0 ? '\n' : ''}${KINDS[kind]}, to the second: ${ratios.join(', the other ')}`,
  )
}
if (toSecond(0, 0) > MAX) process.exitCode = 1
