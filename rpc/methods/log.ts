/** Methods that return logs, by query and by polling filters. */
import { findLogs, logsIn, preparePattern } from '../../engine/chain/logs.ts'
import type { Basis, ChainView, LogSearch, LogSink } from '../../engine/chain/types.ts'
import {
  type RpcError,
  responseTooLarge,
  timedOut,
  tooManyLogs,
  unknownBlock,
} from '../core/errors.ts'
import { resultText } from '../core/executor.ts'
import type { Limits } from '../core/limits.ts'
import { type LogQuery, logQuery } from '../events/log-filter.ts'
import { LogWriter } from '../json/log-writer.ts'
import { booleanResult, stringResult, textResult, writtenResult } from '../json/results.ts'
import { boolean, text } from '../json/schema.ts'
import { ofBlock } from '../method/basis.ts'
import {
  type FrontContext,
  frontMethod,
  type MethodContext,
  optional,
  param,
  poolMethod,
} from '../method/method.ts'
import { type LogRange, lateData, rangeText, resolveRange } from './shared/log-range.ts'

const LISTED = ['standard', 'flashblocks'] as const
const logsResult = textResult('Log objects', { type: 'array', items: { type: 'object' } })

export const eth_getLogs = poolMethod({
  name: 'eth_getLogs',
  about: { is: 'query', at: 0 },
  summary:
    'Logs that match a filter, of one block or of a range that may end at the pending block.',
  runs: 'logs',
  listed: LISTED,
  basis: (view, [query]) => basisOf(view, query),
  lateData(view, [wire], limits) {
    const query = logQuery.decode(wire, limits)
    const range = query.blockHash === undefined ? resolveRange(view, query, limits) : undefined
    return range && lateData(range)
  },
  weight: 5,
  params: [param('Filter', logQuery)],
  result: writtenResult('Log objects', logsResult.schema),
  handler(context, query) {
    const { view, output, limits } = context
    const writer = new LogWriter(output)
    if (query.blockHash !== undefined) {
      const block = view.block({ hash: query.blockHash, requireCanonical: false })
      if (block === undefined) throw unknownBlock()
      for (const found of logsIn(block, preparePattern(query))) writer.add(found)
    } else {
      const range = resolveRange(view, query, limits)
      if (range !== undefined) search(context, query, { range, sink: writer })
    }
    writer.end()
    if (output.isFull) throw responseTooLarge(writer.length, limits.responseBytes)
  },
})

/** A range with one bound above latest is treated like a range with both bounds above latest. */
function basisOf(view: ChainView, query: unknown): Basis {
  if (typeof query !== 'object' || query === null) return 'heads'
  const { blockHash, fromBlock, toBlock } = query as Readonly<Record<string, unknown>>
  if (typeof blockHash === 'string') return ofBlock(view, blockHash)
  const isBelow = (bound: unknown) => ofBlock(view, bound) === 'latest'
  return isBelow(fromBlock ?? 'latest') && isBelow(toBlock ?? 'pending') ? 'latest' : 'heads'
}

function search(
  context: MethodContext,
  query: LogQuery,
  { range, sink }: { readonly range: LogRange; readonly sink: LogSink },
): void {
  const { view, limits, isExpired } = context
  // A single block is answered completely, because there is no smaller range to suggest.
  const isOne = range.fromBlock === range.toBlock
  const filter = { ...range, addresses: query.addresses, topics: query.topics }
  const bounds = {
    maxLogs: isOne ? Number.MAX_SAFE_INTEGER : limits.logsResults,
    maxBytes: isOne ? Number.MAX_SAFE_INTEGER : limits.responseBytes,
    maxReads: limits.logsReads,
    isExpired,
  }
  const result = findLogs(view, filter, { limits: bounds, sink })
  if (result.status === 'found') return
  if (result.status === 'expired') throw timedOut(lateData(range, result.firstLeftOut))
  throw tooMany(result, range, limits)
}

function tooMany(
  result: LogSearch & { readonly status: 'tooMany' },
  { fromBlock, fromFlashblock }: LogRange,
  limits: Limits,
): RpcError {
  const { name, limit } = {
    logs: { name: 'results', limit: limits.logsResults },
    bytes: { name: 'response bytes', limit: limits.responseBytes },
    reads: { name: 'receipts', limit: limits.logsReads },
  }[result.what]
  const last = result.firstLeftOut - 1n
  const suggested = rangeText({ fromBlock, toBlock: last, fromFlashblock })
  return tooManyLogs({
    message: `query exceeds max ${name} ${limit}, retry with the range ${fromBlock}-${last}`,
    limit,
    found: result.found,
    suggested,
  })
}

const filterResult = stringResult('Filter identifier')
const filterId = param('Filter identifier', text('Filter identifier', 100, 'rpc.ID'))
export const eth_newFilter = frontMethod({
  name: 'eth_newFilter',
  summary: 'Creates a filter for logs of canonical blocks, to poll with eth_getFilterChanges.',
  listed: LISTED,
  hasEffect: true,
  params: [param('Filter', logQuery)],
  result: filterResult,
  handler: ({ services, client }, query) =>
    services.filters.addLogs(client.address, query, logQuery.encode(query)),
})

export const eth_newBlockFilter = frontMethod({
  name: 'eth_newBlockFilter',
  summary: 'Creates a filter for hashes of canonical blocks, to poll with eth_getFilterChanges.',
  listed: LISTED,
  hasEffect: true,
  params: [],
  result: filterResult,
  handler: ({ services, client }) => services.filters.addBlocks(client.address),
})

export const eth_newPendingTransactionFilter = frontMethod({
  name: 'eth_newPendingTransactionFilter',
  summary:
    'Creates a filter for transactions that become executable in the txpool, to poll with eth_getFilterChanges.',
  hasEffect: true,
  params: [optional('Full transactions', boolean, false)],
  result: filterResult,
  handler: ({ services, client }, isFull) => services.filters.addPending(client.address, isFull),
})

export const eth_uninstallFilter = frontMethod({
  name: 'eth_uninstallFilter',
  summary: 'Removes a filter.',
  listed: LISTED,
  hasEffect: true,
  params: [filterId],
  result: booleanResult('Success'),
  handler: ({ services }, id) => services.filters.remove(id),
})

export const eth_getFilterChanges = frontMethod({
  name: 'eth_getFilterChanges',
  about: { is: 'filter', at: 0 },
  summary: 'What a filter has matched since its last poll.',
  listed: LISTED,
  hasEffect: true,
  params: [filterId],
  result: textResult('Changes', { type: 'array' }),
  handler: ({ services }, id) => services.filters.changes(id),
})

export const eth_getFilterLogs = frontMethod({
  name: 'eth_getFilterLogs',
  about: { is: 'filter', at: 0 },
  summary: 'All logs that match a filter.',
  listed: LISTED,
  weight: 5,
  params: [filterId],
  result: logsResult,
  handler: (context, id) => logsOfFilter(context, id),
})

async function logsOfFilter(
  { services, callPool }: FrontContext,
  id: string,
): Promise<string | undefined> {
  const wire = await services.filters.query(id)
  return resultText(await callPool(eth_getLogs, [wire]))
}
