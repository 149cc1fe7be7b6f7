/**
 * Threads read while blocks are published, replaced, appended, persisted, unwound and pruned. No
 * view may ever be mixed.
 */
import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterAll, expect, test } from 'vitest'
import { openChainReader } from '../../../engine/chain/reader.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { clearThread, createViews, persistenceWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'
import { openSmall } from '../../fixtures/databases-open.ts'
import { EMPTY_WORLD } from '../../fixtures/view-blocks.ts'
import { plainChain } from '../../fixtures/view-chain.ts'
import { Driver } from '../../fixtures/view-driver.ts'
import { persistenceDurable } from '../../fixtures/view-persistence.ts'
import type { ViewThreadData, ViewThreadReport } from '../../fixtures/view-thread.ts'

const GENESIS = 5
const READERS = 3
/** Each reader checks at least this many blocks. */
const CHECKS = 300
const HISTORY = 40

const database = await openSmall(join(temporaryDirectory(), 'state'))
afterAll(() => database.close())

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('no thread ever reads a mixed view', async () => {
  const views = createViews({
    bytes: 2 ** 18,
    threads: READERS + 2,
    seed: 4711,
    pageBytes: 2048,
    cacheEntries: 64,
  })
  const durable = persistenceDurable({
    database,
    words: persistenceWords(views),
    genesisNumber: GENESIS,
    pieces: 1,
    undoWindow: 16,
    historyBlocks: HISTORY,
  })
  const publisher = openPublisher(views, { number: GENESIS, hash: plainChain(GENESIS).genesisHash })
  const driver = new Driver(publisher, durable, EMPTY_WORLD)
  const front = openChainReader({
    views,
    store: openStore(database),
    chain: plainChain(GENESIS),
    thread: 0,
  })

  const faults: string[] = []
  const seen = { checks: Array.from({ length: READERS + 2 }, () => 0), voids: 0, adopted: 0 }
  /** The front's leases by snapshot, until its worker has read the snapshot. */
  const lent = new Map<number, () => void>()
  const readers = new Map<number, Worker>()
  function start(thread: number) {
    const data: ViewThreadData = {
      database: database.share(),
      views,
      thread,
      genesisNumber: GENESIS,
      retainedBlocks: HISTORY - 20,
    }
    const path = new URL('../../fixtures/view-thread.ts', import.meta.url)
    const worker = new Worker(path, { workerData: data })
    worker.on('message', (report: ViewThreadReport) => {
      // The last messages of a thread that is being ended mean nothing, because its calls return
      // before they are complete.
      if (!readers.has(thread)) return
      if (report.type === 'fault') faults.push(report.message)
      else if (report.type === 'adopted') {
        if (!report.isPresent)
          faults.push(`snapshot ${report.snapshot} was refused while the front held it`)
        lent.get(report.snapshot)?.()
        lent.delete(report.snapshot)
        seen.adopted++
      } else {
        seen.checks[thread]! += report.checks
        seen.voids += report.voids
      }
    })
    worker.on('error', (error) => faults.push(String(error)))
    const { threadId } = worker
    worker.on('exit', () => database.threadEnded(threadId))
    readers.set(thread, worker)
    return worker
  }
  const ids = Array.from({ length: READERS }, (_, at) => at + 1)
  for (const id of ids) start(id)
  const victim = start(READERS + 1)

  let random = 2463534242
  const choose = (count: number) => {
    random ^= random << 13
    random ^= random >>> 17
    random ^= random << 5
    return (random >>> 0) % count
  }
  function act(): void {
    const seed = choose(100_000)
    const what = choose(200)
    if (what < 60) driver.flashblock(seed)
    else if (what < 80) driver.payload(seed)
    else if (what < 100) driver.seal()
    else if (what < 125) driver.advance()
    else if (what < 190) driver.slice(choose(4))
    else if (what < 195) driver.replace(seed)
    else if (what < 197) driver.flush()
    else if (what < 199 && lent.size < 2) {
      const leased = front.lease('flashblocks')
      if (lent.has(leased.snapshot)) leased.release()
      else {
        lent.set(leased.snapshot, leased.release)
        readers.get(1 + choose(READERS))!.postMessage({ snapshot: leased.snapshot })
      }
    } else if (seed % 5 === 0 && driver.persisted.length > 3)
      driver.branch(driver.persisted.at(-1 - choose(3))!, seed)
  }

  const hasSeenAll = () =>
    ids.every((id) => seen.checks[id]! >= CHECKS) &&
    seen.adopted >= 10 &&
    seen.voids >= 10 &&
    driver.persisted.length > 30 &&
    !readers.has(READERS + 1)
  const isBusy = () => faults.length === 0 && !hasSeenAll()
  while (isBusy()) {
    for (let n = 0; n < 20; n++) act()
    await turn()
    if (readers.get(READERS + 1) === victim && seen.checks[READERS + 1]! > 30) {
      // The thread is killed in the middle of a read; its row counts until it has ended.
      readers.delete(READERS + 1)
      void victim.terminate()
      await once(victim, 'exit')
      clearThread(views, READERS + 1)
    }
  }
  expect(faults).toEqual([])
  const workers = [...readers.values()]
  readers.clear()
  for (const worker of workers) await worker.terminate()
  // With all rows clear, every page except those of the diff layers in use is freed.
  for (const id of ids) clearThread(views, id)
  for (const release of lent.values()) release()
  driver.flush()
  const { refused } = driver
  for (let n = 0; n < 200; n++) driver.payload(n)
  expect(driver.refused).toBe(refused)
})
