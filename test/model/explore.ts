/**
 * Visits every state that a model can reach. The search is breadth first, so that the trace of a
 * fault is a shortest one. A state is an object of parts. Equal parts are stored once, and a state
 * is a row of their numbers. States are therefore compared exactly, and 10 parts take 40 bytes.
 */

/** A state is an object whose parts are plain data and never change in place. */
export type Parts = Readonly<Record<string, unknown>>
/**
 * `run` gives the state after the step.
 * @throws {Fault} when the step itself breaks a rule.
 */
export type Step<S> = { readonly label: string; readonly run: () => S }

export type Model<S extends Parts> = {
  readonly initial: S
  /**
   * Lists all that may happen next, in any thread. The list is empty when nothing is left to do.
   */
  steps(state: S): readonly Step<S>[]
  /**
   * `isLast` says that nothing can happen any more.
   * @throws {Fault} for a state that a rule forbids.
   */
  check(state: S, isLast: boolean): void
}

export type Explored = {
  readonly states: number
  readonly steps: number
  /** First fault, and the steps that lead to it. */
  readonly fault: { readonly why: string; readonly trace: readonly string[] } | undefined
  /** The search stopped at `maxStates`, so it proves nothing about the states that are left. */
  readonly isCut: boolean
}

export function explore<S extends Parts>(model: Model<S>, maxStates: number): Explored {
  const visited = new Visited<S>(model.initial)
  let steps = 0
  const end = (at: number, why: string, last?: string): Explored => {
    const trace = visited.path(at).map(({ from, to }) => labelOf(model, from, to))
    if (last !== undefined) trace.push(last)
    return { states: visited.count, steps, fault: { why, trace }, isCut: false }
  }
  for (let at = 0; at < visited.count; at++) {
    if (visited.count > maxStates)
      return { states: visited.count, steps, fault: undefined, isCut: true }
    const state = visited.state(at)
    const next = attempt(() => {
      const found = model.steps(state)
      model.check(state, found.length === 0)
      return found
    })
    if (next instanceof Fault) return end(at, next.message)
    for (const { label, run } of next) {
      steps++
      const after = attempt(run)
      if (after instanceof Fault) return end(at, after.message, label)
      visited.add(after, at)
    }
  }
  return { states: visited.count, steps, fault: undefined, isCut: false }
}

/** A model broke one of its rules. */
export class Fault extends Error {
  override name = 'Fault'
}

function attempt<T>(run: () => T): T | Fault {
  try {
    return run()
  } catch (error) {
    if (error instanceof Fault) return error
    throw error
  }
}

function labelOf<S extends Parts>(model: Model<S>, from: S, to: S): string {
  const wanted = JSON.stringify(to)
  const step = model.steps(from).find(({ run }) => {
    const after = attempt(run)
    return !(after instanceof Fault) && JSON.stringify(after) === wanted
  })
  if (step === undefined) throw new Error('a model gives other steps for the same state')
  return step.label
}

/** States in the order in which they were found, each with its predecessor. */
class Visited<S extends Parts> {
  readonly #names: readonly (keyof S & string)[]
  readonly #parts: { readonly byText: Map<string, number>; readonly values: unknown[] }[]
  #rows: Int32Array
  #from: Int32Array
  /** Open addressing over the rows: an entry is the index of a row, plus 1. */
  #slots = new Int32Array(2 ** 16)
  readonly #row: Int32Array
  count = 0

  constructor(initial: S) {
    this.#names = Object.keys(initial)
    this.#parts = this.#names.map(() => ({ byText: new Map(), values: [] }))
    this.#rows = new Int32Array(2 ** 12 * this.#names.length)
    this.#from = new Int32Array(2 ** 12)
    this.#row = new Int32Array(this.#names.length)
    this.add(initial, -1)
  }

  state(at: number): S {
    const width = this.#names.length
    const entries = this.#names.map((name, i) => [
      name,
      this.#parts[i]!.values[this.#rows[at * width + i]!],
    ])
    return Object.fromEntries(entries) as S
  }

  add(state: S, from: number): void {
    const width = this.#names.length
    const row = this.#row
    let hash = 0
    for (let i = 0; i < width; i++) {
      const part = this.#intern(i, state[this.#names[i]!], from)
      row[i] = part
      hash = Math.imul(hash ^ part, 0x9e3779b1)
      hash ^= hash >>> 15
    }
    const mask = this.#slots.length - 1
    let slot = hash & mask
    for (; this.#slots[slot] !== 0; slot = (slot + 1) & mask)
      if (this.#isRow(this.#slots[slot]! - 1)) return
    if (this.count === this.#from.length) this.#grow()
    this.#rows.set(row, this.count * width)
    this.#from[this.count] = from
    this.#slots[slot] = ++this.count
    if (this.count * 2 > this.#slots.length) this.#rehash()
  }

  /** Lists the steps from the first state to this one. */
  path(at: number): readonly { readonly from: S; readonly to: S }[] {
    const path = []
    for (let to = at; this.#from[to]! >= 0; to = this.#from[to]!)
      path.push({ from: this.state(this.#from[to]!), to: this.state(to) })
    return path.reverse()
  }

  #intern(part: number, value: unknown, from: number): number {
    const { byText, values } = this.#parts[part]!
    // Most parts are the same objects as in the predecessor.
    if (from >= 0) {
      const before = this.#rows[from * this.#names.length + part]!
      if (values[before] === value) return before
    }
    const text = JSON.stringify(value)
    const known = byText.get(text)
    if (known !== undefined) return known
    byText.set(text, values.length)
    return values.push(value) - 1
  }

  #isRow(at: number): boolean {
    const width = this.#names.length
    for (let i = 0; i < width; i++) if (this.#rows[at * width + i] !== this.#row[i]) return false
    return true
  }

  #grow(): void {
    const rows = new Int32Array(this.#rows.length * 2)
    rows.set(this.#rows)
    this.#rows = rows
    const from = new Int32Array(this.#from.length * 2)
    from.set(this.#from)
    this.#from = from
  }

  #rehash(): void {
    const width = this.#names.length
    const slots = new Int32Array(this.#slots.length * 2)
    const mask = slots.length - 1
    for (let at = 0; at < this.count; at++) {
      let hash = 0
      for (let i = 0; i < width; i++) {
        hash = Math.imul(hash ^ this.#rows[at * width + i]!, 0x9e3779b1)
        hash ^= hash >>> 15
      }
      let slot = hash & mask
      while (slots[slot] !== 0) slot = (slot + 1) & mask
      slots[slot] = at + 1
    }
    this.#slots = slots
  }
}
