/** Transactions that other replicas have told: those of one sender are taken in their order, and no sender waits for another one's state. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { decodeTransaction } from '../../engine/primitives/transaction-codec.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import { OWN_CLIENT } from '../../rpc/seam/executor.ts'
import { createFifo, type Fifo } from '../../rpc/seam/fifo.ts'
import type { LazyState, TransactionService } from '../../rpc/seam/ports.ts'
import type { Report } from '../observe/reporter.ts'

export interface HeardTransactions {
  /** Nobody waits for it. */
  take(raw: Bytes): void
  /** Senders of which one is not done yet. */
  readonly senders: number
  /** Let go because too many waited: they are heard of with their flashblocks. */
  readonly dropped: number
}

export type HeardOptions = {
  readonly transactions: Pick<TransactionService, 'submit'>
  /** State that is missing to look at one; undefined: all is here. */
  readonly lazy: LazyState | undefined
  readonly report: Report
}

/** Senders whose state is fetched at a time, and transactions that wait behind those of the same sender. */
const MAX_SENDERS = 256
const MAX_WAITING = 1_000
/** State is fetched so often for one, within this time. */
const MAX_ROUNDS = 4
const FETCH_MS = 5_000

export function createHeardTransactions(options: HeardOptions): HeardTransactions {
  /** By sender: what waits behind the one that is not done yet. */
  const open = new Map<string, Fifo<Bytes>>()
  let waiting = 0
  let dropped = 0
  const NO_STATE: LazyState = {
    async fetch() {
      dropped++
      return { failed: 'too many are fetched' }
    },
  }

  /** Begins with the first that is not done at once. */
  async function follow(sender: string, first: Promise<void>): Promise<void> {
    const behind = createFifo<Bytes>()
    open.set(sender, behind)
    await first
    // Each of them settles, because a fetch ends after a time of its own.
    for (let raw = behind.shift(); raw !== undefined; raw = behind.shift()) {
      waiting--
      await takeOne(options, raw)
    }
    open.delete(sender)
  }

  return {
    take(raw) {
      // The sender is recovered only where its order may matter.
      const sender = open.size === 0 ? undefined : senderOf(raw)
      const behind = sender === undefined ? undefined : open.get(sender)
      if (behind !== undefined) {
        if (waiting >= MAX_WAITING) dropped++
        else {
          behind.push(raw)
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

/** Those without one are refused, in whatever order. */
function senderOf(raw: Bytes): string {
  try {
    return bytesToHex(decodeTransaction(raw).from)
  } catch {
    return ''
  }
}

/**
 * As one that the sequencer has: its sender's replica has asked that. Whatever is wrong with it is nobody's error here.
 * @returns undefined: it is done
 */
function takeOne(options: HeardOptions, raw: Bytes): Promise<void> | undefined {
  try {
    const said = options.transactions.submit(raw, OWN_CLIENT, true)
    if (!(said instanceof Promise)) return undefined
    return said.then(
      () => {},
      (error: unknown) => takeAgain(options, raw, error),
    )
  } catch (error) {
    return error instanceof MissingError ? takeAgain(options, raw, error) : told(options, error)
  }
}

/** Once more after each fetch of what was missing. Never rejects. */
async function takeAgain(options: HeardOptions, raw: Bytes, failure: unknown): Promise<void> {
  const { lazy, transactions } = options
  const signal = AbortSignal.timeout(FETCH_MS)
  let error = failure
  for (let round = 1; round < MAX_ROUNDS && error instanceof MissingError; round++)
    try {
      const asked = { for: 'send', client: OWN_CLIENT.address, signal } as const
      const answer = await lazy?.fetch(error.missing, asked)
      if (answer === undefined || answer.failed !== undefined || signal.aborted) return
      await transactions.submit(raw, OWN_CLIENT, true)
      return
    } catch (next) {
      error = next
    }
  told(options, error)
}

function told({ report }: HeardOptions, error: unknown): undefined {
  if (error instanceof MissingError || error instanceof ViewError) return
  report('call_failed', { err: error, method: 'a shared transaction' })
}
