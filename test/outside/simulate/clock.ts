/**
 * In virtual time only scheduled actions happen, one after the other. Their consequences are
 * complete before time goes on.
 */
import type { Clock } from '../../../engine/sources/upstream/permits.ts'

type Due = {
  readonly atMs: number
  readonly order: number
  readonly run: () => void | Promise<void>
  isOver: boolean
}

/** A history with more steps never ends. */
const MAX_STEPS = 40_000

export class VirtualClock implements Clock {
  #now = 0
  #order = 0
  #steps = 0
  readonly #works = new Set<Promise<unknown>>()
  /** The entries are a heap with the next one first. */
  readonly #due: Due[] = []

  readonly now = (): number => this.#now

  readonly after = (ms: number, run: () => void | Promise<void>): (() => void) => {
    const due = { atMs: this.#now + Math.max(0, ms), order: ++this.#order, run, isOver: false }
    this.#push(due)
    return () => {
      due.isOver = true
    }
  }

  /** Stops time until the work is done. */
  readonly during = <Result>(work: Promise<Result>): Promise<Result> => {
    const over = () => void this.#works.delete(done)
    const done: Promise<void> = work.then(over, over)
    this.#works.add(done)
    return work
  }

  readonly sleep = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      this.after(ms, resolve)
    })

  /**
   * Lets time pass.
   * @throws {unknown} the error of a step
   */
  async run(ms: number): Promise<void> {
    const untilMs = this.#now + ms
    for (let next = this.#due[0]; next !== undefined && next.atMs <= untilMs; next = this.#due[0]) {
      this.#pop()
      if (next.isOver) continue
      if (++this.#steps > MAX_STEPS)
        throw new Error(`more than ${MAX_STEPS} steps at ${this.#now}: ${next.run}`)
      this.#now = next.atMs
      await next.run()
      await this.#settled()
    }
    this.#now = untilMs
  }

  async #settled(): Promise<void> {
    await settled()
    while (this.#works.size > 0) {
      await Promise.all(this.#works)
      await settled()
    }
  }

  #push(due: Due): void {
    const heap = this.#due
    let at = heap.length
    heap.push(due)
    while (at > 0) {
      const above = (at - 1) >> 1
      if (!isBefore(due, heap[above]!)) break
      heap[at] = heap[above]!
      at = above
    }
    heap[at] = due
  }

  #pop(): void {
    const heap = this.#due
    const last = heap.pop()!
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      if (below >= heap.length) break
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below++
      if (!isBefore(heap[below]!, last)) break
      heap[at] = heap[below]!
      at = below
    }
    heap[at] = last
  }
}

const isBefore = (a: Due, b: Due): boolean =>
  a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)

/** Resolves after all ready promises have run. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
