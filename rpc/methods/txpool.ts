/** The txpool from outside. */
import type { Counts } from '../../engine/txpool/sender.ts'
import { address } from '../json/codecs.ts'
import { plainResult } from '../json/results.ts'
import { frontMethod, param } from '../method/method.ts'

export const txpool_content = frontMethod({
  name: 'txpool_content',
  summary: 'Always empty: what waits in the txpool is not shown.',
  listed: ['standard', 'flashblocks'],
  params: [],
  result: plainResult('Transactions', { type: 'object' }),
  handler: () => ({ pending: {}, queued: {} }),
})

export const txpool_contentFrom = frontMethod({
  name: 'txpool_contentFrom',
  summary: 'Always empty, as txpool_content is.',
  params: [param('Address', address)],
  result: plainResult('Transactions', { type: 'object' }),
  handler: () => ({ pending: {}, queued: {} }),
})

export const txpool_status = frontMethod({
  name: 'txpool_status',
  summary: 'How many transactions wait: executable ones and those with a gap before them.',
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
