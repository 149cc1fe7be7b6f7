/**
 * Measures what a pool worker spends on a call around the engine, from reading the task to writing
 * the reply. The engine returns at once, so the whole time is the worker's own.
 * Prints µs of processor time for each call; --reads also reports what calls read.
 * Usage: npm run bench:call-path [-- --rounds N] [--engine NAME] [--reads]
 */
import { parseArgs } from 'node:util'
import type { Engine, Outcome, Session } from '../engine/evm/engine.ts'
import { engineByName } from '../engine/evm/engines/registry.ts'
import { EMPTY_HASH } from '../engine/primitives/keccak.ts'
import { DEFAULT_LIMITS } from '../rpc/core/limits.ts'
import { createCallRunner } from '../rpc/dispatch/worker-call.ts'
import { methods } from '../rpc/methods/index.ts'
import { CHAIN } from '../test/fixtures/producer.ts'
import { canonical, createBranches } from '../test/fixtures/writer-branches.ts'
import { WriterWorld } from '../test/fixtures/writer-world.ts'
import { type PoolTask, serveTask } from '../workers/pool/task.ts'
import {
  createTaskMemory,
  readReply,
  type TaskCall,
  writeCalls,
} from '../workers/pool/task-memory.ts'
import { processNow } from '../workers/thread/running-clock.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    engine: { type: 'string' },
    tasks: { type: 'string', default: '1,16,64' },
    reads: { type: 'boolean', default: false },
  },
})
const CALLS = 20_000

const world = new WriterWorld()
await world.apply({ type: 'feed', feed: 0, isConnected: true })
for (const block of (await createBranches()).a.slice(0, 3)) await canonical(world, block)

const engine = values.engine === undefined ? instantEngine() : engineByName(values.engine)
const runner = createCallRunner({
  reader: world.reader,
  chain: CHAIN,
  engine,
  limits: DEFAULT_LIMITS,
  methods,
  now: () => performance.now(),
  onBug(error) {
    throw error
  },
})
console.log(`engine ${engine.name}; µs of processor per call: median (least) of ${values.rounds}`)
for (const count of values.tasks.split(',').map(Number)) {
  await measure(count)
  const times: number[] = []
  for (let round = 0; round < Number(values.rounds); round++) times.push(await measure(count))
  times.sort((a, b) => a - b)
  const [min, median] = [times[0]!, times[times.length >> 1]!]
  console.log(`tasks of ${count}: ${median.toFixed(2)} (${min.toFixed(2)})`)
}

async function measure(count: number): Promise<number> {
  const memory = createTaskMemory()
  const task: PoolTask = {
    memory: memory.bytes.buffer as SharedArrayBuffer,
    long: [],
    port: undefined,
  }
  let micros = 0
  for (let done = 0; done < CALLS; done += count) {
    writeCalls(
      memory,
      Array.from({ length: count }, (_, at) => callOf(done + at)),
    )
    const before = process.threadCpuUsage()
    await serveTask(task, runner, processNow)
    const { user, system } = process.threadCpuUsage(before)
    micros += user + system
    const reply = readReply(memory, count - 1, [])
    if (reply === undefined || !('result' in reply)) throw new Error(JSON.stringify(reply))
  }
  return micros / CALLS
}

/** A call of balanceOf for some holder. */
function callOf(number: number): TaskCall {
  const holder = number.toString(16).padStart(40, '0')
  const data = `0x70a08231${holder.padStart(64, '0')}`
  return {
    method: 'eth_call',
    text: `[{"to":"0xc5d2460186f7233c927e7db2dcc703c0e500b653","data":"${data}"},"latest"]`,
    endpoint: 'flashblocks',
    snapshot: undefined,
    deadline: processNow() + 1_000,
    wantsReads: values.reads,
  }
}

/** An engine without state whose every call succeeds with 32 bytes. */
function instantEngine(): Engine {
  const output = new Uint8Array(32).fill(7)
  const account = { nonce: 0n, balance: 0n, codeHash: EMPTY_HASH }
  const nothing = () => {}
  const run = (): Outcome => ({ status: 'success', gasLeft: 1n, refund: 0n, output, logs: [] })
  const session: Session = {
    run,
    account: () => account,
    exists: () => true,
    code: () => output,
    slot: () => output,
    addBalance: nothing,
    setNonce: nothing,
    setCode: nothing,
    setSlot: nothing,
    clearStorage: nothing,
    warm: nothing,
    accessed: () => [],
    startTransaction: nothing,
    endTransaction: nothing,
    checkpoint: () => 0,
    revert: nothing,
    diff: () => [],
    reopen: nothing,
    setTrace: nothing,
    close: nothing,
    fieldsRead: () => 0,
  }
  return { name: 'instant', openSession: () => session, precompiles: () => [] }
}
