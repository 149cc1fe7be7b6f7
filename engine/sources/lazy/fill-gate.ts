/** Fetched rows on their way to the disk: so many requests at a time, however long the disk takes for one. */
import type { FillRow, StoredHead } from '../../storage/types.ts'
import { FetchError } from './fetcher.ts'

export type FillGateOptions = {
  /** Requests that were sent and not answered yet. */
  readonly maxOpen: number
  /** Milliseconds that a fill waits, for its turn and for its answer together. */
  readonly waitMs: number
  /** Calls `work` in so many milliseconds, unless the returned function is called before. */
  readonly after: (ms: number, work: () => void) => () => void
  readonly send: (request: number, block: StoredHead, rows: readonly FillRow[]) => void
}

type Answer = { readonly kept: number }

export interface FillGate {
  /** @throws {FetchError} where there is no turn in time: what was fetched is not kept, and its caller hears that the disk is busy */
  fill(block: StoredHead, rows: readonly FillRow[]): Promise<Answer>
  /** Must be called once for each request that was sent, even if its caller has given up. */
  answered(request: number, answer: Answer): void
}

export function createFillGate(options: FillGateOptions): FillGate {
  const { maxOpen, waitMs, after, send } = options
  /** By request; undefined: nobody waits for its answer any more, and it is open all the same. */
  const open = new Map<number, ((answer: Answer) => void) | undefined>()
  const waiting = new Set<() => void>()
  let requests = 0

  function ask(block: StoredHead, rows: readonly FillRow[], onAnswer: (answer: Answer) => void) {
    const request = ++requests
    open.set(request, onAnswer)
    send(request, block, rows)
    return request
  }
  return {
    fill(block, rows) {
      const { promise, resolve, reject } = Promise.withResolvers<Answer>()
      let request: number | undefined
      const stop = after(waitMs, () => {
        waiting.delete(begin)
        if (request === undefined)
          return reject(
            new FetchError(`the disk is busy: ${maxOpen} requests with state wait for it`),
          )
        open.set(request, undefined)
        resolve({ kept: 0 })
      })
      const begin = () => {
        request = ask(block, rows, (answer) => {
          stop()
          resolve(answer)
        })
      }
      if (open.size < maxOpen) begin()
      else waiting.add(begin)
      return promise
    },
    answered(request, answer) {
      const onAnswer = open.get(request)
      if (!open.delete(request)) return
      onAnswer?.(answer)
      const [next] = waiting
      if (next === undefined) return
      waiting.delete(next)
      next()
    },
  }
}
