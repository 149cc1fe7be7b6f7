/**
 * The main thread starts the reading threads and offers snapshots to them. It kills them in the
 * middle of a read, and replaces them.
 */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Database } from '../../engine/storage/database/types.ts'
import type { SharedViews } from '../../engine/views/types.ts'
import { type Claims, releaseEnded } from '../../workers/thread/rows.ts'
import { beatsOf, type Count, type SharedCounters } from './counters.ts'
import { cpuSeconds } from './cpu-time.ts'
import type { SharedLedger } from './ledger.ts'
import {
  createOffer,
  isReading,
  type Lend,
  lendTo,
  markEnding,
  markReading,
  type Offer,
} from './offers.ts'
import { READERS, type TortureOptions } from './options.ts'
import type { FromReader, ReaderData } from './reader.ts'

type Options = {
  readonly options: TortureOptions
  readonly database: Database
  readonly views: SharedViews
  readonly ledger: SharedLedger
  readonly counters: SharedCounters
  readonly control: Int32Array<SharedArrayBuffer>
  readonly claims: Claims
  readonly onFault: (message: string) => void
  readonly count: Count
  readonly firstLine: number
  /** Returns the row of the front that lends to a reader. */
  readonly frontOf: (index: number) => number
  readonly onStarted: (index: number, offer: Offer) => void
}

type Thread = {
  readonly worker: Worker
  readonly ended: Promise<unknown>
  readonly id: number
  readonly line: number
  readonly offer: Offer
  isStopped: boolean
  isEnding: boolean
  beats: number
  /** Processor time of the process at the last sign of life. */
  beatAt: number
}

/** A thread hangs when it does nothing during this much processor time of the process. */
const STALL_SECONDS = 10

export class Readers {
  readonly #options: Options
  readonly #threads: Thread[] = []
  #killAtMs: number
  #seed: number
  #kills = 0

  constructor(options: Options) {
    this.#options = options
    this.#seed = options.options.seed + 100
    this.#killAtMs = performance.now() + options.options.killEveryMs
    for (let index = 0; index < READERS; index++) this.#threads.push(this.#start(index))
  }

  readonly lend: Lend = (snapshot, index) => lendTo(this.#threads[index]!.offer, snapshot)

  /** Kills a reader when the time has come, and reports readers that hang. */
  async check(): Promise<void> {
    const now = performance.now()
    const used = cpuSeconds()
    for (const thread of this.#threads) {
      const beats = beatsOf(this.#options.counters, thread.line)
      if (beats !== thread.beats) Object.assign(thread, { beats, beatAt: used })
      else if (used - thread.beatAt > STALL_SECONDS)
        this.#options.onFault(`reader ${thread.line} has stopped in the middle of a read`)
    }
    if (now < this.#killAtMs) return
    this.#killAtMs = now + this.#options.options.killEveryMs
    const index = this.#kills % READERS
    const thread = this.#threads[index]!
    if (!isReading(thread.offer)) return
    await this.#kill(thread)
    this.#kills++
    this.#options.count('kills')
    this.#threads[index] = this.#start(index)
  }

  /** Asks all readers to release their snapshots. */
  async stop(): Promise<void> {
    Atomics.store(this.#options.control, 1, 1)
    for (const thread of this.#threads)
      while (!thread.isStopped && cpuSeconds() - thread.beatAt < STALL_SECONDS) await sleep(5)
  }

  async end(): Promise<void> {
    for (const thread of this.#threads) {
      // A thread must not be terminated while it loads, because V8 then aborts the process.
      while (!isReading(thread.offer) && thread.worker.threadId >= 0) await sleep(5)
      await this.#kill(thread)
    }
  }

  async #kill(thread: Thread): Promise<void> {
    markEnding(thread.offer)
    thread.isEnding = true
    void thread.worker.terminate()
    await thread.ended
    this.#forget(thread)
  }

  #forget({ id }: Thread): void {
    const { database, views, claims } = this.#options
    releaseEnded({ database, views, claims }, id)
  }

  #start(index: number): Thread {
    const { options, database, views, ledger, counters, control, claims, firstLine } = this.#options
    const offer = createOffer()
    const line = firstLine + index
    const { readers: habits } = options
    const front = this.#options.frontOf(index)
    const shared = { views, ledger, counters, control, claims, front, offer, line, habits }
    const worker = new Worker(new URL('./reader.ts', import.meta.url), {
      workerData: {
        ...shared,
        database: database.share(),
        seed: this.#seed++,
      } satisfies ReaderData,
    })
    const thread: Thread = {
      worker,
      offer,
      line,
      id: worker.threadId,
      ended: once(worker, 'exit'),
      isStopped: false,
      isEnding: false,
      beats: -1,
      beatAt: cpuSeconds(),
    }
    worker.on('message', (message: FromReader) => {
      // Messages of a terminated thread count as nothing, because its calls can return early.
      if (thread.isEnding) return
      if (message.type === 'reading') markReading(offer)
      else if (message.type === 'stopped') thread.isStopped = true
      else this.#options.onFault(message.message)
    })
    worker.on('error', (error) => {
      if (!thread.isEnding) this.#options.onFault(`reader ${line}: ${error.stack}`)
    })
    this.#options.onStarted(index, offer)
    return thread
  }
}
