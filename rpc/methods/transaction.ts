/** Methods that read transactions and receipts. */
import type { Block, ChainView } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { About } from '../core/about.ts'
import { recordSeenReceipt } from '../events/seen-receipts.ts'
import { blockNumber, hash, index } from '../json/codecs.ts'
import { pooledText } from '../json/json.ts'
import { bytesResult, orNull, textResult } from '../json/results.ts'
import { type FrontContext, frontMethod, type Method, param } from '../method/method.ts'
import { found, foundRaw } from './shared/found.ts'

const LISTED = ['standard', 'flashblocks'] as const
const transactionResult = textResult('Transaction information', {
  title: 'Transaction object',
  type: 'object',
})
const rawResult = orNull(bytesResult('Transaction envelope'))
const transactionHash = param('Transaction hash', hash)
const number = param('Block', blockNumber)
const blockHash = param('Block hash', hash)
const position = param('Transaction index', index)

export const eth_getTransactionByHash = frontMethod({
  name: 'eth_getTransactionByHash',
  about: { is: 'transaction', at: 0 },
  summary: 'A transaction by hash, from a block or from the txpool.',
  listed: LISTED,
  params: [transactionHash],
  result: transactionResult,
  handler: (context, wanted) =>
    found(context, wanted, {
      ofIncluded: ({ block, index }) => context.services.texts.transaction(block, index),
      ofWaiting: pooledText,
    }),
})

export const eth_getRawTransactionByHash = frontMethod({
  name: 'eth_getRawTransactionByHash',
  about: { is: 'transaction', at: 0 },
  summary: 'The signed envelope of a transaction that is in a block or waits in the txpool.',
  listed: ['flashblocks'],
  params: [transactionHash],
  result: rawResult,
  handler: foundRaw,
})

export const eth_getTransactionReceipt = frontMethod({
  name: 'eth_getTransactionReceipt',
  about: { is: 'receipt', at: 0 },
  summary: 'The receipt of a transaction that is in a block, including the pending one.',
  listed: LISTED,
  weight: 3,
  params: [transactionHash],
  result: textResult('Receipt information', { title: 'Receipt object', type: 'object' }),
  handler({ view, services, client }, wanted) {
    const location = view.findTransaction(wanted)
    if (location === undefined) return undefined
    recordSeenReceipt(services, client, { view, location })
    return services.texts.receipt(location.block, location.index)
  },
})

const byHash = (view: ChainView, wanted: Bytes): Block | undefined =>
  view.block({ hash: wanted, requireCanonical: false })
const textAt = (
  { services }: FrontContext,
  block: Block | undefined,
  at: number,
): string | undefined => block && services.texts.transaction(block, at)

const byNumberAndIndex = (
  name: string,
  listed: Method['listed'],
  about: About = { is: 'block', at: 0 },
): Method =>
  frontMethod({
    name,
    about,
    summary: 'A transaction by the height or tag of its block and its index.',
    listed,
    params: [number, position],
    result: transactionResult,
    handler: (context: FrontContext, at, index) => textAt(context, context.view.block(at), index),
  })
export const eth_getTransactionByBlockNumberAndIndex = byNumberAndIndex(
  'eth_getTransactionByBlockNumberAndIndex',
  ['flashblocks'],
)
/** Spelling in the service's list, which other nodes do not have. */
export const eth_getTransactionbyBlockNumberAndIndex = byNumberAndIndex(
  'eth_getTransactionbyBlockNumberAndIndex',
  LISTED,
  { is: 'block', at: 0, elsewhere: eth_getTransactionByBlockNumberAndIndex.name },
)

export const eth_getTransactionByBlockHashAndIndex = frontMethod({
  name: 'eth_getTransactionByBlockHashAndIndex',
  about: { is: 'blockHash', at: 0 },
  summary: 'A transaction by the hash of its block and its index.',
  listed: LISTED,
  params: [blockHash, position],
  result: transactionResult,
  handler: (context, wanted, at) => textAt(context, byHash(context.view, wanted), at),
})

export const eth_getRawTransactionByBlockNumberAndIndex = frontMethod({
  name: 'eth_getRawTransactionByBlockNumberAndIndex',
  about: { is: 'block', at: 0 },
  summary: 'The signed envelope of a transaction by the height or tag of its block and its index.',
  params: [number, position],
  result: rawResult,
  handler: ({ view }, at, index) => view.block(at)?.transaction(index)?.raw,
})

export const eth_getRawTransactionByBlockHashAndIndex = frontMethod({
  name: 'eth_getRawTransactionByBlockHashAndIndex',
  about: { is: 'blockHash', at: 0 },
  summary: 'The signed envelope of a transaction by the hash of its block and its index.',
  params: [blockHash, position],
  result: rawResult,
  handler: ({ view }, wanted, at) => byHash(view, wanted)?.transaction(at)?.raw,
})

const uncleResult = textResult('Uncle', { title: 'Block object', type: 'object' })
export const eth_getUncleByBlockNumberAndIndex = frontMethod({
  name: 'eth_getUncleByBlockNumberAndIndex',
  summary: 'Always null: the node serves no uncles.',
  listed: LISTED,
  params: [number, position],
  result: uncleResult,
  handler: () => undefined,
})
export const eth_getUncleByBlockHashAndIndex = frontMethod({
  name: 'eth_getUncleByBlockHashAndIndex',
  summary: 'Always null: the node serves no uncles.',
  listed: LISTED,
  params: [blockHash, position],
  result: uncleResult,
  handler: () => undefined,
})
