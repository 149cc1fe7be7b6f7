/** Text that a development network prints at its start: its accounts, and a warning about them. */
import { DEV_ACCOUNTS, DEV_MNEMONIC } from '../../../engine/chainspec/dev-accounts.ts'
import { DEV_BALANCE } from '../../../engine/chainspec/dev-genesis.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'

/** Public chains: a transaction that is signed here for one of these ids is valid there. */
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
    `flashnode ${version}: a local development network with the rules of ${chain.name}`,
    '',
    `Accounts of the mnemonic "${DEV_MNEMONIC}", with ${DEV_BALANCE.toLocaleString('en')} tokens each:`,
    ...accounts,
    '',
    'WARNING: these keys are public. On a real network, anything sent to them is lost.',
    ...warning,
    '',
  ].join('\n')
}
