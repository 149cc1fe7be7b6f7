/**
 * Accepts transactions from other replicas. Those of one sender are taken in order, and no sender
 * waits for another sender's state.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { decodeTransaction } from '../../engine/primitives/transaction-codec.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import { OWN_CLIENT } from '../../rpc/core/executor.ts'
import { createFifo, type Fifo } from '../../rpc/core/fifo.ts'
import type { LazyState, TransactionService } from '../../rpc/core/ports.ts'
import type { Report } from '../observe/reporter.ts'

export interface ReceivedTransactions {
  /** Takes a transaction without reporting its outcome. */
  take(raw: Bytes): void
  /** Number of senders with an unfinished transaction. */
  readonly senders: number
  /** Transactions dropped because too many waited; they arrive with their flashblocks. */
  readonly dropped: number
}

export type ReceivedOptions = {
  readonly transactions: Pick<TransactionService, 'submit'>
  /** Fetches the state that a transaction needs; undefined when all state is local. */
  readonly lazy: LazyState | undefined
  readonly report: Report
}

/** Maximum number of senders whose state is fetched, and of transactions that wait behind those. */
const MAX_SENDERS = 256
const MAX_WAITING = 1_000
/** Maximum number of attempts for one transaction, and time for all its fetches. */
const MAX_ROUNDS = 4
const FETCH_MS = 5_000

export function createReceivedTransactions(options: ReceivedOptions): ReceivedTransactions {
  /** For each sender, the transactions behind its unfinished one. */
  const open = new Map<string, Fifo<Bytes>>()
  let waiting = 0
  let dropped = 0
  const NO_STATE: LazyState = {
    async fetch() {
      dropped++
      return { failed: 'too many transactions fetch state' }
    },
  }

  /** Queues a sender's transactions behind its first unfinished one. */
  async function follow(sender: string, first: Promise<void>): Promise<void> {
    const queue = createFifo<Bytes>()
    open.set(sender, queue)
    await first
    // Each of them settles, because a fetch has its own timeout.
    for (let raw = queue.shift(); raw !== undefined; raw = queue.shift()) {
      waiting--
      await takeOne(options, raw)
    }
    open.delete(sender)
  }

  return {
    take(raw) {
      // The sender is recovered only when the order may matter.
      const sender = open.size === 0 ? undefined : senderOf(raw)
      const queue = sender === undefined ? undefined : open.get(sender)
      if (queue !== undefined) {
        if (waiting >= MAX_WAITING) dropped++
        else {
          queue.push(raw)
          waiting++
        }
        return
      }
      const lazy = open.size >= MAX_SENDERS ? NO_STATE : options.lazy
      const taking = takeOne({ ...options, lazy }, raw)
      if (taking !== undefined) void follow(sender ?? senderOf(raw), taking)
    },
    get senders() {
      return open.size
    },
    get dropped() {
      return dropped
    },
  }
}

/** Transactions without a valid sender are refused in any order. */
function senderOf(raw: Bytes): string {
  try {
    return bytesToHex(decodeTransaction(raw).from)
  } catch {
    return ''
  }
}

/**
 * Submits one transaction as if the sequencer had it, because the sender's replica has forwarded
 * it. Its errors are no incident of this node.
 * @returns undefined when it is finished
 */
function takeOne(options: ReceivedOptions, raw: Bytes): Promise<void> | undefined {
  try {
    const said = options.transactions.submit(raw, OWN_CLIENT, true)
    if (!(said instanceof Promise)) return undefined
    return said.then(
      () => {},
      (error: unknown) => retryTaking(options, raw, error),
    )
  } catch (error) {
    return error instanceof MissingError
      ? retryTaking(options, raw, error)
      : reportError(options, error)
  }
}

/** Retries after each fetch of missing state; it never rejects. */
async function retryTaking(options: ReceivedOptions, raw: Bytes, failure: unknown): Promise<void> {
  const { lazy, transactions } = options
  const signal = AbortSignal.timeout(FETCH_MS)
  let error = failure
  for (let round = 1; round < MAX_ROUNDS && error instanceof MissingError; round++)
    try {
      const request = { for: 'send', client: OWN_CLIENT.address, signal } as const
      const response = await lazy?.fetch(error.missing, request)
      if (response === undefined || response.failed !== undefined || signal.aborted) return
      await transactions.submit(raw, OWN_CLIENT, true)
      return
    } catch (next) {
      error = next
    }
  reportError(options, error)
}

function reportError({ report }: ReceivedOptions, error: unknown): undefined {
  if (error instanceof MissingError || error instanceof ViewError) return
  report('call_failed', { err: error, method: 'a shared transaction' })
}
