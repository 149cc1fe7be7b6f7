/** Methods that read blocks and their headers. */
import type { Block, BlockSelector, ChainView } from '../../engine/chain/types.ts'
import { blockId, blockNumber, hash } from '../json/codecs.ts'
import { headerText } from '../json/json.ts'
import { orNull, quantityResult, textResult } from '../json/results.ts'
import { boolean } from '../json/schema.ts'
import { type FrontContext, frontMethod, param } from '../method/method.ts'

const LISTED = ['standard', 'flashblocks'] as const
const blockResult = textResult('Block information', { title: 'Block object', type: 'object' })
const headerResult = textResult('Block header', { title: 'Header object', type: 'object' })
const full = param('Hydrated transactions', boolean)

const byHash = (view: ChainView, blockHash: Uint8Array): Block | undefined =>
  view.block({ hash: blockHash, requireCanonical: false })

export const eth_getBlockByNumber = frontMethod({
  name: 'eth_getBlockByNumber',
  about: { is: 'block', at: 0 },
  summary: 'A block by height or tag.',
  listed: LISTED,
  basis: 'about',
  params: [param('Block', blockNumber), full],
  result: blockResult,
  handler: (context, at, isFull) => textOf(context, context.view.block(at), isFull),
})

export const eth_getBlockByHash = frontMethod({
  name: 'eth_getBlockByHash',
  about: { is: 'blockHash', at: 0 },
  summary: 'A block by hash.',
  listed: LISTED,
  basis: 'about',
  params: [param('Block hash', hash), full],
  result: blockResult,
  handler: (context, blockHash, isFull) => textOf(context, byHash(context.view, blockHash), isFull),
})

const textOf = (
  { services }: FrontContext,
  block: Block | undefined,
  isFull: boolean,
): string | undefined => block && services.texts.block(block, isFull)

export const eth_getHeaderByNumber = frontMethod({
  name: 'eth_getHeaderByNumber',
  about: { is: 'block', at: 0 },
  summary: 'A header by height or tag.',
  params: [param('Block', blockNumber)],
  result: headerResult,
  handler: ({ view }, at) => headerOf(view.block(at)),
})

export const eth_getHeaderByHash = frontMethod({
  name: 'eth_getHeaderByHash',
  about: { is: 'blockHash', at: 0 },
  summary: 'A header by hash.',
  params: [param('Block hash', hash)],
  result: headerResult,
  handler: ({ view }, blockHash) => headerOf(byHash(view, blockHash)),
})

const headerOf = (block: Block | undefined): string | undefined =>
  block === undefined ? undefined : headerText(block.header, block.hash)

export const eth_getBlockReceipts = frontMethod({
  name: 'eth_getBlockReceipts',
  about: { is: 'block', at: 0 },
  summary: 'The receipts of a block.',
  listed: ['flashblocks'],
  basis: 'about',
  weight: 3,
  params: [param('Block', blockId)],
  result: textResult('Receipts', { type: 'array', items: { type: 'object' } }),
  handler({ view, services }, at) {
    const block = view.block(at)
    return block && services.texts.receipts(block)
  },
})

const countResult = orNull(quantityResult('Transaction count'))
export const eth_getBlockTransactionCountByNumber = frontMethod({
  name: 'eth_getBlockTransactionCountByNumber',
  about: { is: 'block', at: 0 },
  summary: 'Number of transactions in a block, by height or tag.',
  listed: LISTED,
  params: [param('Block', blockNumber)],
  result: countResult,
  handler: ({ view }, at) => view.block(at)?.transactionCount,
})

export const eth_getBlockTransactionCountByHash = frontMethod({
  name: 'eth_getBlockTransactionCountByHash',
  about: { is: 'blockHash', at: 0 },
  summary: 'Number of transactions in a block, by hash.',
  listed: LISTED,
  params: [param('Block hash', hash)],
  result: countResult,
  handler: ({ view }, blockHash) => byHash(view, blockHash)?.transactionCount,
})

/** No block of this chain has uncles; an unknown block has no count. */
const uncleCount = (view: ChainView, at: BlockSelector): number | undefined =>
  view.block(at) === undefined ? undefined : 0
const uncleCountResult = orNull(quantityResult('Uncle count'))

export const eth_getUncleCountByBlockNumber = frontMethod({
  name: 'eth_getUncleCountByBlockNumber',
  summary: 'Number of uncles of a block by height or tag; always zero for a known block.',
  listed: LISTED,
  params: [param('Block', blockNumber)],
  result: uncleCountResult,
  handler: ({ view }, at) => uncleCount(view, at),
})

export const eth_getUncleCountByBlockHash = frontMethod({
  name: 'eth_getUncleCountByBlockHash',
  summary: 'Number of uncles of a block by hash; always zero for a known block.',
  listed: LISTED,
  params: [param('Block hash', hash)],
  result: uncleCountResult,
  handler: ({ view }, blockHash) => uncleCount(view, { hash: blockHash, requireCanonical: false }),
})
