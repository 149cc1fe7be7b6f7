/**
 * Random updates of a large trie, ours and `@ethereumjs/mpt` in one run over the same RocksDB with the same keys: A B A B, medians. Both
 * read the same 10,000 keys, hash to the same root and have the new nodes in the store; ours also writes what undoes them.
 * Usage: npm run bench:trie -- [--leaves 1000000] [--keys 10000] [--rounds 5] [--folder F]: a trie built in F stays there for the next run
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createMPT, type MerklePatriciaTrie } from '@ethereumjs/mpt'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { bytesToHex } from '../engine/primitives/hex.ts'
import { keccak256 } from '../engine/primitives/keccak.ts'
import { decodeDiff, encodeDiff } from '../engine/state/diff-codec.ts'
import { columnOptions } from '../engine/storage/columns.ts'
import { type Database, openDatabase } from '../engine/storage/database.ts'
import { openTrie, type StateTrie, TRIE_CACHE_BYTES } from '../engine/storage/trie.ts'
import { undoRows } from '../engine/storage/trie-rows.ts'
import { mulberry32 } from '../test/outside/run-options.ts'
import { ACCOUNT, ADDRESS, buildTrie, slotOf, wordOf, wordRlp } from './trie-build.ts'

const { values } = parseArgs({
  options: {
    leaves: { type: 'string', default: '1000000' },
    keys: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '5' },
    folder: { type: 'string' },
  },
})
const leaves = Number(values.leaves)
const keys = Number(values.keys)
const rounds = Number(values.rounds)
/** Rounds that fill the caches of both and are not counted. */
const WARM_UP = 10
/** Of one commit, as a fold has it. */
const ROWS_IN_PIECE = 400
/** Of the other: nodes in memory, of about half a kilobyte, as many as ours has room for. */
const CACHE_NODES = 131_072

type Update = { readonly index: number; readonly version: number }
type Sample = {
  readonly ms: number
  /** Of the thread: what RocksDB does in threads of its own is not in it. */
  readonly cpuMs: number
  readonly root: string
}

function ours(trie: StateTrie, database: Database, updates: readonly Update[]): Sample {
  const slots = updates.map(({ index, version }) => ({
    key: slotOf(index),
    before: wordOf(index, version - 1),
    after: wordOf(index, version),
  }))
  const change = { address: ADDRESS, before: ACCOUNT, after: ACCOUNT, slots, code: undefined }
  // As the keeper gets it.
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
  for (const { column, key, value } of writes) {
    if (value === undefined) batch.delete(column, key)
    else batch.put(column, key, value)
    if (batch.length >= ROWS_IN_PIECE) batch.commit()
  }
  batch.commit()
  trie.stored(version)
  for (const _ of trie.keep(version, writes));
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

/** Its nodes by hash in a column that has the options of ours. */
async function openTheirs(database: Database, root: Bytes): Promise<MerklePatriciaTrie> {
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
    root,
    valueEncoding: 'view',
    useKeyHashing: true,
    useKeyHashingFunction: keccak256,
    cacheSize: CACHE_NODES,
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

const median = (list: readonly number[]) => list.toSorted((a, b) => a - b)[list.length >> 1]!
/** Keys in a second, by the clock or by the time of the thread. */
const rate = (list: readonly Sample[], by: 'ms' | 'cpuMs') =>
  Math.round((1_000 * keys) / median(list.map((sample) => sample[by])))

const folder = values.folder ?? mkdtempSync(join(tmpdir(), 'flashnode-trie-'))
mkdirSync(folder, { recursive: true })
/** Of each leaf, how often it was written: 2 bytes. */
const versionsFile = join(folder, `versions-${leaves}`)
const isBuilt = existsSync(versionsFile)
try {
  const database = await openDatabase(join(folder, 'state'), columnOptions(), {
    createIfMissing: true,
  })
  const started = performance.now()
  if (!isBuilt) buildTrie(database, leaves)
  const seconds = Math.round((performance.now() - started) / 1_000)
  if (!isBuilt) console.log(`built ${leaves} leaves in ${seconds} s`)
  const versions = isBuilt
    ? new Uint16Array(new Uint8Array(readFileSync(versionsFile)).buffer)
    : new Uint16Array(leaves)
  const random = mulberry32(leaves + versions.reduce((sum, count) => sum + count, 0))
  const trie = openTrie({ database, cacheBytes: TRIE_CACHE_BYTES })
  const root = trie.storageRoot(trie.base(), ADDRESS)
  const mpt = await openTheirs(database, root)
  const samples: [Sample[], Sample[]] = [[], []]
  for (let round = -WARM_UP; round < rounds; round++) {
    const chosen = new Set<number>()
    while (chosen.size < keys) chosen.add(Math.floor(random() * leaves))
    const updates = [...chosen].map((index) => {
      const version = versions[index]! + 1
      versions[index] = version
      return { index, version }
    })
    const pair = [ours(trie, database, updates), await theirs(mpt, updates)] as const
    if (pair[0].root !== pair[1].root) throw new Error(`two roots: ${pair[0].root} ${pair[1].root}`)
    if (round >= 0) for (const which of [0, 1] as const) samples[which].push(pair[which])
  }
  await database.close()
  writeFileSync(versionsFile, versions)
  console.log(`${cpus().length} cores, Node ${process.version}, ${rounds} rounds of ${keys} keys\n`)
  console.log(
    '| leaves | flashnode keys/s | @ethereumjs/mpt keys/s | ratio | flashnode /CPU-s | @ethereumjs/mpt /CPU-s | ratio |\n|---|---|---|---|---|---|---|',
  )
  const cells = (['ms', 'cpuMs'] as const).map((by) => {
    const [a, b] = [rate(samples[0], by), rate(samples[1], by)]
    return `${a.toLocaleString('en')} | ${b.toLocaleString('en')} | ${(a / b).toFixed(1)}`
  })
  console.log(`| ${leaves.toLocaleString('en')} | ${cells.join(' | ')} |`)
} finally {
  if (values.folder === undefined) rmSync(folder, { recursive: true })
}
