/** eth_feeHistory: base fees, fullness of blocks, and paid tips. */
import type { Block, ChainView } from '../../../engine/chain/types.ts'
import { nextBaseFee } from '../../../engine/chainspec/base-fee.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { nextExcessBlobGas } from '../../../engine/execution/block/header-rules.ts'
import { blobBaseFee } from '../../../engine/execution/transaction/fees.ts'
import { GAS_PER_BLOB } from '../../../engine/execution/transaction/validation.ts'
import type { Header } from '../../../engine/primitives/header.ts'
import { quantityText } from '../../json/codecs.ts'
import { tipsOf } from './gas-price.ts'

type FeeRow = {
  readonly baseFee: bigint
  readonly blobFee: bigint
  readonly gasUsedRatio: number
  readonly blobGasUsedRatio: number
  readonly rewards: readonly bigint[]
}

/**
 * Builds the fee history as JSON text.
 * @param options.newest last block of the history; `count` is the maximum number of blocks up to it
 * @returns undefined when `isExpired` turns true in between
 */
export function feeHistoryText(options: {
  readonly view: ChainView
  readonly chain: ChainSpec
  readonly newest: Block
  readonly count: number
  /** Ascending percentiles; empty leaves the rewards out. */
  readonly percentiles: readonly number[]
  readonly isExpired: () => boolean
}): string | undefined {
  const { view, chain, newest, percentiles } = options
  const available = Number(newest.number - view.earliest) + 1
  const count = Math.min(options.count, available)
  if (count < 1) return '{"oldestBlock":"0x0","baseFeePerGas":[],"gasUsedRatio":[]}'
  const oldest = newest.number - BigInt(count) + 1n
  const rows: FeeRow[] = []
  for (let number = oldest; number <= newest.number; number++) {
    if (options.isExpired()) return undefined
    const block = number === newest.number ? newest : view.block({ number })
    if (block !== undefined) rows.push(rowOf({ view, chain, block }, percentiles))
  }
  const last = newest.header
  const baseFees = [...rows.map(({ baseFee }) => baseFee), baseFeeAfter(chain, last) ?? 0n]
  const blobFees = [...rows.map(({ blobFee }) => blobFee), blobFeeAfter(chain, last)]
  const rewards = rows.map((row) => `[${row.rewards.map(quantityText).join(',')}]`).join(',')
  return (
    `{"oldestBlock":${quantityText(oldest)},` +
    `${percentiles.length === 0 ? '' : `"reward":[${rewards}],`}` +
    `"baseFeePerGas":[${baseFees.map(quantityText).join(',')}],` +
    `"gasUsedRatio":[${rows.map((row) => row.gasUsedRatio).join(',')}],` +
    `"baseFeePerBlobGas":[${blobFees.map(quantityText).join(',')}],` +
    `"blobGasUsedRatio":[${rows.map((row) => row.blobGasUsedRatio).join(',')}]}`
  )
}

/** Returns the base fee of the next block; undefined before the chain has base fees. */
export const baseFeeAfter = (chain: ChainSpec, last: Header): bigint | undefined =>
  last.baseFeePerGas === undefined
    ? undefined
    : nextBaseFee(chain, last, last.timestamp + BigInt(chain.blockTime))

function blobFeeAfter(chain: ChainSpec, last: Header): bigint {
  if (last.excessBlobGas === undefined) return 0n
  const rules = chain.rulesAt(last.number + 1n, last.timestamp + BigInt(chain.blockTime))
  return rules.blobs === undefined ? 1n : blobBaseFee(rules, nextExcessBlobGas(rules, last))
}

/** Share of the maximum blobs. An OP chain has no blobs, and its field counts something else. */
function blobRatio(chain: ChainSpec, { number, timestamp, blobGasUsed = 0n }: Header): number {
  const { blobs } = chain.rulesAt(number, timestamp)
  return blobs === undefined ? 0 : Number(blobGasUsed) / Number(blobs.max * GAS_PER_BLOB)
}

function rowOf(
  at: { readonly view: ChainView; readonly chain: ChainSpec; readonly block: Block },
  percentiles: readonly number[],
): FeeRow {
  const { view, chain, block } = at
  const { header } = block
  return {
    baseFee: header.baseFeePerGas ?? 0n,
    blobFee: header.excessBlobGas === undefined ? 0n : view.env(block).blobBaseFee,
    blobGasUsedRatio: blobRatio(chain, header),
    gasUsedRatio: header.gasLimit === 0n ? 0 : Number(header.gasUsed) / Number(header.gasLimit),
    rewards: percentiles.length === 0 ? [] : rewardsOf(block, percentiles),
  }
}

/** Returns the tip at each percentile of the block's gas, cheapest first. */
function rewardsOf(block: Block, percentiles: readonly number[]): readonly bigint[] {
  const tips = tipsOf(block)
  const byTip = block
    .receipts()
    .map(({ gasUsed }, at) => ({ gasUsed, tip: tips[at]! }))
    .toSorted((a, b) => (a.tip < b.tip ? -1 : a.tip > b.tip ? 1 : 0))
  if (byTip.length === 0) return percentiles.map(() => 0n)
  const total = Number(block.header.gasUsed)
  let at = 0
  let sum = Number(byTip[0]!.gasUsed)
  return percentiles.map((percentile) => {
    const threshold = Math.floor((total * percentile) / 100)
    while (sum < threshold && at < byTip.length - 1) sum += Number(byTip[++at]!.gasUsed)
    return byTip[at]!.tip
  })
}
