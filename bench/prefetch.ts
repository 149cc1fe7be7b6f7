/**
 * Measures the prefetching of an access list (docs/adr/0068). A thread reads accounts and slots in
 * order and computes after each, with and without a feed's prefetching thread. It reads from a disk
 * whose pages are dropped before, and from memory.
 * Usage: npm run bench:read-ahead -- [--rows 60,150,600] [--state 1000000] [--rounds 15] [--compute
 * 75 (µs after each row)]
 */
import { execFileSync } from 'node:child_process'
import { createHash, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { bytesToHex } from '../engine/primitives/hex.ts'
import type { JsonObject } from '../engine/primitives/json-fields.ts'
import { encodeRlp } from '../engine/primitives/rlp.ts'
import { columnOptions } from '../engine/storage/database/columns.ts'
import { attachDatabase, openDatabase } from '../engine/storage/database/rocksdb.ts'
import type { Database, SharedDatabase } from '../engine/storage/database/types.ts'
import { FEED_LIMITS } from '../workers/feed-client/limits.ts'
import { Prefetcher } from '../workers/feed-client/prefetcher.ts'

const SLOTS = 2
/** The smallest cache, so that reads reach the disk or the system's page cache. */
const CACHE_BYTES = 8 * 2 ** 20

const hash = (text: string): Bytes => new Uint8Array(createHash('sha256').update(text).digest())
const addressOf = (account: number): Bytes => hash(`account ${account}`).subarray(0, 20)
const slotOf = (account: number, slot: number): Bytes => hash(`slot ${account} ${slot}`)
const keyOf = (account: number, slot: number): Bytes => {
  const key = new Uint8Array(52)
  key.set(addressOf(account))
  key.set(slotOf(account, slot), 20)
  return key
}

if (isMainThread) await measure()
else await serve(workerData as SharedDatabase)

async function serve(shared: SharedDatabase): Promise<void> {
  const prefetcher = new Prefetcher({
    database: attachDatabase(shared),
    bounds: FEED_LIMITS.accessList,
    now: () => performance.now(),
    turn: () => new Promise((resolve) => setImmediate(resolve)),
    count() {},
    warn(message) {
      throw new Error(message)
    },
  })
  parentPort!.on('message', (metadata: JsonObject | 'end') => {
    if (metadata === 'end') return parentPort!.close()
    const startedMs = performance.now()
    void prefetcher
      .read(metadata)
      .then(() => parentPort!.postMessage(performance.now() - startedMs))
  })
  parentPort!.postMessage('ready')
}

async function measure(): Promise<void> {
  const { values } = parseArgs({
    options: {
      rows: { type: 'string', default: '60,150,600' },
      state: { type: 'string', default: '1000000' },
      rounds: { type: 'string', default: '15' },
      compute: { type: 'string', default: '75' },
    },
  })
  const accounts = Number(values.state)
  const rounds = Number(values.rounds)
  const computeMs = Number(values.compute) / 1_000
  const folder = mkdtempSync(join(tmpdir(), 'flashnode-read-ahead-'))
  const path = join(folder, 'state')
  try {
    await fill(path, accounts)
    const database = await openDatabase(path, columnOptions(CACHE_BYTES))
    const worker = new Worker(new URL(import.meta.url), { workerData: database.share() })
    await once(worker, 'message')
    console.log(
      '| rows | disk, without | disk, with | memory, without | memory, with | busy ahead, disk | memory |\n|---|---|---|---|---|---|---|',
    )
    for (const rows of values.rows.split(',').map(Number)) {
      const draw = () =>
        Array.from({ length: Math.ceil(rows / (1 + SLOTS)) }, () => randomInt(accounts))
      const beside = async (
        list: readonly number[],
      ): Promise<[own: number, prefetcher: number]> => {
        const done = once(worker, 'message')
        worker.postMessage(metadataOf(list))
        const own = execute(database, list, computeMs)
        return [own, (await done)[0]]
      }
      const samples: number[][] = [[], [], [], [], [], []]
      for (let round = 0; round < rounds; round++) {
        dropPages(path)
        samples[0]!.push(execute(database, draw(), computeMs))
        dropPages(path)
        const [cold, busyCold] = await beside(draw())
        const list = draw()
        execute(database, list, 0)
        samples[2]!.push(execute(database, list, computeMs))
        const [warm, busyWarm] = await beside(list)
        samples[1]!.push(cold)
        samples[3]!.push(warm)
        samples[4]!.push(busyCold)
        samples[5]!.push(busyWarm)
      }
      console.log(`| ${rows} | ${samples.map(median).join(' | ')} |`)
    }
    worker.postMessage('end')
    await once(worker, 'exit')
    await database.close()
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function fill(path: string, accounts: number): Promise<void> {
  const database = await openDatabase(path, columnOptions(), { createIfMissing: true })
  const batch = database.batch()
  for (let account = 0; account < accounts; account++) {
    const address = addressOf(account)
    batch.put('accounts', address, new Uint8Array(72).fill(account & 255))
    for (let slot = 0; slot < SLOTS; slot++)
      batch.put('slots', keyOf(account, slot), slotOf(account, slot))
    if (batch.length > 20_000) batch.commit()
  }
  batch.commit()
  database.flush()
  await database.close()
}

/** Drops pages of the database's files from the system's cache. */
function dropPages(path: string): void {
  for (const file of readdirSync(path).filter((name) => name.endsWith('.sst')))
    try {
      execFileSync('dd', [`if=${join(path, file)}`, 'iflag=nocache', 'count=0', 'status=none'], {
        stdio: 'ignore',
      })
    } catch {
      // A compaction has removed the file.
    }
}

/** Reads in the order of an execution: an account, then its slots. @returns milliseconds */
function execute(database: Database, list: readonly number[], computeMs: number): number {
  const keys = list.map((account) => ({
    address: addressOf(account),
    slots: Array.from({ length: SLOTS }, (_, slot) => keyOf(account, slot)),
  }))
  const startedMs = performance.now()
  for (const { address, slots } of keys) {
    if (database.get('accounts', address) === undefined) throw new Error('an account is missing')
    compute(computeMs)
    for (const key of slots) {
      if (database.get('slots', key) === undefined) throw new Error('a slot is missing')
      compute(computeMs)
    }
  }
  return performance.now() - startedMs
}

function compute(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end) {}
}

/**
 * Makes an access list in which the first slot of each account is changed and the others are read.
 */
function metadataOf(list: readonly number[]): JsonObject {
  const accounts = [...new Set(list)].map((account) => {
    const [changed, ...read] = Array.from({ length: SLOTS }, (_, slot) => slotOf(account, slot))
    return [addressOf(account), [[changed!, []]], read, [], [], []]
  })
  return { access_list: bytesToHex(encodeRlp(accounts)) }
}

function median(list: readonly number[]): string {
  return list.toSorted((a, b) => a - b)[list.length >> 1]!.toFixed(1)
}
