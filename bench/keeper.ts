/**
 * The keeper's thread over RocksDB under blocks of many changed keys: how long a writer waits for an append and a root, how long a slice
 * of a fold keeps everyone waiting. Flashblocks come at their pace, and what was appended is folded meanwhile, as in a node. What the
 * making of the state leaves behind, in the heap and in RocksDB, is over when it begins to count.
 * Usage: npm run bench:keeper -- [--keys 10000] [--blocks 100] [--state 1000000] [--pace 200 (ms between flashblocks)]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { chainSpec } from '../engine/chainspec/registry.ts'
import { encodeHeader } from '../engine/primitives/header-codec.ts'
import { keccak256 } from '../engine/primitives/keccak.ts'
import { encodeDiff } from '../engine/state/diff-codec.ts'
import { importGenesis } from '../engine/storage/blocks/genesis-import.ts'
import { columnOptions } from '../engine/storage/database/columns.ts'
import { openDatabase } from '../engine/storage/database/rocksdb.ts'
import { TRIE_CACHE_BYTES } from '../engine/storage/trie/trie.ts'
import type { KeeperAnswer, KeeperRequest } from '../engine/storage/types.ts'
import { createViews, keeperWords } from '../engine/views/arena.ts'
import { mergeDiffs } from '../test/fixtures/merged-diffs.ts'
import { mulberry32 } from '../test/kit/run-options.ts'
import type { KeeperData } from '../workers/keeper/keeper.ts'
import { postRequest } from '../workers/keeper/request.ts'
import { KEEPER_YOUNG_HEAP_MB } from '../workers/thread/heaps.ts'
import type { FromKeeper, ToKeeper } from '../workers/thread/messages.ts'
import { ChangingState } from './keeper-blocks.ts'

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
/** Blocks that are not counted. */
const WARM_UP = 20

const folder = mkdtempSync(join(tmpdir(), 'flashnode-bench-'))
const database = await openDatabase(join(folder, 'state'), columnOptions(), {
  createIfMissing: true,
})
const genesis = chainSpec({ name: 'xlayer', dev: { genesisTimestamp: 1 } })
importGenesis(database, genesis)
const views = createViews({ bytes: 1 << 20, threads: 1, seed: 1 })
keeperWords(views).setFold(1)
const toWriter = new MessageChannel()
const toSequencer = new MessageChannel()
const data: KeeperData = {
  ...{ database: database.share(), views },
  ...{ writer: toWriter.port1, sequencer: toSequencer.port1 },
  trieCacheBytes: TRIE_CACHE_BYTES,
}
const keeper = new Worker(new URL('../workers/keeper/keeper.ts', import.meta.url), {
  workerData: data,
  resourceLimits: { maxYoungGenerationSizeMb: KEEPER_YOUNG_HEAP_MB },
  transferList: [toWriter.port1, toSequencer.port1],
})
keeper.on('message', (message: FromKeeper) => {
  if (message.type === 'failed') throw new Error(message.message)
})

/** What a port has said, for whoever waits for it. */
function listen(port: MessagePort) {
  const waiting = new Set<(answer: KeeperAnswer) => void>()
  port.on('message', (answer: KeeperAnswer) => {
    if (answer.type === 'failed') throw new Error(answer.message)
    for (const look of waiting) look(answer)
  })
  return <Type extends KeeperAnswer['type']>(
    type: Type,
    fits: (answer: Extract<KeeperAnswer, { type: Type }>) => boolean,
  ) =>
    new Promise<Extract<KeeperAnswer, { type: Type }>>((resolve) => {
      const look = (answer: KeeperAnswer) => {
        if (answer.type !== type || !fits(answer as never)) return
        waiting.delete(look)
        resolve(answer as never)
      }
      waiting.add(look)
    })
}
const answered = listen(toWriter.port2)
const previewed = listen(toSequencer.port2)
const say = (request: KeeperRequest) => postRequest(toWriter.port2, request)

let asked = 0
/** A question without work behind it: how long the keeper is busy with something else. */
async function ping(): Promise<number> {
  const request = ++asked
  const started = performance.now()
  const answer = previewed('preview', (each) => each.request === request)
  const question: KeeperRequest = {
    type: 'preview',
    request,
    parentStateRoot: new Uint8Array(32),
    diff: [],
  }
  postRequest(toSequencer.port2, question)
  await answer
  return performance.now() - started
}

const state = new ChangingState(stateSize + keys * (blocks + WARM_UP + 1), mulberry32(1))
let head = { id: 1, header: genesis.genesisHeader, hash: genesis.genesisHash }
let foldedId = 1
toWriter.port2.on('message', (answer: KeeperAnswer) => {
  if (answer.type !== 'folded') return
  foldedId = answer.id
})

