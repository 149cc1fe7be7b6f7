/** What a person sees on standard output: the banner, the ready line, a line for each sealed block. */
import { DEV_ACCOUNTS, DEV_MNEMONIC } from '../engine/chainspec/dev-accounts.ts'
import { DEV_BALANCE } from '../engine/chainspec/dev-genesis.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { FromWriter } from './messages.ts'

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

export const readyLine = (url: string, chainId: bigint, head: bigint): string =>
  `flashnode ready ${url} chain ${chainId} head ${head}\n`

type Sealed = Extract<FromWriter, { readonly type: 'sealed' }>
export function sealedLine({ number, flashblocks, transactions, gasUsed, ms }: Sealed): string {
  const gas = (Number(gasUsed) / 1e6).toFixed(2)
  return `block ${number}  ${flashblocks} flashblocks  ${transactions} transactions  ${gas} Mgas  ${Math.round(ms)} ms\n`
}

/** What GET / shows in a browser. */
export function page(chain: ChainSpec, url: string): string {
  const socket = url.replace(/^http/, 'ws')
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>flashnode</title><link rel="icon" href="data:,">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}code{background:#8882;padding:.1em .3em}</style></head>
<body><h1>flashnode</h1><p>A JSON-RPC node of chain ${chain.chainId} (${chain.name}). Point a wallet or a library at one of these:</p>
<ul><li><code>${url}/</code> and <code>${socket}/</code>: sealed blocks</li>
<li><code>${url}/flashblocks</code> and <code>${socket}/flashblocks</code>: the same with <code>pending</code> from flashblocks</li>
<li><code>${socket}/feed</code>: the flashblocks themselves</li></ul>
<p><a href="/readyz">readiness</a></p></body></html>
`
}
