/**
 * Measures the persistence thread over RocksDB with blocks of many changed keys. It prints how long
 * a writer waits for an append and a root. It also prints how long a slice of persisting blocks
 * other requests.
 * Flashblocks come at their pace, and appended blocks are persisted meanwhile, as in a node.
 * Counting starts when heap and RocksDB have settled after the state was built.
 * Usage: npm run bench:persistence -- [--keys 10000] [--blocks 100] [--state 1000000] [--pace 200
 * (ms between flashblocks)]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { chainSpec } from '../engine/chainspec/registry.ts'
import { encodeHeader } from '../engine/primitives/header.ts'
import { keccak256 } from '../engine/primitives/keccak.ts'
import { encodeDiff } from '../engine/state/diff-codec.ts'
import { importGenesis } from '../engine/storage/blocks/genesis-import.ts'
import { columnOptions } from '../engine/storage/database/columns.ts'
import { openDatabase } from '../engine/storage/database/rocksdb.ts'
import { TRIE_CACHE_BYTES } from '../engine/storage/trie/trie.ts'
import type { PersistenceRequest, PersistenceResponse } from '../engine/storage/types.ts'
import { createViews, persistenceWords } from '../engine/views/arena.ts'
import { mergeDiffs } from '../test/fixtures/merged-diffs.ts'
import { mulberry32 } from '../test/kit/run-options.ts'
import type { PersistenceData } from '../workers/persistence/persistence.ts'
import { postRequest } from '../workers/persistence/request.ts'
import { PERSISTENCE_YOUNG_HEAP_MB } from '../workers/thread/heaps.ts'
import type { FromPersistence, ToPersistence } from '../workers/thread/messages.ts'
import { ChangingState } from './persistence-blocks.ts'

const { values } = parseArgs({
  options: {
    keys: { type: 'string', default: '10000' },
    blocks: { type: 'string', default: '100' },
    state: { type: 'string', default: '1000000' },
    pace: { type: 'string', default: '200' },
  },
})
const keys = Number(values.keys)
const blocks = Number(values.blocks)
const stateSize = Number(values.state)
const paceMs = Number(values.pace)
const FLASHBLOCKS = 5
const WARM_UP = 20

const folder = mkdtempSync(join(tmpdir(), 'flashnode-bench-'))
const database = await openDatabase(join(folder, 'state'), columnOptions(), {
  createIfMissing: true,
})
const genesis = chainSpec({ name: 'xlayer', dev: { genesisTimestamp: 1 } })
importGenesis(database, genesis)
const views = createViews({ bytes: 1 << 20, threads: 1, seed: 1 })
persistenceWords(views).setPersistedId(1)
const toWriter = new MessageChannel()
const toSequencer = new MessageChannel()
const data: PersistenceData = {
  database: database.share(),
  views,
  writer: toWriter.port1,
  sequencer: toSequencer.port1,
  trieCacheBytes: TRIE_CACHE_BYTES,
}
const persistence = new Worker(new URL('../workers/persistence/persistence.ts', import.meta.url), {
  workerData: data,
  resourceLimits: { maxYoungGenerationSizeMb: PERSISTENCE_YOUNG_HEAP_MB },
  transferList: [toWriter.port1, toSequencer.port1],
})
persistence.on('message', (message: FromPersistence) => {
  if (message.type === 'failed') throw new Error(message.message)
})

/** Makes a function that waits for a port's next response of a type. */
function listen(port: MessagePort) {
  const waiting = new Set<(response: PersistenceResponse) => void>()
  port.on('message', (response: PersistenceResponse) => {
    if (response.type === 'failed') throw new Error(response.message)
    for (const check of waiting) check(response)
  })
  return <Type extends PersistenceResponse['type']>(
    type: Type,
    fits: (response: Extract<PersistenceResponse, { type: Type }>) => boolean,
  ) =>
    new Promise<Extract<PersistenceResponse, { type: Type }>>((resolve) => {
      const check = (response: PersistenceResponse) => {
        if (response.type !== type || !fits(response as never)) return
        waiting.delete(check)
        resolve(response as never)
      }
      waiting.add(check)
    })
}
const nextResponse = listen(toWriter.port2)
const previewed = listen(toSequencer.port2)
const post = (request: PersistenceRequest) => postRequest(toWriter.port2, request)

let requested = 0
/**
 * Sends a request without work, whose duration is the time that the persistence thread is busy
 * otherwise.
 */
async function ping(): Promise<number> {
  const request = ++requested
  const started = performance.now()
  const response = previewed('preview', (each) => each.request === request)
  const question: PersistenceRequest = {
    type: 'preview',
    request,
    parentStateRoot: new Uint8Array(32),
    diff: [],
  }
  postRequest(toSequencer.port2, question)
  await response
  return performance.now() - started
}

const state = new ChangingState(stateSize + keys * (blocks + WARM_UP + 1), mulberry32(1))
let head = { id: 1, header: genesis.genesisHeader, hash: genesis.genesisHash }
let persistedId = 1
toWriter.port2.on('message', (response: PersistenceResponse) => {
  if (response.type !== 'folded') return
  persistedId = response.id
})

