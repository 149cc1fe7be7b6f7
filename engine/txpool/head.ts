/** The pending head of a view, for the txpool's validation. */
import type { ChainView } from '../chain/types.ts'
import { L1_BLOCK } from '../chainspec/l1-attributes.ts'
import {
  daFootprint,
  type L1FeeParameters,
  l1Cost,
  l1FeeParameters,
  operatorFee,
  rollupData,
} from '../chainspec/l1-fee.ts'
import type { ChainSpec, Rules } from '../chainspec/types.ts'
import { gasOfCounts, intrinsicCounts } from '../execution/transaction/intrinsic-gas.ts'
import { intrinsicInput, isDelegation } from '../execution/transaction/validation.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { EMPTY_HASH } from '../primitives/keccak.ts'
import { bigintToBytes, equalBytes } from '../primitives/words.ts'
import { readAccount, readCode, readSlot } from '../state/read.ts'
import type { StateReader } from '../state/reader.ts'
import { pendingBlock } from './follow.ts'
import type { TxpoolHead } from './types.ts'

/** Opens the pending head; valid as long as the view's lease. */
export function headOf(view: ChainView, chain: ChainSpec): TxpoolHead {
  const block = pendingBlock(view)
  const { header } = block
  const rules = chain.rulesAt(header.number, header.timestamp)
  const state = view.state(block)
  let parameters: L1FeeParameters | undefined
  const account = (address: Bytes) => readAccount(state, address)
  const hasCode = (address: Bytes) => {
    const found = account(address)
    return found !== undefined && !equalBytes(found.codeHash, EMPTY_HASH)
  }
  return {
    rules,
    gasLimit: header.gasLimit,
    baseFee: header.baseFeePerGas ?? 0n,
    account,
    rollup(transaction, digest) {
      if (rules.l1Fee === 'none') return NO_ROLLUP
      parameters ??= readParameters(state, rules)
      const data = digest?.rollup ?? rollupData(transaction.raw)
      const { fee } = l1Cost(data, parameters, rules)
      return {
        fee: fee + operatorFee(transaction.gasLimit, parameters, rules),
        daFootprint: daFootprint(data, parameters, rules),
      }
    },
    minGas(transaction, digest) {
      const counts = digest?.intrinsic ?? intrinsicCounts(intrinsicInput(transaction))
      const { gas, floor } = gasOfCounts(counts, rules)
      return { intrinsic: gas, floor }
    },
    hasCode,
    isContract: (address) => hasCode(address) && !isDelegation(readCode(state, address)),
  }
}

const NO_ROLLUP = { fee: 0n, daFootprint: 0n }

/** Reads the parameters as the contract has them after the pending block's attributes. */
function readParameters(state: StateReader, rules: Rules): L1FeeParameters {
  return l1FeeParameters(rules, (slot) =>
    readSlot(state, L1_BLOCK_ADDRESS, bigintToBytes(BigInt(slot), 32)),
  )
}

const L1_BLOCK_ADDRESS = hexToBytes(L1_BLOCK)
