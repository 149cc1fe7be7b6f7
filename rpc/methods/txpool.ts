/** Methods that describe the txpool. */
import type { Counts } from '../../engine/txpool/sender.ts'
import { address } from '../json/codecs.ts'
import { plainResult } from '../json/results.ts'
import { frontMethod, param } from '../method/method.ts'

export const txpool_content = frontMethod({
  name: 'txpool_content',
  summary: 'Always empty, because the node does not publish waiting transactions.',
  listed: ['standard', 'flashblocks'],
  params: [],
  result: plainResult('Transactions', { type: 'object' }),
  handler: () => ({ pending: {}, queued: {} }),
})

export const txpool_contentFrom = frontMethod({
  name: 'txpool_contentFrom',
  summary: 'Always empty, like txpool_content.',
  params: [param('Address', address)],
  result: plainResult('Transactions', { type: 'object' }),
  handler: () => ({ pending: {}, queued: {} }),
})

export const txpool_status = frontMethod({
  name: 'txpool_status',
  summary:
    'Numbers of waiting transactions: executable ones (pending), and those after a missing nonce (queued).',
  params: [],
  result: plainResult('Counts', { type: 'object' }),
  handler({ services }) {
    const counts = services.transactions.counts()
    return counts instanceof Promise ? counts.then(countsJson) : countsJson(counts)
  },
})

const countsJson = ({ pending, queued }: Counts) => ({
  pending: `0x${pending.toString(16)}`,
  queued: `0x${queued.toString(16)}`,
})
