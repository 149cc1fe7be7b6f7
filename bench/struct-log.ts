/**
 * Measures the memory of a struct log with raised limits, as the peak above the idle state. It
 * covers the worker that makes the log, the front that sends it, and the whole process.
 * The metrics page reports a thread's heap and external memory. Pieces between worker and front
 * count only in the process. The client retains nothing.
 * Usage: npm run bench:struct-log -- [--steps 2000000] [--repeats 3] [--engine fast]
 */
import { readFileSync, rmSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { freePort } from '../test/kit/free-port.ts'
import { type Server, startCommand } from './servers.ts'
import { loop } from './workloads/calldata.ts'
import { writeGenesis } from './workloads/genesis.ts'
import { CALLER, COMPUTE } from './workloads/world.ts'

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '2000000' },
    repeats: { type: 'string', default: '3' },
    engine: { type: 'string', default: 'fast' },
  },
})
const MAX_BYTES = 8 * 1024 ** 3
const LIMITS = [
  ...['--limit-response-bytes', `${MAX_BYTES}`, '--limit-unsent-bytes', `${MAX_BYTES}`],
  ...['--limit-trace-steps', `${4 * Number(values.steps)}`, '--limit-trace-ms', '600000'],
  ...['--limit-unsent-ms', '600000', '--limit-call-gas', '500000000'],
]
const METRICS_EVERY_MS = 50
const RSS_EVERY_MS = 20
const IDLE_MS = 3_000
/** Text that each step contains once. */
const STEP = '"pc":'
const THREAD = /^flashnode_thread_bytes\{thread="(pool_\d+)",memory="\w+"\} (\d\S*)$/gm

/** Bytes of heap and external memory of the front and of each pool thread, and of the process. */
type Memory = ReadonlyMap<string, number>
type Traced = { readonly steps: number; readonly bytes: number; readonly seconds: number }

const metricsPort = await freePort()
const { allocFile, genesisFile } = writeGenesis({ flashnode: 0, anvil: 0 })
const server = await startCommand([
  ...['dev', '--ephemeral', '--genesis-alloc', allocFile, '--engine', values.engine],
  ...['--admin-port', `${metricsPort}`, ...LIMITS],
])
try {
  const iterations = await iterationsFor(Number(values.steps))
  console.log(
    `| steps | answer MB | s | worker MB | front heap MB | front external MB | process MB |\n|${'---|'.repeat(7)}`,
  )
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
  const rest = await memoryOf(server)
  for (let repeat = 0; repeat < Number(values.repeats); repeat++) {
    const { peak, traced } = await peakDuring(() => trace(iterations + repeat))
    const above = (part: RegExp) =>
      Math.max(...[...peak].map(([name, bytes]) => (part.test(name) ? bytes - rest.get(name)! : 0)))
    const { steps, bytes, seconds } = traced
    const fields = [
      ...[steps.toLocaleString('en'), mega(bytes), seconds.toFixed(1)],
      // Only one thread of the pool makes the response.
      ...[/^pool_/, /^front heap/, /^front external/, /^process/].map(above).map(mega),
    ]
    console.log(`| ${fields.join(' | ')} |`)
  }
} finally {
  await server.stop()
  for (const file of [allocFile, genesisFile]) rmSync(file)
}

function mega(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

/** Computes the iterations for this many steps, because each iteration takes equally many. */
async function iterationsFor(steps: number): Promise<number> {
  const [few, more] = [await trace(100), await trace(200)]
  const perIteration = (more.steps - few.steps) / 100
  return Math.ceil((steps - few.steps) / perIteration) + 100
}

async function trace(iterations: number): Promise<Traced> {
  const call = { from: CALLER, to: COMPUTE, data: loop('checkedLoop', iterations) }
  const params = [call, 'latest', { timeout: '600s' }]
  const started = performance.now()
  const response = await fetch(server.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'debug_traceCall', params }),
  })
  let [steps, bytes, rest] = [0, 0, '']
  for await (const chunk of response.body!) {
    bytes += chunk.length
    const text = rest + Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString('latin1')
    for (let at = text.indexOf(STEP); at >= 0; at = text.indexOf(STEP, at + 1)) steps++
    rest = text.slice(-(STEP.length - 1))
  }
  if (steps === 0) throw new Error(`no step: ${rest}`)
  return { steps, bytes, seconds: (performance.now() - started) / 1_000 }
}

async function peakDuring(
  work: () => Promise<Traced>,
): Promise<{ readonly peak: Memory; readonly traced: Traced }> {
  const peak = new Map<string, number>()
  const raise = (seen: Memory) => {
    for (const [name, bytes] of seen) peak.set(name, Math.max(peak.get(name) ?? 0, bytes))
  }
  let isOver = false
  const watching = (async () => {
    while (!isOver) {
      raise(await memoryOf(server))
      await new Promise((resolve) => setTimeout(resolve, METRICS_EVERY_MS))
    }
  })()
  const rss = setInterval(() => raise(new Map([['process', rssOf(server)]])), RSS_EVERY_MS)
  try {
    return { traced: await work(), peak }
  } finally {
    isOver = true
    clearInterval(rss)
    await watching
  }
}

async function memoryOf(of: Server): Promise<Memory> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  const memory = new Map([
    ['front heap', metricOf(text, 'nodejs_heap_size_used_bytes')],
    ['front external', metricOf(text, 'nodejs_external_memory_bytes')],
    ['process', rssOf(of)],
  ])
  for (const [, thread, bytes] of text.matchAll(THREAD))
    memory.set(thread!, (memory.get(thread!) ?? 0) + Number(bytes))
  return memory
}

function metricOf(text: string, name: string): number {
  const value = new RegExp(`^${name} (\\d\\S*)$`, 'm').exec(text)?.[1]
  if (value === undefined) throw new Error(`no metric ${name}`)
  return Number(value)
}

function rssOf({ pid }: Server): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) * 1_024
}
