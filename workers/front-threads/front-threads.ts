/** The main thread's side of the front threads: starts, notifies, answers and replaces them. */
import { Worker } from 'node:worker_threads'
import { openSuspicion, type Suspicion } from '../../engine/sources/suspicion.ts'
import type { TransactionService } from '../../rpc/core/ports.ts'
import { clearSeen } from '../../rpc/events/shared-seen.ts'
import { clearEnded } from '../../rpc/limiter/memory.ts'
import { releaseEndedConcurrency } from '../../rpc/limiter/shared-concurrency-limits.ts'
import { threadOf } from '../../rpc/limiter/shared-rows.ts'
import type { ListenAddress } from '../front/front.ts'
import type { Report } from '../observe/reporter.ts'
import type { Called } from './carried.ts'
import type {
  FilterRequest,
  FromFrontThread,
  FrontThreadData,
  FrontThreadQuestions,
  MainQuestions,
  Question,
  SharedCounts,
  ToFrontThread,
} from './messages.ts'
import {
  createRequestSide,
  createResponseSide,
  type RequestHandlers,
  type RequestSide,
  type ResponseSide,
} from './requests.ts'

/** Notifications that all front threads get, in order. */
export type FrontThreadNotification = Exclude<
  ToFrontThread,
  { readonly type: 'ask' | 'answer' | 'pending' }
>

export interface FrontThreads {
  /** Opens the port for clients. @throws the system's error */
  listen(port: number): Promise<ListenAddress>
  notify(message: FrontThreadNotification): void
  /** Sends a request to each front thread; those that do not respond are left out. */
  requestAll<K extends keyof MainQuestions>(
    question: Question<K>,
    withinMs?: number,
  ): Promise<readonly MainQuestions[K][1][]>
  /** Returns undefined if there is no such front thread, or if it does not respond. */
  filter(frontThread: number, request: FilterRequest): Promise<Called | undefined>
  load(): FrontThreadLoad
  /** Suspicions about front threads that do not work properly. */
  suspicions(): readonly Suspicion[]
  readonly count: number
  close(withinMs: number): Promise<void>
}

export type FrontThreadLoad = { readonly busy: number; readonly threads: number }

export type FrontThreadsOptions = {
  readonly count: number
  readonly dataOf: (frontThread: number) => FrontThreadData
  readonly counts: SharedCounts
  readonly handlers: RequestHandlers<keyof FrontThreadQuestions>
  readonly onPending: TransactionService['onPending']
  /** Releases the database and views when a front thread and its workers have ended. */
  readonly release: (data: FrontThreadData, thread: number) => void
  readonly haltWriter: (reason: string) => void
  /** A call has waited this long for its worker. */
  readonly onQueued: (ms: number) => void
  /** Called before the front threads are ready, when they accept notifications. */
  readonly onStarted: (frontThreads: FrontThreads) => void
  readonly report: Report
  /** Ends the process with this line. */
  readonly fail: (message: string) => void
}

/** Three times the semi-space on the main thread's command line. */
const YOUNG_HEAP_MB = 48
/**
 * The node ends if more front threads than this end within `ENDS_MS`, because it would do nothing
 * but replace them.
 */
const MAX_ENDS = 5
const ENDS_MS = 30_000
/** Time for the messages both ways, and for ending threads that do not respond. */
const SPARE_MS = 200
/**
 * A front thread that stays silent for this many checks is ended; it reports once a second. Checks
 * are counted, because the process may have been stopped.
 */
const MAX_SILENT = 20
const CHECK_MS = 1_000

type FrontThread = {
  readonly number: number
  readonly worker: Worker
  readonly data: FrontThreadData
  readonly requestSide: RequestSide<keyof MainQuestions>
  readonly responseSide: ResponseSide<keyof FrontThreadQuestions>
  /** Settles with the first message, or with false when the thread ends. */
  readonly ready: PromiseWithResolvers<boolean>
  problem: string | undefined
  /** Number of checks since its last message. */
  silent: number
  load: FrontThreadLoad
  stopListening: (() => void) | undefined
  hasEnded: boolean
}

/** Resolves when all front threads accept requests. */
export async function startFrontThreads(options: FrontThreadsOptions): Promise<FrontThreads> {
  const frontThreads = new RunningFrontThreads(options)
  options.onStarted(frontThreads)
  await frontThreads.ready()
  return frontThreads
}