type What = 'advance' | 'lastAndRoot' | 'append' | 'slice' | 'lag'
const times: Record<What, number[]> = {
  advance: [],
  lastAndRoot: [],
  append: [],
  slice: [],
  lag: [],
}
/** Processor time of the persistence thread, which is comparable even on a busy machine. */
const cpuTimes: { readonly lastAndRoot: number[]; readonly append: number[] } = {
  lastAndRoot: [],
  append: [],
}
const PERSIST_DEPTH = 4
/** With more unpersisted blocks a writer submits no further one. */
const BACKLOG = 4
const QUESTION_MS = 3

const hasBacklog = (blocks: number) => head.id - PERSIST_DEPTH - blocks > persistedId

/**
 * Waits until this time; while persisting goes on, pings measure how long a slice blocks others.
 */
async function pause(until: number): Promise<void> {
  for (let now = performance.now(); now < until; now = performance.now()) {
    if (hasBacklog(0)) times.slice.push(await ping())
    // Pings without a pause would prevent persisting.
    await sleep(hasBacklog(0) ? QUESTION_MS : Math.min(20, until - now))
  }
}

async function block(
  change: (count: number) => ReturnType<ChangingState['touch']>,
  { count, pace }: { readonly count: number; readonly pace: number },
) {
  const { id: parentId } = head
  const id = parentId + 1
  const diffs = Array.from({ length: FLASHBLOCKS }, () => change(count / FLASHBLOCKS))
  const started = performance.now()
  let sentAt = 0
  let cpuAt = 0
  for (const [index, diff] of diffs.entries()) {
    await pause(started + index * pace)
    if (diff === diffs.at(-1)) cpuAt = await cpuMs()
    sentAt = performance.now()
    post({ type: 'advance', id, parentId, diff })
    // The root is requested right after the last diff, without a ping.
    if (diff !== diffs.at(-1)) {
      await ping()
      times.advance.push(performance.now() - sentAt)
    }
  }
  const response = nextResponse('root', (each) => each.id === id)
  post({ type: 'root', id })
  const { stateRoot, withdrawalsRoot } = await response
  times.lastAndRoot.push(performance.now() - sentAt)
  cpuTimes.lastAndRoot.push((await cpuMs()) - cpuAt)
  const { header: parent, hash: parentHash } = head
  const header = { ...parent, parentHash, number: parent.number + 1n, stateRoot, withdrawalsRoot }
  const encoded = encodeHeader(header)
  const hash = keccak256(encoded)
  const appended = nextResponse('appended', (each) => each.id === id)
  const diff = encodeDiff(mergeDiffs(diffs))
  cpuAt = await cpuMs()
  const appendAt = performance.now()
  const number = Number(header.number)
  post({
    type: 'append',
    block: {
      id,
      parentId,
      number,
      hash,
      parentHash,
      header: encoded,
      diff,
      transactions: [],
      receipts: [],
      partialHeaders: [],
    },
  })
  await appended
  times.append.push(performance.now() - appendAt)
  cpuTimes.append.push((await cpuMs()) - cpuAt)
  head = { id, header, hash }
  times.lag.push(head.id - PERSIST_DEPTH - persistedId)
  while (hasBacklog(BACKLOG)) await pause(performance.now() + QUESTION_MS)
}

while (state.size < stateSize)
  await block((count) => state.grow(count), { count: Math.min(50_000, stateSize), pace: 0 })
for (let at = 0; at < WARM_UP; at++)
  await block((count) => state.touch(count), { count: keys, pace: paceMs })
for (const list of [...Object.values(times), ...Object.values(cpuTimes)]) list.length = 0
const cpuBefore = await cpuMs()
for (let at = 0; at < blocks; at++)
  await block((count) => state.touch(count), { count: keys, pace: paceMs })

const cpu = (await cpuMs()) - cpuBefore
persistence.postMessage({ type: 'stop' } satisfies ToPersistence)
await new Promise((resolve) => persistence.once('exit', resolve))
toWriter.port2.close()
toSequencer.port2.close()
await database.close()
rmSync(folder, { recursive: true })

console.log(
  `${cpus().length} cores, Node ${process.version}; ${blocks} blocks of ${keys} changed keys in ${FLASHBLOCKS} flashblocks, ${state.size} keys in the state\n`,
)
console.log(`the persistence thread used ${(cpu / blocks).toFixed(1)} ms of CPU a block\n`)
console.log(
  '| what | p50 ms | p99 ms | max ms | CPU p50 ms | CPU p99 ms |\n|---|---|---|---|---|---|',
)
async function cpuMs(): Promise<number> {
  const { user, system } = await persistence.cpuUsage()
  return (user + system) / 1_000
}
const quantiles = (list: readonly number[], wanted: readonly number[]) => {
  const sorted = list.toSorted((a, b) => a - b)
  return wanted.map((q) => sorted[Math.ceil(sorted.length * q) - 1]?.toFixed(1) ?? '')
}
const row = (what: string, list: readonly number[], cpuList: readonly number[] = []) => {
  const fields = [...quantiles(list, [0.5, 0.99, 1]), ...quantiles(cpuList, [0.5, 0.99])]
  console.log(`| ${[what, ...fields].join(' | ')} |`)
}
row(`a flashblock of ${keys / FLASHBLOCKS} keys into the trie`, times.advance)
row(
  'last flashblock and root: what index 0 of the next block waits for',
  times.lastAndRoot,
  cpuTimes.lastAndRoot,
)
row('append', times.append, cpuTimes.append)
row('a question during a persist pass (one slice)', times.slice)
row('blocks that wait for their persist pass, beyond its depth (no ms)', times.lag)
