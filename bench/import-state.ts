/**
 * Measures memory and time of `flashnode import-state`, run as a user runs it. Account dumps of the
 * given sizes are made and loaded one after the other. Every tenth account has code and four slots.
 * Usage: npm run bench:import-state -- [--accounts 1000000,10000000] [--folder F]   (10 million: 2
 * GB of dump, 4 GB of state)
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { writeDump } from './workloads/dump.ts'

const { values } = parseArgs({
  options: {
    accounts: { type: 'string', default: '1000000,10000000' },
    folder: { type: 'string' },
  },
})
const sizes = values.accounts.split(',').map(Number)
const SAMPLE_MS = 500

/** Current resident megabytes; undefined when the process is gone. */
function residentMiB(pid: number): number | undefined {
  try {
    return Number(/VmRSS:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024
  } catch {
    return undefined
  }
}

const folder = values.folder ?? mkdtempSync(join(tmpdir(), 'flashnode-import-state-'))
mkdirSync(folder, { recursive: true })
try {
  console.log('| accounts | seconds | peak RSS | RSS after each tenth |\n|---|---|---|---|')
  for (const size of sizes) {
    writeDump(folder, size)
    const datadir = join(folder, 'data')
    if (existsSync(datadir)) rmSync(datadir, { recursive: true })
    const started = performance.now()
    const child = spawn(process.execPath, [
      ...['workers/main.ts', 'import-state', '--log-level', 'error'],
      ...['--chain', join(folder, 'genesis.json'), '--state', join(folder, 'dump.jsonl')],
      ...['--block', join(folder, 'header.json'), '--datadir', datadir],
    ])
    let said = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        said += chunk
      })
    const samples: number[] = []
    const timer = setInterval(() => {
      const megabytes = residentMiB(child.pid!)
      if (megabytes !== undefined) samples.push(megabytes)
    }, SAMPLE_MS)
    const [code] = await once(child, 'close')
    clearInterval(timer)
    if (code !== 0) throw new Error(`ended with ${code}: ${said}`)
    const seconds = (performance.now() - started) / 1_000
    const tenths = Array.from({ length: 10 }, (_, at) =>
      Math.round(samples[Math.floor(((at + 1) * (samples.length - 1)) / 10)] ?? 0),
    )
    const peak = samples.reduce((a, b) => Math.max(a, b), 0)
    console.log(
      `| ${size.toLocaleString('en')} | ${seconds.toFixed(0)} | ${peak.toFixed(0)} MB | ${tenths.join(' ')} |`,
    )
    rmSync(datadir, { recursive: true })
  }
} finally {
  if (values.folder === undefined) rmSync(folder, { recursive: true })
}
