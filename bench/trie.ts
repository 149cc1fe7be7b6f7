/**
 * Compares random updates of a large trie, flashnode's and `@ethereumjs/mpt`, over the same RocksDB
 * with the same keys. They take turns, A B A B; results are medians.
 * Both read the same 10,000 keys, get the same root and store the new nodes; flashnode also writes
 * undo data. Each has a thread with a young generation of 48 MB (the persistence thread has less).
 * Each has as much memory for nodes as `serve` gives.
 * Usage: npm run bench:trie -- [--leaves 1000000] [--keys 10000] [--rounds 5] [--warm-up 20]
 * [--peer-hash shipped|ours] [--folder F]. A trie in F stays there for the next run. The package
 * hashes with its own JavaScript, or with flashnode's WebAssembly.
 */
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { bytesToHex } from '../engine/primitives/hex.ts'
import { columnOptions } from '../engine/storage/database/columns.ts'
import { openDatabase } from '../engine/storage/database/rocksdb.ts'
import type { Database } from '../engine/storage/database/types.ts'
import { openTrie } from '../engine/storage/trie/trie.ts'
import { mulberry32 } from '../test/kit/run-options.ts'
import { YOUNG_HEAP_MB } from '../workers/thread/heaps.ts'
import { ADDRESS, buildTrie } from './trie-build.ts'
import type { Sample, SideData, Update } from './trie-side.ts'

const { values } = parseArgs({
  options: {
    leaves: { type: 'string', default: '1000000' },
    keys: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '5' },
    /** Rounds that fill the caches of both and are not counted. */
    'warm-up': { type: 'string', default: '20' },
    'peer-hash': { type: 'string', default: 'shipped' },
    folder: { type: 'string' },
  },
})
const leaves = Number(values.leaves)
const keys = Number(values.keys)
const rounds = Number(values.rounds)
const warmUp = Number(values['warm-up'])
const hash = values['peer-hash']
if (hash !== 'shipped' && hash !== 'ours') throw new Error('--peer-hash: shipped or ours')
/** The caches have the shares that `serve` makes of its 512 MB (`--db-cache`). */
const CACHE_BYTES = 2 ** 29
const TRIE_CACHE_BYTES = CACHE_BYTES / 4

/** Waits until RocksDB has nothing to compact, which takes a minute after the trie is built. */
async function settle(database: Database): Promise<void> {
  for (let quiet = 0; quiet < 10; await sleep(100))
    quiet = database.stats().runningCompactions === 0 ? quiet + 1 : 0
}

function startSide(data: SideData) {
  const worker = new Worker(new URL('./trie-side.ts', import.meta.url), {
    workerData: data,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_HEAP_MB, maxOldGenerationSizeMb: 4_096 },
  })
  return {
    async update(updates: readonly Update[]): Promise<Sample> {
      worker.postMessage(updates)
      const [sample] = await once(worker, 'message')
      return sample
    },
    async stop(): Promise<void> {
      worker.postMessage(undefined)
      await once(worker, 'exit')
    },
  }
}

const median = (list: readonly number[]) => list.toSorted((a, b) => a - b)[list.length >> 1]!
/** Keys a second, by the clock or by the thread's processor time. */
const rate = (list: readonly Sample[], by: 'ms' | 'cpuMs') =>
  Math.round((1_000 * keys) / median(list.map((sample) => sample[by])))

const folder = values.folder ?? mkdtempSync(join(tmpdir(), 'flashnode-trie-'))
mkdirSync(folder, { recursive: true })
/** File with 2 bytes for each leaf: the number of its writes. */
const versionsFile = join(folder, `versions-${leaves}`)
const isBuilt = existsSync(versionsFile)
try {
  const database = await openDatabase(join(folder, 'state'), columnOptions(CACHE_BYTES), {
    createIfMissing: true,
  })
  const started = performance.now()
  if (!isBuilt) buildTrie(database, leaves)
  await settle(database)
  const seconds = Math.round((performance.now() - started) / 1_000)
  if (!isBuilt) console.log(`built ${leaves} leaves in ${seconds} s`)
  const versions = isBuilt
    ? new Uint16Array(new Uint8Array(readFileSync(versionsFile)).buffer)
    : new Uint16Array(leaves)
  const random = mulberry32(leaves + versions.reduce((sum, count) => sum + count, 0))
  const trie = openTrie({ database })
  const root = bytesToHex(trie.storageRoot(trie.base(), ADDRESS))
  const common = { database: database.share(), root, cacheBytes: TRIE_CACHE_BYTES, hash } as const
  const sides = (['flashnode', 'mpt'] as const).map((side) => startSide({ side, ...common }))
  const samples: readonly Sample[][] = sides.map(() => [])
  for (let round = -warmUp; round < rounds; round++) {
    const chosen = new Set<number>()
    while (chosen.size < keys) chosen.add(Math.floor(random() * leaves))
    const updates = [...chosen].map((index) => {
      const version = versions[index]! + 1
      versions[index] = version
      return { index, version }
    })
    const roots = new Set<string>()
    for (const [at, side] of sides.entries()) {
      const sample = await side.update(updates)
      roots.add(sample.root)
      if (round >= 0) samples[at]!.push(sample)
    }
    if (roots.size !== 1) throw new Error(`two roots: ${[...roots].join(' ')}`)
  }
  for (const side of sides) await side.stop()
  await database.close()
  writeFileSync(versionsFile, versions)
  console.log(
    `${cpus().length} cores, Node ${process.version}, ${rounds} rounds of ${keys} keys; @ethereumjs/mpt hashes with ${hash === 'ours' ? 'our function' : 'its own function'}\n`,
  )
  console.log(
    '| leaves | flashnode keys/s | @ethereumjs/mpt keys/s | ratio | flashnode /CPU-s | @ethereumjs/mpt /CPU-s | ratio |\n|---|---|---|---|---|---|---|',
  )
  const fields = (['ms', 'cpuMs'] as const).map((by) => {
    const [a, b] = samples.map((list) => rate(list, by))
    return `${a!.toLocaleString('en')} | ${b!.toLocaleString('en')} | ${(a! / b!).toFixed(1)}`
  })
  console.log(`| ${leaves.toLocaleString('en')} | ${fields.join(' | ')} |`)
} finally {
  if (values.folder === undefined) rmSync(folder, { recursive: true })
}
