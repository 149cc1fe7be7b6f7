/**
 * A thread of the node: started from its file, stopped by a message, reported when it ends by
 * itself.
 */
import { once } from 'node:events'
import { type TransferListItem, Worker } from 'node:worker_threads'
import { CHAIN_YOUNG_HEAP_MB } from './heaps.ts'

export interface Thread<To> {
  post(message: To, transfer?: readonly TransferListItem[]): void
  /** Asks the thread to stop and waits for its end; after `withinMs` it is terminated. */
  stop(message: To, withinMs: number): Promise<void>
}

export type ThreadOptions<From> = {
  readonly name: string
  readonly file: URL
  readonly data: unknown
  readonly transfer?: readonly TransferListItem[]
  readonly youngHeapMb?: number
  readonly onMessage: (message: From) => void
  /** The thread ended without a stop, and without a message 'failed' that gave the reason. */
  readonly onLost: (reason: string) => void
  /** Id of the thread, after its exit. */
  readonly onEnded: (thread: number) => void
}

export function startThread<To, From extends { readonly type: string }>(
  options: ThreadOptions<From>,
): Thread<To> {
  const worker = new Worker(options.file, {
    name: options.name,
    workerData: options.data,
    resourceLimits: { maxYoungGenerationSizeMb: options.youngHeapMb ?? CHAIN_YOUNG_HEAP_MB },
    transferList: [...(options.transfer ?? [])],
  })
  const { threadId } = worker
  let isStopping = false
  let isEnded = false
  let hasSaidWhy = false
  let failure = ''
  worker.on('message', (message: From) => {
    if (message.type === 'failed') hasSaidWhy = true
    options.onMessage(message)
  })
  worker.on('error', (error: Error) => {
    failure = `: ${error.message}`
  })
  worker.once('exit', (code) => {
    isEnded = true
    options.onEnded(threadId)
    if (!isStopping && !hasSaidWhy)
      options.onLost(`the ${options.name} ended with ${code}${failure}`)
  })
  return {
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    async stop(message, withinMs) {
      isStopping = true
      if (isEnded) return
      const ended = once(worker, 'exit')
      worker.postMessage(message)
      const timer = setTimeout(() => void worker.terminate(), withinMs)
      await ended
      clearTimeout(timer)
    },
  }
}
