/** The main thread's side of the cells: starts them, tells them what happens, answers them, and replaces one that ends. */
import { Worker } from 'node:worker_threads'
import { type Doubt, openDoubt } from '../../engine/sources/doubt.ts'
import { clearShown } from '../../rpc/events/shared-shown.ts'
import { clearEnded } from '../../rpc/limiter/memory.ts'
import type { TransactionService } from '../../rpc/seam/ports.ts'
import { capsOfEnded } from '../../rpc/seam/shared-caps.ts'
import { threadOf } from '../../rpc/seam/shared-rows.ts'
import type { Place } from '../front/front.ts'
import type { Report } from '../observe/reporter.ts'
import {
  type AnswerSide,
  type Answers,
  type AskSide,
  createAnswerSide,
  createAsker,
} from './asking.ts'
import type { Called } from './carried.ts'
import type {
  CellData,
  CellQuestions,
  FilterAsked,
  FromCell,
  MainQuestions,
  Question,
  SharedCounts,
  ToCell,
} from './messages.ts'

/** Told to all, in the order in which it happens. */
export type Told = Exclude<ToCell, { readonly type: 'ask' | 'answer' | 'pending' }>

export interface Cells {
  /** Opens the port for clients. @throws the system's error */
  listen(port: number): Promise<Place>
  tell(message: Told): void
  /** One question to each; those that do not answer are left out. */
  askAll<K extends keyof MainQuestions>(
    question: Question<K>,
    withinMs?: number,
  ): Promise<readonly MainQuestions[K][1][]>
  /** undefined: there is no such cell, or it does not answer. */
  filter(cell: number, asked: FilterAsked): Promise<Called | undefined>
  /** Of all of their pools. */
  load(): CellLoad
  /** Of those that are not as they should be. */
  doubts(): readonly Doubt[]
  readonly count: number
  close(withinMs: number): Promise<void>
}

export type CellLoad = { readonly busy: number; readonly threads: number }

export type CellsOptions = {
  readonly count: number
  /** What a cell begins with now. */
  readonly dataOf: (cell: number) => CellData
  readonly counts: SharedCounts
  readonly answers: Answers<keyof CellQuestions>
  readonly onPending: TransactionService['onPending']
  /** A cell's thread has ended: what it and its workers held in the database and the views is free. */
  readonly release: (data: CellData, thread: number) => void
  readonly distrust: (reason: string) => void
  /** A call has waited so long for its worker. */
  readonly onQueued: (ms: number) => void
  /** They may be told what happens, and are not ready yet. */
  readonly onStarted: (cells: Cells) => void
  readonly report: Report
  /** Ends the process with this line. */
  readonly fail: (message: string) => void
}

/** As on the command line of the main thread: its semi-space three times. */
const YOUNG_HEAP_MB = 48
/** A cell that ends again and again would do nothing else. */
const MOST_ENDS = 5
const ENDS_MS = 30_000
/** Of the time for closing: for the way there and back, and for ending those that do not answer. */
const SPARE_MS = 200
/** Looks after which one that has said nothing is ended: they tell once a second that they live. Looks, since the process may have been stopped. */
const MOST_SILENT = 20
const LOOK_MS = 1_000

type Cell = {
  readonly number: number
  readonly worker: Worker
  readonly data: CellData
  readonly asking: AskSide<keyof MainQuestions>
  readonly answering: AnswerSide<keyof CellQuestions>
  /** Settles with its first message, or with its end: false. */
  readonly ready: PromiseWithResolvers<boolean>
  problem: string | undefined
  /** Looks since it has said anything. */
  silent: number
  load: CellLoad
  stopListening: (() => void) | undefined
  hasEnded: boolean
}

/** Resolves when each of them can be asked. */
export async function startCells(options: CellsOptions): Promise<Cells> {
  const cells = new RunningCells(options)
  options.onStarted(cells)
  await cells.ready()
  return cells
}

class RunningCells implements Cells {
  readonly #options: CellsOptions
  readonly #cells = new Map<number, Cell>()
  /** Of what is told again to one that comes later. */
  #paused: Told & { readonly type: 'paused' } = { type: 'paused', reason: 'starting' }
  #place: Place | undefined
  readonly #watch: NodeJS.Timeout
  #isClosing = false
  #endedAt: number[] = []

