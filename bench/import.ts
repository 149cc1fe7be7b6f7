/**
 * Measures executing and verifying a chain of blocks: `flashnode import` into RocksDB beside
 * @ethereumjs/vm over maps. They take turns, each in a process of its own.
 * Usage: node bench/import.ts [--rounds 3] [DIR …]   (DIR with genesis.json and chain.rlp; by
 * default the conformance data)
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { decodeBlocks } from '../engine/primitives/block-codec.ts'

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '3' } },
  allowPositionals: true,
})
const data = process.env['CONFORMANCE_DIR'] ?? '../shared/conformance'
const directories =
  positionals.length > 0
    ? positionals
    : [`${data}/rpc-compat/tests`, `${data}/chain-facts/ethtest-chain`]
const SIDES = ['flashnode', '@ethereumjs/vm'] as const
type Run = { readonly seconds: number; readonly cpuSeconds: number }

for (const directory of directories) {
  const chain = Uint8Array.from(readFileSync(join(directory, 'chain.rlp')))
  let [blocks, gas] = [0, 0n]
  for (const { header } of decodeBlocks(chain)) {
    blocks++
    gas += header.gasUsed
  }
  const runs = new Map<string, Run[]>(SIDES.map((side) => [side, []]))
  for (let round = 0; round < Number(values.rounds); round++)
    for (const side of SIDES) runs.get(side)!.push(await run(side, directory))
  console.log(`\n${directory}: ${blocks} blocks, ${(Number(gas) / 1e6).toFixed(1)} Mgas`)
  console.log('| | blocks/s | Mgas/s | blocks/CPU-s |\n|---|---|---|---|')
  const median = (side: string, of: (run: Run) => number) =>
    runs
      .get(side)!
      .map(of)
      .sort((a, b) => a - b)[runs.get(side)!.length >> 1]!
  for (const side of SIDES) {
    const seconds = median(side, (one) => one.seconds)
    const cpu = median(side, (one) => one.cpuSeconds)
    const rates = [blocks / seconds, Number(gas) / 1e6 / seconds, blocks / cpu]
    console.log(`| ${side} | ${rates.map((rate) => rate.toFixed(1)).join(' | ')} |`)
  }
}

/** Measures a whole process: both sides load their code, read the file and end. */
async function run(side: (typeof SIDES)[number], directory: string): Promise<Run> {
  const datadir = mkdtempSync(join(tmpdir(), 'flashnode-bench-'))
  const files = ['genesis.json', 'chain.rlp'].map((name) => join(directory, name))
  const argv =
    side === 'flashnode'
      ? ['workers/main.ts', 'import', '--log-level', 'error', '--datadir', datadir].concat([
          '--genesis',
          files[0]!,
          '--chain',
          files[1]!,
        ])
      : ['bench/import-vm.ts', ...files]
  const started = performance.now()
  const child = spawn('bash', ['-c', 'time "$@"', 'time', process.execPath, ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TIMEFORMAT: '%U %S' },
  })
  let [out, errors] = ['', '']
  child.stdout.on('data', (chunk) => {
    out += chunk
  })
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  const [code] = await once(child, 'close')
  const seconds = (performance.now() - started) / 1_000
  rmSync(datadir, { recursive: true, force: true })
  if (code !== 0) throw new Error(`${side} ended with ${code}: ${errors}${out}`)
  const [user = 0, system = 0] = errors.trim().split('\n').at(-1)!.split(' ').map(Number)
  return { seconds, cpuSeconds: user + system }
}
