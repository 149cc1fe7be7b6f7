/** Methods that return encoded blocks, receipts and transactions (go-ethereum: debug_getRaw*). */
import type { Block, BlockSelector, ChainView } from '../../engine/chain/types.ts'
import { encodeBlock } from '../../engine/primitives/block-codec.ts'
import { encodeHeader } from '../../engine/primitives/header.ts'
import { encodeReceipt } from '../../engine/primitives/receipt-codec.ts'
import { failed } from '../core/errors.ts'
import { blockId, hash, hexText } from '../json/codecs.ts'
import { bytesResult, orNull, textResult } from '../json/results.ts'
import { frontMethod, param } from '../method/method.ts'
import { foundRaw } from './shared/found.ts'

const block = param('Block', blockId)
const about = { is: 'block', at: 0, isLocalOnly: true } as const

function blockOf(view: ChainView, at: BlockSelector): Block {
  const found = view.block(at)
  if (found === undefined) throw failed('block not found')
  return found
}

export const debug_getRawHeader = frontMethod({
  name: 'debug_getRawHeader',
  about,
  summary: 'RLP of a header.',
  basis: 'about',
  params: [block],
  result: bytesResult('Header RLP'),
  handler: ({ view }, at) => encodeHeader(blockOf(view, at).header),
})

export const debug_getRawBlock = frontMethod({
  name: 'debug_getRawBlock',
  about,
  summary: 'RLP of a block.',
  basis: 'about',
  params: [block],
  result: bytesResult('Block RLP'),
  handler({ view }, at) {
    const found = blockOf(view, at)
    const { header } = found
    const { ommers, withdrawals = header.withdrawalsRoot === undefined ? undefined : [] } =
      found.tail()
    const transactions = found.transactions().map(({ raw }) => raw)
    return encodeBlock({ header, transactions, ommers, withdrawals })
  },
})

export const debug_getRawReceipts = frontMethod({
  name: 'debug_getRawReceipts',
  about,
  summary: 'The receipts of a block, encoded as in the receipts trie.',
  basis: 'about',
  params: [block],
  result: textResult('Receipts', { type: 'array', items: { type: 'string' } }),
  handler: ({ view }, at) =>
    `[${blockOf(view, at)
      .receipts()
      .map((receipt) => hexText(encodeReceipt(receipt)))
      .join(',')}]`,
})

export const debug_getRawTransaction = frontMethod({
  name: 'debug_getRawTransaction',
  summary: 'The signed envelope of a transaction that is in a block or waits in the txpool.',
  params: [param('Transaction hash', hash)],
  result: orNull(bytesResult('Transaction')),
  handler: foundRaw,
})
