/** What a person sees when a development network starts: its accounts, and what not to do with them. */
import { DEV_ACCOUNTS, DEV_MNEMONIC } from '../../../engine/chainspec/dev-accounts.ts'
import { DEV_BALANCE } from '../../../engine/chainspec/dev-genesis.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'

/** Chains that exist: what is signed for their ids is worth something there. */
const REAL_CHAINS: ReadonlyMap<bigint, string> = new Map([
  [196n, 'X Layer'],
  [1952n, 'X Layer testnet'],
  [10n, 'OP Mainnet'],
  [11155420n, 'OP Sepolia'],
])

export function banner(chain: ChainSpec, version: string): string {
  const accounts = DEV_ACCOUNTS.flatMap(({ address, privateKey }, index) => [
    `  (${index}) ${address}`,
    `      ${privateKey}`,
  ])
  const real = REAL_CHAINS.get(chain.chainId)
  const warning =
    real === undefined
      ? []
      : [
          `WARNING: chain id ${chain.chainId} is that of ${real}: a transaction signed here with a real key is valid there.`,
          'Use these accounts only, or another --chain-id.',
          '',
        ]
  return [
    `flashnode ${version}: a development network of its own, with the rules of ${chain.name}`,
    '',
    `Accounts, ${DEV_BALANCE.toLocaleString('en')} tokens each, of the mnemonic "${DEV_MNEMONIC}":`,
    ...accounts,
    '',
    'WARNING: these keys are public. Whatever is sent to them on a real network is lost.',
    ...warning,
    '',
  ].join('\n')
}
