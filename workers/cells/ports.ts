/** What the front of a cell asks of the main thread, as its methods see it. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import type { WaitingReader } from '../../engine/txpool/shared/reader.ts'
import { broken, overloaded } from '../../rpc/seam/errors.ts'
import type { Forward, LazyState, Submission, TransactionService } from '../../rpc/seam/ports.ts'
import type { Asker } from './asking.ts'
import type { CellQuestions, FromCell, Undone } from './messages.ts'

type Ask = Asker<keyof CellQuestions>

const RETRY_MS = 1_000
/** Smaller ones are taken at once, so that nobody can have left meanwhile. */
const LONG_BYTES = 16_384

export type RemoteTransactions = TransactionService & {
  /** The main thread says that it has become executable. */
  pending(hash: Bytes, transaction: SignedTransaction): void
  /** The main thread says that they have left without a block. */
  departed(hashes: readonly Bytes[]): void
}

/** @param waiting what the txpool of the main thread has, in shared memory */
export function remoteTransactions(
  ask: Ask,
  waiting: WaitingReader,
  post: (message: FromCell & { readonly type: 'listens' }) => void,
): RemoteTransactions {
  type Listener = Parameters<TransactionService['onPending']>[0]
  const listeners = new Set<Listener>()
  const departureListeners: ((hashes: readonly Bytes[]) => void)[] = []
  return {
    async submit(raw, client, isTaken = false) {
      const { address } = client
      const signal = raw.length > LONG_BYTES ? client.signal : undefined
      const asked = { what: 'submit', raw, address, isTaken } as const
      const said = await ask<'submit'>(asked, signal && { signal })
      return submission(said)
    },
    get: async (hash) => (await ask<'transaction'>({ what: 'transaction', hash }))?.found,
    nextNonce: waiting.nextNonce,
    isExpected: waiting.isExpected,
    standingOf: async (hash) => (await ask<'standing'>({ what: 'standing', hash }))?.found,
    async counts() {
      const counts = await ask<'counts'>({ what: 'counts' })
      if (counts === undefined) throw overloaded('the txpool does not answer', RETRY_MS)
      return counts
    },
    onPending(listener) {
      if (listeners.size === 0) post({ type: 'listens', toPending: true })
      listeners.add(listener)
      return () => {
        if (listeners.delete(listener) && listeners.size === 0)
          post({ type: 'listens', toPending: false })
      }
    },
    onDeparted: (listener) => void departureListeners.push(listener),
    departed(hashes) {
      for (const listener of departureListeners) listener(hashes)
    },
    pending(hash, transaction) {
      for (const listener of listeners) listener(hash, transaction)
    },
  }
}

/** @throws {MissingError} {ViewError} as the txpool does */
function submission(said: Submission | Undone | undefined): Submission {
  if (said === undefined)
    return { error: overloaded('the txpool does not answer', RETRY_MS).toObject() }
  if ('missing' in said) throw new MissingError(...said.missing)
  if ('view' in said) throw new ViewError(said.view.reason, said.view.message)
  return said
}

export const remoteLazy = (ask: Ask): LazyState => ({
  async fetch(keys, { for: purpose, client: address, signal }) {
    const asked = { what: 'fetch', keys, for: purpose, address } as const
    const said = await ask<'fetch'>(asked, { signal })
    return said ?? { failed: 'the main thread does not answer' }
  },
})

export const remoteForward = (ask: Ask): Forward => ({
  async forward(method, params, { to, client: address, signal }) {
    const asked = { what: 'forward', method, params, to, address } as const
    const said = await ask<'forward'>(asked, { signal })
    return said ?? { error: broken('the main thread does not answer').toObject() }
  },
})