  constructor(options: CellsOptions) {
    this.#options = options
    for (let number = 1; number <= options.count; number++) this.#start(number)
    this.#watch = setInterval(() => this.#look(), LOOK_MS).unref()
  }

  get count(): number {
    return this.#options.count
  }

  /** Resolves when each number has a thread that can be asked, whichever of them that is. */
  async ready(): Promise<void> {
    const numbers = Array.from({ length: this.count }, (_, index) => index + 1)
    await Promise.all(numbers.map((number) => this.#readyOf(number)))
  }
  /** undefined: no other thread takes the place of one that has ended. */
  async #readyOf(number: number): Promise<Cell | undefined> {
    for (;;) {
      const cell = this.#cells.get(number)
      if (cell === undefined || (await cell.ready.promise)) return cell
    }
  }

  async listen(port: number): Promise<Place> {
    const { cell: first, place } = await this.#listenFirst(port)
    // A thread that takes the place of another from here on listens by itself.
    this.#place = place
    const others = [...this.#cells.values()].filter((cell) => cell !== first)
    await Promise.all(others.map((cell) => this.#listenToo(cell, place.port)))
    return place
  }
  /** A thread that ends while it opens the port is replaced, as often as threads may end. */
  async #listenFirst(port: number): Promise<{ readonly cell: Cell; readonly place: Place }> {
    for (;;) {
      const cell = await this.#readyOf(1)
      if (cell === undefined) throw new Error('no front thread can be started')
      try {
        return { cell, place: await listenOf(cell, port) }
      } catch (error) {
        if (!cell.hasEnded) throw error
      }
    }
  }
  async #listenToo(cell: Cell, port: number): Promise<void> {
    // Its end has started another thread in its place, which listens when it can.
    if (!(await cell.ready.promise)) return
    try {
      await listenOf(cell, port)
    } catch (error) {
      if (!cell.hasEnded) throw error
    }
  }

  tell(message: Told): void {
    if (message.type === 'paused') this.#paused = message
    for (const cell of this.#cells.values()) send(cell, message)
  }

  async askAll<K extends keyof MainQuestions>(question: Question<K>, withinMs?: number) {
    const asked = [...this.#cells.values()].map((cell) => askOf(cell, question, withinMs))
    const answers = await Promise.all(asked)
    return answers.filter((answer) => answer !== undefined)
  }

  async filter(number: number, asked: FilterAsked): Promise<Called | undefined> {
    const cell = this.#cells.get(number)
    return cell && askOf<'ownFilter'>(cell, { what: 'ownFilter', ...asked })
  }

  load(): CellLoad {
    const all = [...this.#cells.values()].map(({ load }) => load)
    const sum = (of: (one: CellLoad) => number) => all.reduce((total, one) => total + of(one), 0)
    return { busy: sum(({ busy }) => busy), threads: sum(({ threads }) => threads) }
  }

  doubts(): readonly Doubt[] {
    const found: Doubt[] = []
    for (let number = 1; number <= this.count; number++) {
      const cell = this.#cells.get(number)
      if (cell === undefined) found.push(openDoubt(`cell ${number} is being replaced`))
      else if (cell.problem !== undefined) {
        const outside = `a read through the pool of cell ${number} failed`
        found.push({ text: `${outside}: ${cell.problem}`, outside })
      }
    }
    return found
  }

  async close(withinMs: number): Promise<void> {
    this.#isClosing = true
    clearInterval(this.#watch)
    const answerMs = Math.max(0, withinMs - SPARE_MS)
    await this.askAll<'close'>({ what: 'close', withinMs: answerMs }, answerMs)
    await Promise.all([...this.#cells.values()].map(({ worker }) => worker.terminate()))
  }

  #start(number: number): Cell {
    const { dataOf, answers, report } = this.#options
    const data = dataOf(number)
    const worker = new Worker(new URL('./cell.ts', import.meta.url), {
      name: `cell_${number}`,
      workerData: data,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_HEAP_MB },
    })
    const post = (message: ToCell) => worker.postMessage(message)
    const cell: Cell = {
      ...{ number, worker, data, problem: undefined, stopListening: undefined, hasEnded: false },
      silent: 0,
      load: { busy: 0, threads: data.threads },
      asking: createAsker<keyof MainQuestions>((message) => {
        if (message.type === 'ask') post(message)
      }),
      answering: createAnswerSide(answers, post, (err) =>
        report('call_failed', { err, method: 'cell' }),
      ),
      ready: Promise.withResolvers<boolean>(),
    }
    this.#cells.set(number, cell)
    const { threadId } = worker
    let failure = ''
    worker.on('message', (message: FromCell) => this.#hear(cell, message))
    worker.on('error', (error: Error) => {
      failure = `: ${error.message}`
    })
    worker.once('exit', (code) => this.#ended(cell, threadId, `ended with ${code}${failure}`))
    return cell
  }

  /** One whose loop does not turn would keep its connections for ever. */
  #look(): void {
    for (const cell of this.#cells.values())
      if (++cell.silent > MOST_SILENT) void cell.worker.terminate()
  }

  #hear(cell: Cell, message: FromCell): void {
    cell.silent = 0
    switch (message.type) {
      case 'ready':
        cell.ready.resolve(true)
        return
      case 'alive':
        return
      case 'ask':
        cell.answering.asked(message.request, message.question)
        return
      case 'answer':
        cell.asking.answered(message.request, message.answer)
        return
      case 'gone':
        cell.answering.gone(message.request)
        return
      case 'listens':
        this.#listens(cell, message.toPending)
        return
      case 'load':
        cell.load = message
        this.#options.onQueued(message.waitMs)
        return
      case 'probed':
        cell.problem = message.problem
        return
      case 'distrust':
        this.#options.distrust(message.reason)
        return
      case 'failed':
        this.#options.fail(message.message)
    }
  }

  #listens(cell: Cell, toPending: boolean): void {
    cell.stopListening?.()
    cell.stopListening = toPending
      ? this.#options.onPending((hash, transaction) =>
          send(cell, { type: 'pending', hash, transaction }),
        )
      : undefined
  }

  /** Its connections end with it. The others have kept the port, and another one takes its place there. */
  #ended(cell: Cell, thread: number, why: string): void {
    const { counts, release, report, fail } = this.#options
    cell.hasEnded = true
    cell.ready.resolve(false)
    cell.stopListening?.()
    cell.answering.close()
    cell.asking.close()
    if (this.#cells.get(cell.number) === cell) this.#cells.delete(cell.number)
    for (const memory of [counts.calls, counts.visits]) clearEnded(memory, threadOf(cell.number))
    capsOfEnded(counts.caps, cell.number)
    clearShown(counts.shown, threadOf(cell.number))
    release(cell.data, thread)
    if (this.#isClosing) return
    report('cell_replaced', { cell: cell.number, reason: why })
    const now = performance.now()
    this.#endedAt = [...this.#endedAt.filter((at) => at > now - ENDS_MS), now]
    if (this.#endedAt.length > MOST_ENDS) {
      fail(`cell ${cell.number} ${why}: ${MOST_ENDS + 1} have ended within ${ENDS_MS / 1_000} s`)
      return
    }
    void this.#replace(cell.number)
  }

  async #replace(number: number): Promise<void> {
    const cell = this.#start(number)
    if (!(await cell.ready.promise)) return
    send(cell, this.#paused)
    if (this.#place === undefined) return
    try {
      await this.#listenToo(cell, this.#place.port)
    } catch (error) {
      this.#options.fail(`cell ${number}: ${(error as Error).message}`)
    }
  }
}

/** @throws the system's error */
async function listenOf(cell: Cell, port: number): Promise<Place> {
  const said = await askOf<'listen'>(cell, { what: 'listen', port })
  if (said === undefined) throw new Error(`cell ${cell.number} does not answer`)
  if ('url' in said) return said
  const { code, message } = said
  throw Object.assign(new Error(message), { code })
}

const send = ({ worker }: Cell, message: ToCell): void => worker.postMessage(message)

function askOf<K extends keyof MainQuestions>(
  { asking }: Cell,
  question: Question<K>,
  withinMs?: number,
): Promise<MainQuestions[K][1] | undefined> {
  return asking.ask<K>(question, withinMs === undefined ? {} : { withinMs })
}
