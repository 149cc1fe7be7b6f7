/**
 * One side of the comparison of tries, in a thread of its own like the persistence thread.
 * Otherwise one side would collect the other's garbage, which is slow with the objects of a large
 * cache.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { createMPT, type MerklePatriciaTrie } from '@ethereumjs/mpt'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { bytesToHex } from '../engine/primitives/hex.ts'
import { keccak256 } from '../engine/primitives/keccak.ts'
import { decodeDiff, encodeDiff } from '../engine/state/diff-codec.ts'
import { attachDatabase } from '../engine/storage/database/rocksdb.ts'
import type { Database, SharedDatabase } from '../engine/storage/database/types.ts'
import { putNode } from '../engine/storage/trie/rows.ts'
import { openTrie, type StateTrie } from '../engine/storage/trie/trie.ts'
import { undoRows } from '../engine/storage/trie/undo.ts'
import { ACCOUNT, ADDRESS, slotOf, wordOf, wordRlp } from './trie-build.ts'

export type SideData = {
  readonly side: 'flashnode' | 'mpt'
  readonly database: SharedDatabase
  readonly root: string
  /** Cache size of flashnode's trie; the other one caches as many nodes as fit into it. */
  readonly cacheBytes: number
  /** Hash function of the other trie: its own, or flashnode's. */
  readonly hash: PeerHash
}
export type PeerHash = 'shipped' | 'ours'
export type Update = { readonly index: number; readonly version: number }
export type Sample = {
  readonly ms: number
  /** Processor time of the thread, without RocksDB's own threads. */
  readonly cpuMs: number
  readonly root: string
}

/** Rows of one commit, as in a persist pass. */
const ROWS_IN_PIECE = 256
const NODE_BYTES = 532

function ours(trie: StateTrie, database: Database, updates: readonly Update[]): Sample {
  const slots = updates.map(({ index, version }) => ({
    key: slotOf(index),
    before: wordOf(index, version - 1),
    after: wordOf(index, version),
  }))
  const change = { address: ADDRESS, before: ACCOUNT, after: ACCOUNT, slots, code: undefined }
  // The diff is encoded and decoded, as for the persistence thread.
  const diff = decodeDiff(encodeDiff([change]))
  const stop = startClock()
  const version = trie.fork(trie.base())
  trie.apply(version, diff)
  const root = trie.storageRoot(version, ADDRESS)
  const steps = trie.writes(version)
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  const writes = step.value
  const batch = database.batch()
  for (const { key, value } of undoRows(root, writes)) {
    batch.put('undo', key, value)
    batch.commit()
  }
  for (const write of writes) {
    putNode(batch, write)
    if (batch.length >= ROWS_IN_PIECE) batch.commit()
  }
  batch.commit()
  trie.stored(version)
  for (const _ of trie.cacheWritten(version, writes));
  return { ...stop(), root: bytesToHex(root) }
}

async function theirs(trie: MerklePatriciaTrie, updates: readonly Update[]): Promise<Sample> {
  const entries = updates.map(
    ({ index, version }) => [slotOf(index), wordRlp(index, version)] as const,
  )
  const stop = startClock()
  trie.checkpoint()
  for (const [key, value] of entries) await trie.put(key, value)
  await trie.commit()
  return { ...stop(), root: bytesToHex(trie.root()) }
}

/** Opens the other trie, whose nodes are stored by hash in a column with flashnode's options. */
async function openTheirs(
  database: Database,
  { root, cacheBytes, hash }: Pick<SideData, 'root' | 'cacheBytes' | 'hash'>,
): Promise<MerklePatriciaTrie> {
  const column = 'accountTrie'
  const bytes = (hex: string) => Buffer.from(hex, 'hex')
  type Operation = { readonly type: 'put' | 'del'; readonly key: string; readonly value?: unknown }
  const write = async (operations: readonly Operation[]) => {
    const batch = database.batch()
    for (const { type, key, value } of operations)
      if (type === 'put') batch.put(column, bytes(key), value as Bytes)
      else batch.delete(column, bytes(key))
    batch.commit()
  }
  const db = {
    get: async (key: string) => database.get(column, bytes(key)),
    put: (key: string, value: unknown) => write([{ type: 'put', key, value }]),
    del: (key: string) => write([{ type: 'del', key }]),
    batch: write,
    shallowCopy: () => db,
    open: async () => {},
  }
  return createMPT({
    db,
    root: bytes(root.slice(2)),
    valueEncoding: 'view',
    useKeyHashing: true,
    ...(hash === 'ours' ? { useKeyHashingFunction: keccak256 } : {}),
    cacheSize: Math.round(cacheBytes / NODE_BYTES),
  })
}

function startClock(): () => Pick<Sample, 'ms' | 'cpuMs'> {
  const startedAt = performance.now()
  const before = process.threadCpuUsage()
  return () => {
    const { user, system } = process.threadCpuUsage(before)
    return { ms: performance.now() - startedAt, cpuMs: (user + system) / 1_000 }
  }
}

async function run(): Promise<void> {
  const data = workerData as SideData
  const database = attachDatabase(data.database, { isWriter: true })
  let step: (updates: readonly Update[]) => Sample | Promise<Sample>
  if (data.side === 'flashnode') {
    const trie = openTrie({ database, cacheBytes: data.cacheBytes })
    step = (updates) => ours(trie, database, updates)
  } else {
    const trie = await openTheirs(database, data)
    step = (updates) => theirs(trie, updates)
  }
  parentPort!.on('message', async (updates: readonly Update[] | undefined) => {
    if (updates === undefined) parentPort!.close()
    else parentPort!.postMessage(await step(updates))
  })
}

if (parentPort !== null) void run()
