/**
 * Queue of fetched rows for the persistence thread, with a limit of open requests for a slow disk.
 */
import type { FillRow, StoredHead } from '../../storage/types.ts'
import { FetchError } from './fetcher.ts'

export type FillQueueOptions = {
  /** Limit of requests without a response. */
  readonly maxOpen: number
  /** Milliseconds of a fill, from its call to the response. */
  readonly waitMs: number
  /** Calls `work` after `ms` unless the returned function is called first. */
  readonly after: (ms: number, work: () => void) => () => void
  readonly send: (request: number, block: StoredHead, rows: readonly FillRow[]) => void
}

type FillResponse = { readonly written: number }

export interface FillQueue {
  /**
   * Submits rows.
   * @throws {FetchError} when the disk is too busy to take them in time; the rows are dropped
   */
  fill(block: StoredHead, rows: readonly FillRow[]): Promise<FillResponse>
  /** Must be called once for each request that was sent, even if its caller has given up. */
  onResponse(request: number, response: FillResponse): void
}

export function createFillQueue(options: FillQueueOptions): FillQueue {
  const { maxOpen, waitMs, after, send } = options
  /** Open requests; undefined: the caller has given up. */
  const open = new Map<number, ((response: FillResponse) => void) | undefined>()
  const waiting = new Set<() => void>()
  let requests = 0

  function requestFill(
    block: StoredHead,
    rows: readonly FillRow[],
    onResponse: (response: FillResponse) => void,
  ) {
    const request = ++requests
    open.set(request, onResponse)
    send(request, block, rows)
    return request
  }
  return {
    fill(block, rows) {
      const { promise, resolve, reject } = Promise.withResolvers<FillResponse>()
      let request: number | undefined
      const stop = after(waitMs, () => {
        waiting.delete(start)
        if (request === undefined)
          return reject(
            new FetchError(`the disk is busy: ${maxOpen} requests with state wait for it`),
          )
        open.set(request, undefined)
        resolve({ written: 0 })
      })
      const start = () => {
        request = requestFill(block, rows, (response) => {
          stop()
          resolve(response)
        })
      }
      if (open.size < maxOpen) start()
      else waiting.add(start)
      return promise
    },
    onResponse(request, response) {
      const onResponse = open.get(request)
      if (!open.delete(request)) return
      onResponse?.(response)
      const [next] = waiting
      if (next === undefined) return
      waiting.delete(next)
      next()
    },
  }
}
