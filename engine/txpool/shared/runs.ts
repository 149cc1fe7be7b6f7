/** Lists of runs of consecutive nonces. Whoever reads or changes one does so between the calls of `Rows` that its sender has. */
import type { RunsMemory } from './memory.ts'

/** The link of run 0, which is none, leads to the runs that were given back. */
const FREE = 0
/** Steps along a list between two looks whether it still holds. */
const STEPS = 32

export type Runs = {
  /** First nonce from `nonce` on that none of the list's runs has. */
  after(first: number, nonce: bigint, isSame: () => boolean): bigint
  /** These two give the list's first run, 0 where it has none left. The same twice, or what is not there: nothing happens. */
  add(first: number, nonce: bigint): number
  remove(first: number, nonce: bigint): number
}

export function openRuns(memory: RunsMemory): Runs {
  const bounds = new BigUint64Array(memory.bounds)
  const next = new Int32Array(memory.next)
  /** The word that counts the runs that were ever used. */
  const fresh = memory.most + 1
  const startOf = (run: number) => Atomics.load(bounds, 2 * run)
  const endOf = (run: number) => Atomics.load(bounds, 2 * run + 1)
  const nextOf = (run: number) => Atomics.load(next, run)

  /** A list with one more run before all others: as it was where there is no room. */
  function push(first: number, start: bigint, end: bigint): number {
    let run = next[FREE]!
    if (run !== 0) next[FREE] = next[run]!
    else if (next[fresh]! >= memory.most) return first
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
      let [before, behind] = [0, 0]
      for (let run = first; run !== 0; run = next[run]!) {
        const [start, end] = [startOf(run), endOf(run)]
        if (nonce >= start && nonce < end) return first
        if (end === nonce) before = run
        if (start === nonce + 1n) behind = run
      }
      if (before !== 0) {
        Atomics.store(bounds, 2 * before + 1, behind === 0 ? nonce + 1n : endOf(behind))
        return behind === 0 ? first : drop(first, behind)
      }
      if (behind === 0) return push(first, nonce, nonce + 1n)
      Atomics.store(bounds, 2 * behind, nonce)
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
