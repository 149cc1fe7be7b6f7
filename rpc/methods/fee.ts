/** Methods about prices that transactions pay and have paid. */
import type { Block, ChainView } from '../../engine/chain/types.ts'
import { failed, timedOut } from '../core/errors.ts'
import { address, type BlockNumber, blockNumber, uint64 } from '../json/codecs.ts'
import { bytesResult, orNull, quantityResult, textResult } from '../json/results.ts'
import { array, type Codec, type PlainCodec, SchemaError } from '../json/schema.ts'
import { onLatest } from '../method/basis.ts'
import { frontMethod, optional, param, poolMethod } from '../method/method.ts'
import { LATEST, resolveBlock } from '../method/resolve.ts'
import { baseFeeAfter, feeHistoryText } from './shared/fee-history.ts'
import { suggestPrice, suggestTip } from './shared/gas-price.ts'

const LISTED = ['standard', 'flashblocks'] as const

export const eth_gasPrice = frontMethod({
  name: 'eth_gasPrice',
  summary: 'A gas price in wei of the native token that suffices for inclusion.',
  listed: LISTED,
  basis: onLatest,
  params: [],
  result: quantityResult('Gas price'),
  handler: ({ view }) => suggestPrice(view),
})

export const eth_maxPriorityFeePerGas = frontMethod({
  name: 'eth_maxPriorityFeePerGas',
  summary: 'A tip in wei that suffices for inclusion.',
  basis: onLatest,
  params: [],
  result: quantityResult('Max priority fee per gas'),
  handler: ({ view }) => suggestTip(view),
})

export const eth_blobBaseFee = frontMethod({
  name: 'eth_blobBaseFee',
  summary: 'Price of blob gas at the latest block.',
  params: [],
  result: quantityResult('Blob gas base fee'),
  handler: ({ view }) => view.env(resolveBlock(view, LATEST)).blobBaseFee,
})

export const eth_coinbase = frontMethod({
  name: 'eth_coinbase',
  summary: 'Address that received the fees of the latest block.',
  basis: onLatest,
  params: [],
  result: { ...bytesResult('Coinbase address'), schema: address.schema },
  handler: ({ view }) => resolveBlock(view, LATEST).header.coinbase,
})

export const eth_baseFee = frontMethod({
  name: 'eth_baseFee',
  summary: 'Base fee of the block after the latest one, in wei.',
  basis: onLatest,
  params: [],
  result: orNull(quantityResult('Base fee')),
  handler: ({ view, chain }) => baseFeeAfter(chain, resolveBlock(view, LATEST).header),
})

/** A JSON number, or hex or decimal digits, as go-ethereum's HexOrDecimal64. */
const blockCount: PlainCodec<bigint> = {
  decode(wire) {
    if (typeof wire === 'number' && Number.isSafeInteger(wire) && wire >= 0) return BigInt(wire)
    if (typeof wire !== 'string') throw new SchemaError('invalid hex or decimal integer')
    const isNumber = /^(0[xX][0-9a-fA-F]{1,64}|[0-9]{1,64})$/.test(wire)
    if (!isNumber || BigInt(wire) >> 64n !== 0n)
      throw new SchemaError('invalid hex or decimal integer')
    return BigInt(wire)
  },
  encode: (value) => `0x${value.toString(16)}`,
  schema: uint64.schema,
}
const percentile: Codec<number> = {
  decode(wire) {
    if (typeof wire !== 'number') throw new SchemaError(typeof wire, 'float64')
    return wire
  },
  encode: (value) => value,
  schema: { type: 'number', minimum: 0, maximum: 100 },
}

export const eth_feeHistory = poolMethod({
  name: 'eth_feeHistory',
  about: { is: 'block', at: 1, isLocalOnly: true },
  summary: 'Base fees, used gas and paid tips of a range of blocks.',
  runs: 'call',
  basis: 'about',
  params: [
    param('Block count', blockCount),
    param('Newest block', blockNumber),
    optional('Reward percentiles', array(percentile, 'feeHistoryPercentiles'), []),
  ],
  result: textResult('Fee history', { type: 'object' }),
  handler({ view, chain, limits, isExpired }, count, newest, percentiles) {
    if (count > 0n) checkPercentiles(percentiles)
    const text = feeHistoryText({
      view,
      chain,
      newest: newestOf(view, newest),
      count: Math.min(Number(count), limits.feeHistoryBlocks),
      percentiles,
      isExpired,
    })
    if (text === undefined) throw timedOut()
    return text
  },
})

/**
 * Checks percentiles with go-ethereum's error texts (eth/gasprice/feehistory.go) and Go's %f for
 * numbers.
 * @throws {RpcError}
 */
function checkPercentiles(percentiles: readonly number[]): void {
  const of = (at: number) => percentiles[at]!.toFixed(6)
  for (const [at, one] of percentiles.entries()) {
    if (one < 0 || one > 100) throw failed(`invalid reward percentile: ${of(at)}`)
    if (at > 0 && one <= percentiles[at - 1]!)
      throw failed(`invalid reward percentile: #${at - 1}:${of(at - 1)} >= #${at}:${of(at)}`)
  }
}

function newestOf(view: ChainView, at: BlockNumber): Block {
  if ('number' in at && at.number > view.pending.number)
    throw failed(`request beyond head block: requested ${at.number}, head ${view.pending.number}`)
  return resolveBlock(view, at)
}
