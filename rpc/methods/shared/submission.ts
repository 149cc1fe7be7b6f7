/**
 * Submits a signed transaction to the txpool. A node that follows others sends it to the sequencer
 * first.
 */

import { splitSidecar } from '../../../engine/primitives/blob-sidecar.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import {
  decodeTransaction,
  TransactionError,
} from '../../../engine/primitives/transaction-codec.ts'
import { readAccount } from '../../../engine/state/read.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { broken, errorOf, failed, RpcError } from '../../core/errors.ts'
import type { Forward } from '../../core/ports.ts'
import { abortAfter } from '../../core/timeout.ts'
import { bytes, hash } from '../../json/codecs.ts'
import { SchemaError } from '../../json/schema.ts'
import type { FrontContext } from '../../method/method.ts'
import { resolveState } from '../../method/resolve.ts'
import { unlessAborted } from './aborted.ts'

type Context = Pick<
  FrontContext,
  'services' | 'client' | 'limits' | 'withState' | 'readNewest' | 'afterResponse'
>
const PENDING = { tag: 'pending' } as const
/** Longer transactions take a while to hash. */
const SHORT_BYTES = 16_384
/**
 * Maximum wait for the local txpool, which may fetch state, after the sequencer has accepted the
 * transaction.
 */
const LOCAL_SUBMIT_MS = 1_000

/**
 * Submits a transaction.
 * @throws {RpcError} the refusal of the sequencer or the txpool
 */
export async function submit(context: Context, raw: Bytes): Promise<Bytes> {
  const { services, client } = context
  const { forward, transactions } = services
  if (forward !== undefined) return submitThere(context, forward, raw)
  const submitted = await transactions.submit(raw, client)
  if ('hash' in submitted) return submitted.hash
  throw errorOf(submitted.error)
}

/**
 * The sequencer's response decides. The local txpool also takes an accepted transaction if it can.
 */
async function submitThere(context: Context, forward: Forward, raw: Bytes): Promise<Bytes> {
  const { limits } = context
  const max = raw[0] === 3 ? limits.blobTransactionBytes : limits.transactionBytes
  if (raw.length > max) throw failed(`oversized data: transaction size ${raw.length}, limit ${max}`)
  const fetched = fetchSender(context, raw)
  // The rejection is handled after the sequencer has accepted the transaction.
  fetched.catch(() => {})
  const taken = await sendOn(context, forward, raw)
  const local = fetched.then(() => submitLocally(context, raw))
  await within(context, LOCAL_SUBMIT_MS, () => local)
  return taken
}

/**
 * The request goes on without its client, because the node should learn whether the transaction was
 * accepted.
 */
async function sendOn(context: Context, forward: Forward, raw: Bytes): Promise<Bytes> {
  const { client, limits } = context
  const { sequencerMs } = limits
  const said = await within(context, sequencerMs, (signal) => {
    const request = { to: 'sequencer', client: client.address, signal } as const
    return forward.forward('eth_sendRawTransaction', [bytes.encode(raw)], request)
  })
  if (said === undefined) throw unheard(`within ${sequencerMs} ms`)
  if ('silent' in said) throw unheard(`(${said.silent})`)
  if ('error' in said) throw errorOf(said.error)
  try {
    return hash.decode(JSON.parse(said.result))
  } catch (error) {
    if (!(error instanceof SchemaError || error instanceof SyntaxError)) throw error
    throw broken('the sequencer accepted the transaction, but did not return its hash')
  }
}
/** Waits for the work; undefined after `ms`. */
async function within<T>(
  { services }: Context,
  ms: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  const late = abortAfter(ms, services.now)
  return unlessAborted(work(late.signal), late.signal).finally(late.end)
}
const unheard = (why: string) =>
  failed(`no response from the sequencer ${why}: it may have accepted the transaction`)

/** The sender's account is fetched while the request to the sequencer runs. */
async function fetchSender(context: Context, raw: Bytes): Promise<void> {
  const { services, withState, readNewest } = context
  if (services.lazy === undefined || raw.length > SHORT_BYTES) return
  await orPass(() => {
    const { from } = decodeTransaction(splitSidecar(raw).envelope)
    return withState(
      () => readNewest((view) => readAccount(resolveState(view, PENDING), from)),
      'send',
    )
  })
}

/**
 * Submits to the local txpool, for nonces and for reads before inclusion. A failure only costs
 * those.
 */
async function submitLocally({ services, client, withState }: Context, raw: Bytes): Promise<void> {
  await orPass(() => withState(() => services.transactions.submit(raw, client, true), 'send'))
}

/**
 * Ignores errors of invalid transactions and of unavailable state, because the sequencer's response
 * decides.
 */
async function orPass(work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!PASSED.some((kind) => error instanceof kind)) throw error
  }
}
const PASSED = [RpcError, TransactionError, ViewError] as const
