/** Writes the initial state of flashnode's development chain and of anvil as files. */
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DEV_ACCOUNTS } from '../../engine/chainspec/dev-accounts.ts'
import { DEV_BALANCE, DEV_BASE_FEE, DEV_GAS_LIMIT } from '../../engine/chainspec/dev-genesis.ts'
import type { Hex } from '../../engine/primitives/bytes.ts'
import { quantity } from '../../engine/primitives/hex.ts'
import { CHAIN_ID } from './signed.ts'
import { accountsOf, CALLER, TEN_18 } from './world.ts'

export type GenesisFiles = { readonly allocFile: string; readonly genesisFile: string }

/**
 * @param holders holders of the first token in the genesis of each server
 * @param more further accounts of flashnode's genesis
 */
export function writeGenesis(
  holders: { readonly flashnode: number; readonly anvil: number },
  more: Readonly<Record<Hex, object>> = {},
): GenesisFiles {
  const path = (name: string) => join(tmpdir(), `flashnode-bench-${process.pid}-${name}.json`)
  const files = { allocFile: path('alloc'), genesisFile: path('genesis') }
  writeFileSync(files.allocFile, JSON.stringify({ ...allocOf(holders.flashnode), ...more }))
  const funded = DEV_ACCOUNTS.map(
    ({ address }) => [address, { balance: quantity(DEV_BALANCE * TEN_18) }] as const,
  )
  const alloc = { ...allocOf(holders.anvil), ...Object.fromEntries(funded) }
  writeFileSync(
    files.genesisFile,
    JSON.stringify({
      config: { chainId: Number(CHAIN_ID), ...FORKS },
      nonce: '0x0',
      extraData: '0x',
      difficulty: '0x0',
      timestamp: quantity(now()),
      gasLimit: quantity(DEV_GAS_LIMIT),
      baseFeePerGas: quantity(DEV_BASE_FEE),
      mixHash: ZERO,
      coinbase: ZERO.slice(0, 42),
      alloc,
    }),
  )
  return files
}

function allocOf(holders: number): Readonly<Record<Hex, object>> {
  const alloc: Record<Hex, object> = { [CALLER]: { balance: quantity(1_000n * TEN_18) } }
  for (const { address, code, storage } of accountsOf(holders))
    alloc[address] = { balance: '0x0', code, storage: Object.fromEntries(storage) }
  return alloc
}
const now = () => Math.floor(Date.now() / 1_000)
const ZERO = `0x${'00'.repeat(32)}`
/** Forks that are active from the first block on. */
const FORKS = {
  homesteadBlock: 0,
  eip150Block: 0,
  eip155Block: 0,
  eip158Block: 0,
  byzantiumBlock: 0,
  constantinopleBlock: 0,
  petersburgBlock: 0,
  istanbulBlock: 0,
  berlinBlock: 0,
  londonBlock: 0,
  terminalTotalDifficulty: 0,
  terminalTotalDifficultyPassed: true,
  shanghaiTime: 0,
  cancunTime: 0,
  pragueTime: 0,
}