type What = 'advance' | 'lastAndRoot' | 'append' | 'slice' | 'lag'
const times: Record<What, number[]> = {
  ...{ advance: [], lastAndRoot: [], append: [], slice: [], lag: [] },
}
/** Of the keeper's thread meanwhile: on a machine that others work on too, this is what can be compared. */
const cpuTimes: { readonly lastAndRoot: number[]; readonly append: number[] } = {
  ...{ lastAndRoot: [], append: [] },
}
const FOLD_DEPTH = 4
/** Beyond this many unfolded blocks a writer hands over no more. */
const BACKLOG = 4
const QUESTION_MS = 3

const isBehind = (blocks: number) => head.id - FOLD_DEPTH - blocks > foldedId

/** Until then; where a fold goes on, it is asked how long it keeps others waiting. */
async function pause(until: number): Promise<void> {
  for (let now = performance.now(); now < until; now = performance.now()) {
    if (isBehind(0)) times.slice.push(await ping())
    // Asked without a pause it would do nothing else.
    await sleep(isBehind(0) ? QUESTION_MS : Math.min(20, until - now))
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
    say({ type: 'advance', id, parentId, diff })
    // The last one: its root is asked for at once.
    if (diff !== diffs.at(-1)) {
      await ping()
      times.advance.push(performance.now() - sentAt)
    }
  }
  const answer = answered('root', (each) => each.id === id)
  say({ type: 'root', id })
  const { stateRoot, withdrawalsRoot } = await answer
  times.lastAndRoot.push(performance.now() - sentAt)
  cpuTimes.lastAndRoot.push((await cpuMs()) - cpuAt)
  const { header: parent, hash: parentHash } = head
  const header = { ...parent, parentHash, number: parent.number + 1n, stateRoot, withdrawalsRoot }
  const encoded = encodeHeader(header)
  const hash = keccak256(encoded)
  const appended = answered('appended', (each) => each.id === id)
  const diff = encodeDiff(mergeDiffs(diffs))
  cpuAt = await cpuMs()
  const appendAt = performance.now()
  const number = Number(header.number)
  say({
    type: 'append',
    block: {
      ...{ id, parentId, number, hash, parentHash, header: encoded, diff },
      ...{ transactions: [], receipts: [], momentary: [] },
    },
  })
  await appended
  times.append.push(performance.now() - appendAt)
  cpuTimes.append.push((await cpuMs()) - cpuAt)
  head = { id, header, hash }
  times.lag.push(head.id - FOLD_DEPTH - foldedId)
  while (isBehind(BACKLOG)) await pause(performance.now() + QUESTION_MS)
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
keeper.postMessage({ type: 'stop' } satisfies ToKeeper)
await new Promise((resolve) => keeper.once('exit', resolve))
toWriter.port2.close()
toSequencer.port2.close()
await database.close()
rmSync(folder, { recursive: true })

console.log(
  `${cpus().length} cores, Node ${process.version}; ${blocks} blocks of ${keys} changed keys in ${FLASHBLOCKS} flashblocks, ${state.size} keys in the state\n`,
)
console.log(`the keeper's thread used ${(cpu / blocks).toFixed(1)} ms of CPU a block\n`)
console.log(
  '| what | p50 ms | p99 ms | max ms | CPU p50 ms | CPU p99 ms |\n|---|---|---|---|---|---|',
)
async function cpuMs(): Promise<number> {
  const { user, system } = await keeper.cpuUsage()
  return (user + system) / 1_000
}
const quantiles = (list: readonly number[], wanted: readonly number[]) => {
  const sorted = list.toSorted((a, b) => a - b)
  return wanted.map((q) => sorted[Math.ceil(sorted.length * q) - 1]?.toFixed(1) ?? '')
}
const row = (what: string, list: readonly number[], cpuList: readonly number[] = []) => {
  const cells = [...quantiles(list, [0.5, 0.99, 1]), ...quantiles(cpuList, [0.5, 0.99])]
  console.log(`| ${[what, ...cells].join(' | ')} |`)
}
row(`a flashblock of ${keys / FLASHBLOCKS} keys into the trie`, times.advance)
row(
  'last flashblock and root: what index 0 of the next block waits for',
  times.lastAndRoot,
  cpuTimes.lastAndRoot,
)
row('append', times.append, cpuTimes.append)
row('a question during a fold (one slice)', times.slice)
row('blocks that wait for their fold, beyond its depth (no ms)', times.lag)
