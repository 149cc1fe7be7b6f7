/** Services of the main thread as the methods of a front thread use them. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import type { WaitingReader } from '../../engine/txpool/shared/reader.ts'
import { broken, overloaded } from '../../rpc/core/errors.ts'
import type { Forward, LazyState, Submission, TransactionService } from '../../rpc/core/ports.ts'
import type { FromFrontThread, FrontThreadQuestions, Undone } from './messages.ts'
import type { RequestFunction } from './requests.ts'

type SendRequest = RequestFunction<keyof FrontThreadQuestions>

const RETRY_MS = 1_000
/** Smaller transactions are accepted at once, so their sender cannot have left meanwhile. */
const LONG_BYTES = 16_384

export type RemoteTransactions = TransactionService & {
  /** The main thread reports that the transaction became executable. */
  pending(hash: Bytes, transaction: SignedTransaction): void
  /** The main thread reports that the transactions left without a block. */
  departed(hashes: readonly Bytes[]): void
}

/** @param waiting the main thread's txpool in shared memory */
export function remoteTransactions(
  request: SendRequest,
  waiting: WaitingReader,
  post: (message: FromFrontThread & { readonly type: 'listens' }) => void,
): RemoteTransactions {
  type Listener = Parameters<TransactionService['onPending']>[0]
  const listeners = new Set<Listener>()
  const departureListeners: ((hashes: readonly Bytes[]) => void)[] = []
  return {
    async submit(raw, client, isTaken = false) {
      const { address } = client
      const signal = raw.length > LONG_BYTES ? client.signal : undefined
      const requested = { what: 'submit', raw, address, isTaken } as const
      const said = await request<'submit'>(requested, signal && { signal })
      return submission(said)
    },
    get: async (hash) => (await request<'transaction'>({ what: 'transaction', hash }))?.found,
    nextNonce: waiting.nextNonce,
    isExpected: waiting.isExpected,
    standingOf: async (hash) => (await request<'standing'>({ what: 'standing', hash }))?.found,
    async counts() {
      const counts = await request<'counts'>({ what: 'counts' })
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

/** @throws {MissingError} {ViewError} like the txpool */
function submission(said: Submission | Undone | undefined): Submission {
  if (said === undefined)
    return { error: overloaded('the txpool does not answer', RETRY_MS).toObject() }
  if ('missing' in said) throw new MissingError(...said.missing)
  if ('view' in said) throw new ViewError(said.view.reason, said.view.message)
  return said
}

export const remoteLazy = (request: SendRequest): LazyState => ({
  async fetch(keys, { for: purpose, client: address, signal }) {
    const requested = { what: 'fetch', keys, for: purpose, address } as const
    const said = await request<'fetch'>(requested, { signal })
    return said ?? { failed: 'the main thread does not answer' }
  },
})

export const remoteForward = (request: SendRequest): Forward => ({
  async forward(method, params, { to, client: address, signal }) {
    const requested = { what: 'forward', method, params, to, address } as const
    const said = await request<'forward'>(requested, { signal })
    return said ?? { error: broken('the main thread does not answer').toObject() }
  },
})
