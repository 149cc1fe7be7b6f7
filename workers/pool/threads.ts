/** The threads of the pool: started, replaced when they end, and stopped together. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { Piscina, type PiscinaTask, queueOptionsSymbol } from 'piscina'
import { YOUNG_HEAP_MB } from '../thread/heaps.ts'
import { createHolders, type HolderCounts, type Holders } from './holders.ts'
import type { PoolTask } from './task.ts'
import type { LongReplies } from './task-memory.ts'

export type PoolThreadOptions = {
  /**
   * Module whose default export runs a PoolTask: `serveTask`, bound to what the worker opened, or a
   * promise of it. It must be exported as 'module.exports' too, because Piscina requires the file.
   * Otherwise Node 24.21 aborts in CreateRequiredModuleFacade when the thread is terminated while
   * it wraps the default export.
   */
  readonly filename: string
  readonly workerData: unknown
  readonly threads: number
  /** Megabytes that one worker may use, on its heap and outside. */
  readonly heapMb: number
  /**
   * The thread has ended: its lease and its entry at the database's read barrier can be cleared.
   */
  readonly onThreadEnded: (thread: number) => void
  /**
   * Tells whether the thread has loaded its modules and addons; left out when it loads no addon.
   */
  readonly isLoaded?: (thread: number) => boolean
  /** A worker failed while it had no task. */
  readonly onProblem: (error: Error) => void
  /** No worker can be started any more. */
  readonly onBroken: (error: Error) => void
}

export interface PoolThreads {
  /**
   * Runs a task on a free thread, or on the next one that becomes free. It rejects when the thread
   * ends during the task.
   * @param replayed block of a trace; a thread that has replayed it is preferred
   */
  run(task: PoolTask, replayed?: string): Promise<LongReplies>
  /** Collects the garbage of every thread once that thread is free. */
  collect(): void
  /** Makes every thread load rarely needed modules once that thread is free. */
  prepare(): void
  /** Writes the compiled code of one thread to disk; the others have the same modules. */
  saveCompiled(): void
  find(thread: number): Worker | undefined
  readonly count: number
  /** Number of threads that ended before the stop. */
  readonly replaced: number
  readonly replays: HolderCounts
  /** Ends all threads and resolves when they have ended. */
  stop(): Promise<void>
}

/**
 * V8's own limit lies this far above ours, because reaching it may end the process. An allocation
 * or a collection that exceeds it by more than 16 MB does (2026-11: a loop that keeps strings did,
 * with 128 MB and with the usual young generation).
 */
const SPARE_HEAP_MB = 512
/** Maximum time that a stop waits for loading threads, and the interval of its checks. */
const LOAD_MS = 3_000
const CHECK_MS = 5

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

  /** Waits for loading threads: terminating one inside an addon's load ends the process. */
  async function loaded(): Promise<void> {
    const { isLoaded } = options
    if (isLoaded === undefined) return
    const isLoading = ({ threadId }: Worker) => threadId >= 0 && !isLoaded(threadId)
    const until = performance.now() + LOAD_MS
    while (piscina.threads.some(isLoading) && performance.now() < until) await sleep(CHECK_MS)
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
    // A thread that ends during the errand has no garbage left, so its failure is ignored.
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
/** Options that Piscina stores on this side of a task. */
type ForHolder = { readonly replayed: string }

function forHolder(task: PoolTask, replayed: string | undefined): PoolTask {
  if (replayed === undefined) return task
  const own: ForHolder = { replayed }
  return Object.assign({ [queueOptionsSymbol]: own }, task)
}

/**
 * Chooses a free worker: the first one, or a holder of the replayed block; null means that all are
 * busy.
 */
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

/**
 * Reports each thread's exit.
 * @returns looks for new threads
 */
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
    // Piscina does not restart a worker whose predecessor failed while starting.
    if (piscina.threads.length === 0) options.onBroken(error)
    else options.onProblem(error)
  })
  watch()
  return watch
}