class RunningFrontThreads implements FrontThreads {
  readonly #options: FrontThreadsOptions
  readonly #frontThreads = new Map<number, FrontThread>()
  /** State that a later front thread gets at its start. */
  #paused: FrontThreadNotification & { readonly type: 'paused' } = {
    type: 'paused',
    reason: 'starting',
  }
  #address: ListenAddress | undefined
  readonly #watch: NodeJS.Timeout
  #isClosing = false
  #endedAt: number[] = []

  constructor(options: FrontThreadsOptions) {
    this.#options = options
    for (let number = 1; number <= options.count; number++) this.#start(number)
    this.#watch = setInterval(() => this.#check(), CHECK_MS).unref()
  }

  get count(): number {
    return this.#options.count
  }

  /** Resolves when each number has a thread that accepts requests, be it a replaced one. */
  async ready(): Promise<void> {
    const numbers = Array.from({ length: this.count }, (_, index) => index + 1)
    await Promise.all(numbers.map((number) => this.#readyOf(number)))
  }
  /** Returns undefined if an ended thread is not replaced. */
  async #readyOf(number: number): Promise<FrontThread | undefined> {
    for (;;) {
      const frontThread = this.#frontThreads.get(number)
      if (frontThread === undefined || (await frontThread.ready.promise)) return frontThread
    }
  }

  async listen(port: number): Promise<ListenAddress> {
    const { frontThread: first, address } = await this.#listenFirst(port)
    // A thread that replaces another one from now on listens by itself.
    this.#address = address
    const others = [...this.#frontThreads.values()].filter((frontThread) => frontThread !== first)
    await Promise.all(others.map((frontThread) => this.#listenToo(frontThread, address.port)))
    return address
  }
  /** A thread that ends while it opens the port is replaced, as often as threads may end. */
  async #listenFirst(
    port: number,
  ): Promise<{ readonly frontThread: FrontThread; readonly address: ListenAddress }> {
    for (;;) {
      const frontThread = await this.#readyOf(1)
      if (frontThread === undefined) throw new Error('no front thread can be started')
      try {
        return { frontThread, address: await listenOf(frontThread, port) }
      } catch (error) {
        if (!frontThread.hasEnded) throw error
      }
    }
  }
  async #listenToo(frontThread: FrontThread, port: number): Promise<void> {
    // The thread has ended; its replacement listens by itself.
    if (!(await frontThread.ready.promise)) return
    try {
      await listenOf(frontThread, port)
    } catch (error) {
      if (!frontThread.hasEnded) throw error
    }
  }

  notify(message: FrontThreadNotification): void {
    if (message.type === 'paused') this.#paused = message
    for (const frontThread of this.#frontThreads.values()) send(frontThread, message)
  }

  async requestAll<K extends keyof MainQuestions>(question: Question<K>, withinMs?: number) {
    const requested = [...this.#frontThreads.values()].map((frontThread) =>
      requestOf(frontThread, question, withinMs),
    )
    const responses = await Promise.all(requested)
    return responses.filter((response) => response !== undefined)
  }

  async filter(number: number, request: FilterRequest): Promise<Called | undefined> {
    const frontThread = this.#frontThreads.get(number)
    return frontThread && requestOf<'ownFilter'>(frontThread, { what: 'ownFilter', ...request })
  }

  load(): FrontThreadLoad {
    const all = [...this.#frontThreads.values()].map(({ load }) => load)
    const sum = (of: (one: FrontThreadLoad) => number) =>
      all.reduce((total, one) => total + of(one), 0)
    return { busy: sum(({ busy }) => busy), threads: sum(({ threads }) => threads) }
  }

  suspicions(): readonly Suspicion[] {
    const found: Suspicion[] = []
    for (let number = 1; number <= this.count; number++) {
      const frontThread = this.#frontThreads.get(number)
      if (frontThread === undefined)
        found.push(openSuspicion(`front thread ${number} is being replaced`))
      else if (frontThread.problem !== undefined) {
        const outside = `a read through the pool of front thread ${number} failed`
        found.push({ text: `${outside}: ${frontThread.problem}`, outside })
      }
    }
    return found
  }

  async close(withinMs: number): Promise<void> {
    this.#isClosing = true
    clearInterval(this.#watch)
    const responseMs = Math.max(0, withinMs - SPARE_MS)
    await this.requestAll<'close'>({ what: 'close', withinMs: responseMs }, responseMs)
    await Promise.all([...this.#frontThreads.values()].map(({ worker }) => worker.terminate()))
  }

  #start(number: number): FrontThread {
    const { dataOf, handlers, report } = this.#options
    const data = dataOf(number)
    const worker = new Worker(new URL('./front-thread.ts', import.meta.url), {
      name: `cell_${number}`,
      workerData: data,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_HEAP_MB },
    })
    const post = (message: ToFrontThread) => worker.postMessage(message)
    const frontThread: FrontThread = {
      number,
      worker,
      data,
      problem: undefined,
      stopListening: undefined,
      hasEnded: false,
      silent: 0,
      load: { busy: 0, threads: data.threads },
      requestSide: createRequestSide<keyof MainQuestions>((message) => {
        if (message.type === 'ask') post(message)
      }),
      responseSide: createResponseSide(handlers, post, (err) =>
        report('call_failed', { err, method: 'cell' }),
      ),
      ready: Promise.withResolvers<boolean>(),
    }
    this.#frontThreads.set(number, frontThread)
    const { threadId } = worker
    let failure = ''
    worker.on('message', (message: FromFrontThread) => this.#onMessage(frontThread, message))
    worker.on('error', (error: Error) => {
      failure = `: ${error.message}`
    })
    worker.once('exit', (code) =>
      this.#ended(frontThread, threadId, `ended with ${code}${failure}`),
    )
    return frontThread
  }

  /** A thread whose event loop is blocked would retain its connections for ever. */
  #check(): void {
    for (const frontThread of this.#frontThreads.values())
      if (++frontThread.silent > MAX_SILENT) void frontThread.worker.terminate()
  }

  #onMessage(frontThread: FrontThread, message: FromFrontThread): void {
    frontThread.silent = 0
    switch (message.type) {
      case 'ready':
        frontThread.ready.resolve(true)
        return
      case 'alive':
        return
      case 'ask':
        frontThread.responseSide.onRequest(message.request, message.question)
        return
      case 'answer':
        frontThread.requestSide.onResponse(message.request, message.response)
        return
      case 'gone':
        frontThread.responseSide.gone(message.request)
        return
      case 'listens':
        this.#listens(frontThread, message.toPending)
        return
      case 'load':
        frontThread.load = message
        this.#options.onQueued(message.waitMs)
        return
      case 'probed':
        frontThread.problem = message.problem
        return
      case 'distrust':
        this.#options.haltWriter(message.reason)
        return
      case 'failed':
        this.#options.fail(message.message)
    }
  }

  #listens(frontThread: FrontThread, toPending: boolean): void {
    frontThread.stopListening?.()
    frontThread.stopListening = toPending
      ? this.#options.onPending((hash, transaction) =>
          send(frontThread, { type: 'pending', hash, transaction }),
        )
      : undefined
  }

  /**
   * Handles the end of a thread: its connections close, the others retain the port, and a
   * replacement starts.
   */
  #ended(frontThread: FrontThread, thread: number, why: string): void {
    const { counts, release, report, fail } = this.#options
    frontThread.hasEnded = true
    frontThread.ready.resolve(false)
    frontThread.stopListening?.()
    frontThread.responseSide.close()
    frontThread.requestSide.close()
    if (this.#frontThreads.get(frontThread.number) === frontThread)
      this.#frontThreads.delete(frontThread.number)
    for (const memory of [counts.calls, counts.nonRpcRequests])
      clearEnded(memory, threadOf(frontThread.number))
    releaseEndedConcurrency(counts.concurrencyLimits, frontThread.number)
    clearSeen(counts.seen, threadOf(frontThread.number))
    release(frontThread.data, thread)
    if (this.#isClosing) return
    report('cell_replaced', { frontThread: frontThread.number, reason: why })
    const now = performance.now()
    this.#endedAt = [...this.#endedAt.filter((at) => at > now - ENDS_MS), now]
    if (this.#endedAt.length > MAX_ENDS) {
      fail(
        `front thread ${frontThread.number} ${why}: ${MAX_ENDS + 1} front threads have ended within ${ENDS_MS / 1_000} s`,
      )
      return
    }
    void this.#replace(frontThread.number)
  }

  async #replace(number: number): Promise<void> {
    const frontThread = this.#start(number)
    if (!(await frontThread.ready.promise)) return
    send(frontThread, this.#paused)
    if (this.#address === undefined) return
    try {
      await this.#listenToo(frontThread, this.#address.port)
    } catch (error) {
      this.#options.fail(`front thread ${number}: ${(error as Error).message}`)
    }
  }
}

/** @throws the system's error */
async function listenOf(frontThread: FrontThread, port: number): Promise<ListenAddress> {
  const said = await requestOf<'listen'>(frontThread, { what: 'listen', port })
  if (said === undefined) throw new Error(`front thread ${frontThread.number} does not answer`)
  if ('url' in said) return said
  const { code, message } = said
  throw Object.assign(new Error(message), { code })
}

const send = ({ worker }: FrontThread, message: ToFrontThread): void => worker.postMessage(message)

function requestOf<K extends keyof MainQuestions>(
  { requestSide }: FrontThread,
  question: Question<K>,
  withinMs?: number,
): Promise<MainQuestions[K][1] | undefined> {
  return requestSide.request<K>(question, withinMs === undefined ? {} : { withinMs })
}
