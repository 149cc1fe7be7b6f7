/** The threads of the pool: started, replaced when they end, and ended all together. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { Piscina, type PiscinaTask, queueOptionsSymbol } from 'piscina'
import { YOUNG_HEAP_MB } from '../thread/heaps.ts'
import { createHolders, type HolderCounts, type Holders } from './holders.ts'
import type { PoolTask } from './task.ts'
import type { LongReplies } from './task-memory.ts'

export type PoolThreadOptions = {
  /**
   * Module whose default export, or what it resolves to, runs a PoolTask: `serveTask` bound to what the worker opened. Exported as
   * 'module.exports' too: Piscina requires the file, and Node aborts the process (a failed assertion in CreateRequiredModuleFacade of
   * 24.21) when the thread is terminated while it wraps a default export without that.
   */
  readonly filename: string
  readonly workerData: unknown
  readonly threads: number
  /** Megabytes that one worker may have, on its heap and outside. */
  readonly heapMb: number
  /** The thread has ended: its lease can be cleared and its place at the database's gate. */
  readonly onThreadEnded: (thread: number) => void
  /** The thread has loaded its modules and addons; left out: it loads no addon. */
  readonly isLoaded?: (thread: number) => boolean
  /** A worker failed while it had no task. */
  readonly onProblem: (error: Error) => void
  /** No worker can be started any more. */
  readonly onBroken: (error: Error) => void
}

export interface PoolThreads {
  /** On a free thread, or the next that is free; `replayed`: best on one that has replayed this block. Rejects when the thread ended under it. */
  run(task: PoolTask, replayed?: string): Promise<LongReplies>
  /** Has the garbage of every thread collected, as each is free. */
  collect(): void
  /** Has every thread load what is needed now and then, as each is free. */
  prepare(): void
  /** Has what one thread compiled written: the others have the same modules. */
  saveCompiled(): void
  find(thread: number): Worker | undefined
  readonly count: number
  /** Threads that ended before the stop. */
  readonly replaced: number
  readonly replays: HolderCounts
  /** Resolves when all have ended. */
  stop(): Promise<void>
}

/**
 * V8's own limit lies this far above ours, and is never to be reached: an allocation that passes it by more than 16 MB, or a collection
 * that does, ends the process and not the thread (2026-11: a loop that keeps strings did, with 128 MB and with the usual young generation).
 */
const SPARE_HEAP_MB = 512
/** How long a stop waits for threads that are still loading, and how often it looks. */
const LOAD_MS = 3_000
const LOOK_MS = 5

const errand = (what: NonNullable<PoolTask['errand']>): PoolTask => ({
  memory: new SharedArrayBuffer(0),
  long: [],
  port: undefined,
  errand: what,
})

export function startPoolThreads(options: PoolThreadOptions): PoolThreads {
  const { threads } = options
  const holders = createHolders()
  const piscina = new Piscina<PoolTask, LongReplies>({
    filename: options.filename,
    workerData: options.workerData,
    minThreads: threads,
    maxThreads: threads,
    atomics: 'sync',
    recordTiming: false,
    loadBalancer: (task, workers) => chooseWorker(holders, task, workers),
    resourceLimits: {
      maxOldGenerationSizeMb: options.heapMb + SPARE_HEAP_MB,
      maxYoungGenerationSizeMb: YOUNG_HEAP_MB,
    },
  })
  let isStopped = false
  let replaced = 0
  const watch = watchThreads(piscina, {
    ...options,
    onThreadEnded(thread) {
      if (!isStopped) replaced++
      holders.forget(thread)
      options.onThreadEnded(thread)
    },
  })

  /** A thread that is terminated while it loads an addon (that of `secp256k1` throws then) takes the process with it. */
  async function loaded(): Promise<void> {
    const { isLoaded } = options
    if (isLoaded === undefined) return
    const isLoading = ({ threadId }: Worker) => threadId >= 0 && !isLoaded(threadId)
    const until = performance.now() + LOAD_MS
    while (piscina.threads.some(isLoading) && performance.now() < until) await sleep(LOOK_MS)
  }

  function onEach(what: NonNullable<PoolTask['errand']>): void {
    for (let thread = 0; thread < threads; thread++) piscina.run(errand(what)).catch(watch)
  }

  return {
    run: (task, replayed) =>
      piscina
        .run(forHolder(task, replayed), task.port && { transferList: [task.port] })
        .catch((error: unknown) => {
          watch()
          throw error
        }),
    // One that ends under it has no garbage either.
    collect: () => onEach('collect'),
    prepare: () => onEach('prepare'),
    saveCompiled() {
      piscina.run(errand('save compiled')).catch(watch)
    },
    replays: holders.counts,
    find: (thread) => piscina.threads.find(({ threadId }) => threadId === thread),
    get count() {
      return piscina.threads.length
    },
    get replaced() {
      return replaced
    },
    async stop() {
      isStopped = true
      await loaded()
      await piscina.destroy()
    },
  }
}

type LoadBalancer = NonNullable<
  NonNullable<ConstructorParameters<typeof Piscina>[0]>['loadBalancer']
>
type PiscinaWorker = Parameters<LoadBalancer>[1][number]
/** What Piscina keeps on this side of a task. */
type ForHolder = { readonly replayed: string }

function forHolder(task: PoolTask, replayed: string | undefined): PoolTask {
  if (replayed === undefined) return task
  const own: ForHolder = { replayed }
  return Object.assign({ [queueOptionsSymbol]: own }, task)
}

/** A free one, the first but for what replays a block; null: all are busy. */
function chooseWorker(
  holders: Holders,
  task: PiscinaTask,
  workers: readonly PiscinaWorker[],
): PiscinaWorker | null {
  const own = task[queueOptionsSymbol] as ForHolder | null
  const isFree = ({ currentUsage }: PiscinaWorker) => currentUsage === 0
  if (own === null) return workers.find(isFree) ?? null
  const free = workers.filter(isFree)
  if (free.length === 0) return null
  const thread = holders.choose(
    free.map(({ id }) => id),
    own.replayed,
  )
  return free.find(({ id }) => id === thread)!
}

/** Tells when a thread has really ended; gives the function that looks for new ones. */
function watchThreads(piscina: Piscina, options: PoolThreadOptions): () => void {
  const watched = new Set<Worker>()
  function watch(): void {
    for (const worker of piscina.threads) {
      if (watched.has(worker)) continue
      watched.add(worker)
      const { threadId } = worker
      worker.once('exit', () => {
        watched.delete(worker)
        options.onThreadEnded(threadId)
      })
    }
  }
  piscina.on('workerCreate', watch)
  piscina.on('error', (error: Error) => {
    watch()
    // It does not start a worker again whose predecessor failed while starting.
    if (piscina.threads.length === 0) options.onBroken(error)
    else options.onProblem(error)
  })
  watch()
  return watch
}
