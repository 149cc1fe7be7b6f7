/**
 * The chain of the embedded network: a genesis at height 0 under the newest rules of a chosen
 * chain.
 */

import { hashHeader } from '../primitives/header.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { encodeExtraData } from './base-fee.ts'
import { DEV_ACCOUNTS } from './dev-accounts.ts'
import type { Schedule } from './forks.ts'
import { type Allocation, allocationRoots, genesisHeader, SYSTEM_CONTRACTS } from './genesis.ts'
import { SEQUENCER_FEE_VAULT } from './l1-attributes.ts'
import { NEWEST_AT_0 } from './networks.ts'
import { type ChainParameters, rulesOf } from './rules.ts'
import type { ChainSpec } from './types.ts'

export type DevOptions = {
  /** The chain that gives the rules and, without `chainId`, the id. */
  readonly parameters: ChainParameters
  readonly name: string
  /** Seconds. */
  readonly blockTime: number
  readonly chainId?: bigint
  /** Timestamp of the genesis block, in seconds. */
  readonly timestamp: bigint
  readonly gasLimit?: bigint
  /** Every fork of `NEWEST_AT_0` at 0 by default. */
  readonly schedule?: Schedule
  /** Further accounts; they replace the default accounts and contracts at their addresses. */
  readonly alloc?: Allocation
}

/** Balance of each of the ten accounts, in tokens of 10^18. */
export const DEV_BALANCE = 10_000n
/** Wei. The value is also the minimum, so that an idle chain retains it. */
export const DEV_BASE_FEE = 100_000_000n
export const DEV_GAS_LIMIT = 50_000_000n

/** Makes the chain; equal options give an equal genesis. */
export function devChain(options: DevOptions): ChainSpec {
  const chainId = options.chainId ?? options.parameters.chainId
  const { schedule = NEWEST_AT_0 } = options
  const rulesAt = rulesOf({ ...options.parameters, chainId, schedule, hasEdits: true })
  const rules = rulesAt(0n, options.timestamp)
  const alloc: Allocation = new Map([
    ...DEV_ACCOUNTS.map(({ address }) => [address, { balance: DEV_BALANCE * 10n ** 18n }] as const),
    ...SYSTEM_CONTRACTS,
    ...(options.alloc ?? []),
  ])
  const header = genesisHeader(
    {
      number: 0n,
      timestamp: options.timestamp,
      gasLimit: options.gasLimit ?? DEV_GAS_LIMIT,
      baseFeePerGas: DEV_BASE_FEE,
      coinbase: hexToBytes(SEQUENCER_FEE_VAULT),
      extraData: encodeExtraData(
        { ...rules.eip1559, minBaseFee: DEV_BASE_FEE },
        rules.extraDataVersion,
      ),
    },
    rules,
    allocationRoots(alloc),
  )
  return {
    name: options.name,
    chainId,
    genesisNumber: 0n,
    genesisHeader: header,
    genesisHash: hashHeader(header),
    alloc,
    eip1559: rules.eip1559,
    blockTime: options.blockTime,
    schedule,
    rulesAt,
  }
}
