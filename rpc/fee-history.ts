/** eth_feeHistory: base fees, how full blocks were, and what tips were paid. */
import type { Block, ChainView } from '../engine/chain/types.ts'
import { nextBaseFee } from '../engine/chainspec/base-fee.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import { quantityText } from './ethereum.ts'
import { tipsOf } from './gas-price.ts'

type FeeRow = {
  readonly baseFee: bigint
  readonly blobFee: bigint
  readonly gasUsedRatio: number
  readonly rewards: readonly bigint[]
}

/**
 * JSON text.
 * @param options.newest last block of the history; `count` as many blocks before and with it as there are
 * @returns undefined when `isExpired` says so in between
 */
export function feeHistoryText(options: {
  readonly view: ChainView
  readonly chain: ChainSpec
  readonly newest: Block
  readonly count: number
  readonly percentiles: readonly number[] | undefined
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
    if (block !== undefined) rows.push(rowOf(view, block, percentiles ?? []))
  }
  const last = newest.header
  const next = nextBaseFee(chain, last, last.timestamp + BigInt(chain.blockTime))
  const hasBaseFee = last.baseFeePerGas !== undefined
  const baseFees = [...rows.map(({ baseFee }) => baseFee), hasBaseFee ? next : 0n]
  const blobFees = [...rows.map(({ blobFee }) => blobFee), rows.at(-1)?.blobFee ?? 0n]
  const rewards = rows.map((row) => `[${row.rewards.map(quantityText).join(',')}]`).join(',')
  return (
    `{"oldestBlock":${quantityText(oldest)},` +
    `${percentiles === undefined ? '' : `"reward":[${rewards}],`}` +
    `"baseFeePerGas":[${baseFees.map(quantityText).join(',')}],` +
    `"gasUsedRatio":[${rows.map((row) => row.gasUsedRatio).join(',')}],` +
    `"baseFeePerBlobGas":[${blobFees.map(quantityText).join(',')}],` +
    `"blobGasUsedRatio":[${rows.map(() => 0).join(',')}]}`
  )
}

function rowOf(view: ChainView, block: Block, percentiles: readonly number[]): FeeRow {
  const { header } = block
  return {
    baseFee: header.baseFeePerGas ?? 0n,
    blobFee: header.excessBlobGas === undefined ? 0n : view.env(block).blobBaseFee,
    gasUsedRatio: header.gasLimit === 0n ? 0 : Number(header.gasUsed) / Number(header.gasLimit),
    rewards: percentiles.length === 0 ? [] : rewardsOf(block, percentiles),
  }
}

/** The tip at each percentile of the block's gas, cheapest first. */
function rewardsOf(block: Block, percentiles: readonly number[]): readonly bigint[] {
  const tips = tipsOf(block)
  const paid = block
    .receipts()
    .map(({ gasUsed }, at) => ({ gasUsed, tip: tips[at]! }))
    .toSorted((a, b) => (a.tip < b.tip ? -1 : a.tip > b.tip ? 1 : 0))
  if (paid.length === 0) return percentiles.map(() => 0n)
  const total = Number(block.header.gasUsed)
  let at = 0
  let sum = Number(paid[0]!.gasUsed)
  return percentiles.map((percentile) => {
    const threshold = Math.floor((total * percentile) / 100)
    while (sum < threshold && at < paid.length - 1) sum += Number(paid[++at]!.gasUsed)
    return paid[at]!.tip
  })
}
