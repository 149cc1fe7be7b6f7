/** Hands a signed transaction to the txpool; on a node that follows others, to the sequencer first. */

import { splitSidecar } from '../../../engine/primitives/blob-sidecar.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import {
  decodeTransaction,
  TransactionError,
} from '../../../engine/primitives/transaction-codec.ts'
import { readAccount } from '../../../engine/state/read.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { bytes, hash } from '../../json/codecs.ts'
import { SchemaError } from '../../json/schema.ts'
import type { FrontContext } from '../../method/method.ts'
import { resolveState } from '../../method/resolve.ts'
import { unlessAborted } from '../../seam/aborted.ts'
import { broken, errorOf, failed, RpcError } from '../../seam/errors.ts'
import { abortAfter } from '../../seam/patience.ts'
import type { Forward } from '../../seam/ports.ts'

type Context = Pick<
  FrontContext,
  'services' | 'client' | 'limits' | 'withState' | 'readNewest' | 'afterAnswer'
>
const PENDING = { tag: 'pending' } as const
/** What is longer takes a while to hash. */
const SHORT_BYTES = 16_384
/** How long an answer waits for the txpool here, which may have to fetch state: the transaction is with the sequencer already. */
const KEEP_MS = 1_000

/** @throws {RpcError} what the sequencer, or the txpool, has against it */
export async function submit(context: Context, raw: Bytes): Promise<Bytes> {
  const { services, client } = context
  const { forward, transactions } = services
  if (forward !== undefined) return submitThere(context, forward, raw)
  const submitted = await transactions.submit(raw, client)
  if ('hash' in submitted) return submitted.hash
  throw errorOf(submitted.error)
}

/** What the sequencer says holds: the txpool here keeps what that has taken, where it can. */
async function submitThere(context: Context, forward: Forward, raw: Bytes): Promise<Bytes> {
  const { limits } = context
  const most = raw[0] === 3 ? limits.blobTransactionBytes : limits.transactionBytes
  if (raw.length > most)
    throw failed(`oversized data: transaction size ${raw.length}, limit ${most}`)
  const looked = lookAtSender(context, raw)
  // It is heard where the sequencer has said yes.
  looked.catch(() => {})
  const taken = await sendOn(context, forward, raw)
  const kept = looked.then(() => keep(context, raw))
  await within(context, KEEP_MS, () => kept)
  return taken
}

/** Not ended with the client: who knows whether it was taken should be the node. */
async function sendOn(context: Context, forward: Forward, raw: Bytes): Promise<Bytes> {
  const { client, limits } = context
  const { sequencerMs } = limits
  const said = await within(context, sequencerMs, (signal) => {
    const asked = { to: 'sequencer', client: client.address, signal } as const
    return forward.forward('eth_sendRawTransaction', [bytes.encode(raw)], asked)
  })
  if (said === undefined) throw unheard(`within ${sequencerMs} ms`)
  if ('silent' in said) throw unheard(`(${said.silent})`)
  if ('error' in said) throw errorOf(said.error)
  try {
    return hash.decode(JSON.parse(said.result))
  } catch (error) {
    if (!(error instanceof SchemaError || error instanceof SyntaxError)) throw error
    throw broken('the sequencer took the transaction, but answered without its hash')
  }
}
/** undefined: it takes longer. */
async function within<T>(
  { services }: Context,
  ms: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  const late = abortAfter(ms, services.now)
  return unlessAborted(work(late.signal), late.signal).finally(late.end)
}
const unheard = (why: string) =>
  failed(`no answer from the sequencer ${why}: it may have taken the transaction`)

/** The account is fetched while the sequencer is asked. */
async function lookAtSender(context: Context, raw: Bytes): Promise<void> {
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

/** Has it here too, for nonces, and for whoever asks for it before it is in a block; if not, it is only waited for a little less well. */
async function keep({ services, client, withState }: Context, raw: Bytes): Promise<void> {
  await orPass(() => withState(() => services.transactions.submit(raw, client, true), 'send'))
}

/** Neither bytes that are no transaction nor state that cannot be had change what the sequencer says. */
async function orPass(work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!PASSED.some((kind) => error instanceof kind)) throw error
  }
}
const PASSED = [RpcError, TransactionError, ViewError] as const
