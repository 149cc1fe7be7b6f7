/**
 * Lists of runs of consecutive nonces. Callers read or change a list between the calls of `Rows`
 * for its sender.
 */
import type { RunsMemory } from './memory.ts'

/** Run 0 means none; its link leads to the free runs. */
const FREE = 0
/** Number of links followed between two validity checks. */
const STEPS = 32

export type Runs = {
  /** Returns the first nonce from `nonce` on that no run of the list has. */
  after(first: number, nonce: bigint, isSame: () => boolean): bigint
  /**
   * Both methods return the list's first run, 0 when it is empty. Adding a present nonce, or
   * removing an absent one, changes nothing.
   */
  add(first: number, nonce: bigint): number
  remove(first: number, nonce: bigint): number
}

export function openRuns(memory: RunsMemory): Runs {
  const bounds = new BigUint64Array(memory.bounds)
  const next = new Int32Array(memory.next)
  /** Word that counts the runs ever used. */
  const fresh = memory.max + 1
  const startOf = (run: number) => Atomics.load(bounds, 2 * run)
  const endOf = (run: number) => Atomics.load(bounds, 2 * run + 1)
  const nextOf = (run: number) => Atomics.load(next, run)

  /** Adds a run at the start of the list. The list is unchanged when the memory is full. */
  function push(first: number, start: bigint, end: bigint): number {
    let run = next[FREE]!
    if (run !== 0) next[FREE] = next[run]!
    else if (next[fresh]! >= memory.max) return first
    else run = ++next[fresh]!
    Atomics.store(bounds, 2 * run, start)
    Atomics.store(bounds, 2 * run + 1, end)
    Atomics.store(next, run, first)
    return run
  }
  function drop(first: number, run: number): number {
    const then = next[run]!
    if (first !== run) {
      let before = first
      while (next[before] !== run) before = next[before]!
      Atomics.store(next, before, then)
    }
    Atomics.store(next, run, next[FREE]!)
    next[FREE] = run
    return first === run ? then : first
  }
  return {
    after(first, nonce, isSame) {
      let run = first
      for (let steps = 1; run !== 0; steps++) {
        const end = endOf(run)
        if (nonce < end && nonce >= startOf(run)) return end
        if (steps % STEPS === 0 && !isSame()) break
        run = nextOf(run)
      }
      return nonce
    },
    add(first, nonce) {
      let [before, after] = [0, 0]
      for (let run = first; run !== 0; run = next[run]!) {
        const [start, end] = [startOf(run), endOf(run)]
        if (nonce >= start && nonce < end) return first
        if (end === nonce) before = run
        if (start === nonce + 1n) after = run
      }
      if (before !== 0) {
        Atomics.store(bounds, 2 * before + 1, after === 0 ? nonce + 1n : endOf(after))
        return after === 0 ? first : drop(first, after)
      }
      if (after === 0) return push(first, nonce, nonce + 1n)
      Atomics.store(bounds, 2 * after, nonce)
      return first
    },
    remove(first, nonce) {
      let run = first
      while (run !== 0 && !(nonce >= startOf(run) && nonce < endOf(run))) run = next[run]!
      if (run === 0) return first
      const [start, end] = [startOf(run), endOf(run)]
      if (end === start + 1n) return drop(first, run)
      if (nonce === start) Atomics.store(bounds, 2 * run, nonce + 1n)
      else Atomics.store(bounds, 2 * run + 1, nonce)
      return nonce === start || nonce + 1n === end ? first : push(first, nonce + 1n, end)
    },
  }
}
