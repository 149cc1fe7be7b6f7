/**
 * Clients of services that run on the main thread, for the methods of a front thread. A request
 * resolves to undefined when the main thread does not answer in time, or fails.
 */
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
/**
 * Bytes above which a submit passes on the client's abort signal. Only large transactions occupy a
 * worker for long, with blob proofs or a long hash. Smaller ones gain nothing from an abort.
 */
const ABORTABLE_BYTES = 16_384

export type RemoteTransactions = TransactionService & {
  /** Notifies the listeners of `onPending`; called when the main thread sends 'pending'. */
  pending(hash: Bytes, transaction: SignedTransaction): void
  /** Notifies the listeners of `onDeparted`; called when the main thread sends 'departed'. */
  departed(hashes: readonly Bytes[]): void
}

/**
 * Opens the main thread's txpool for this thread; `TransactionService` describes the methods.
 * `nextNonce` and `isExpected` read shared memory. If the main thread does not answer, `submit`
 * returns an error, `counts` throws, and `get` and `standingOf` resolve to undefined.
 * @param waiting reads the nonces and hashes of the txpool's transactions from shared memory
 * @param post tells the main thread whether this thread has listeners for pending transactions
 */
export function remoteTransactions(
  request: SendRequest,
  waiting: WaitingReader,
  post: (message: FromFrontThread & { readonly type: 'listens' }) => void,
): RemoteTransactions {
  type Listener = Parameters<TransactionService['onPending']>[0]
  const listeners = new Set<Listener>()
  const departureListeners: ((hashes: readonly Bytes[]) => void)[] = []
  return {
    // `isTaken`: the sequencer has already accepted the transaction, so some checks are left out.
    async submit(raw, client, isTaken = false) {
      const { address } = client
      const signal = raw.length > ABORTABLE_BYTES ? client.signal : undefined
      const requested = { what: 'submit', raw, address, isTaken } as const
      return submission(await request<'submit'>(requested, signal && { signal }))
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

/**
 * Decodes the main thread's response to a submit. If there is no response, the submission has the
 * error 'overloaded'. `Undone` carries an error that the txpool threw on the main thread.
 * @throws {MissingError} {ViewError} the txpool threw the same error
 */
function submission(response: Submission | Undone | undefined): Submission {
  if (response === undefined)
    return { error: overloaded('the txpool does not answer', RETRY_MS).toObject() }
  if ('missing' in response) throw new MissingError(...response.missing)
  if ('view' in response) throw new ViewError(response.view.reason, response.view.message)
  return response
}

/**
 * Fetches state through the main thread. Concurrent requests for a key share one fetch. A missing
 * answer is returned as `failed`.
 */
export const remoteLazy = (request: SendRequest): LazyState => ({
  async fetch(keys, { for: purpose, client: address, signal }) {
    const requested = { what: 'fetch', keys, for: purpose, address } as const
    const response = await request<'fetch'>(requested, { signal })
    return response ?? { failed: 'the main thread does not answer' }
  },
})

/**
 * Forwards calls to other nodes through the main thread. A missing answer is returned as the error
 * 'broken'.
 */
export const remoteForward = (request: SendRequest): Forward => ({
  async forward(method, params, { to, client: address, signal }) {
    const requested = { what: 'forward', method, params, to, address } as const
    const response = await request<'forward'>(requested, { signal })
    return response ?? { error: broken('the main thread does not answer').toObject() }
  },
})
