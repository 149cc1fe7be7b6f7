/**
 * Texts for a person: the addresses, the ready line, a line for each sealed block, and the page in
 * a browser.
 */
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { FromWriter } from '../thread/messages.ts'

export const readyLine = (url: string, chainId: bigint, head: bigint): string =>
  `flashnode ready ${url} chain ${chainId} head ${head}\n`

/** Facts about a node that are known when it is ready. */
export type Addresses = {
  readonly url: string
  readonly hasFeed: boolean
  readonly hasPage: boolean
  readonly rateLimit: number | 'off'
  /** The chain that was in the directory before this start. */
  readonly continued:
    | { readonly path: string; readonly block: number; readonly hint: string }
    | undefined
}

/** Lists the node's addresses for a person; printed before the ready line, which programs read. */
export function addressLines({ url, hasFeed, hasPage, rateLimit, continued }: Addresses): string {
  const socket = url.replace(/^http/, 'ws')
  const rows: readonly (readonly [address: string, words: string])[] = [
    [`${url}/`, 'sealed blocks only'],
    [`${url}/flashblocks`, 'pending from flashblocks'],
    [`${socket}/flashblocks`, 'the same, WebSocket'],
    ...(hasFeed ? ([[`${socket}/feed`, 'raw flashblocks feed']] as const) : []),
    ...(hasPage ? ([[`${url}/`, 'browser: status page']] as const) : []),
  ]
  const width = Math.max(...rows.map(([address]) => address.length))
  return [
    ...(continued === undefined
      ? []
      : [`continues ${continued.path} from block ${continued.block}${continued.hint}`]),
    ...rows.map(([address, words]) => `  ${address.padEnd(width)} ${words}`),
    ...(rateLimit === 'off'
      ? []
      : [
          `  at most ${rateLimit} requests/s for each client address; --rate-limit off removes the limit`,
        ]),
    '',
    '',
  ].join('\n')
}

type Sealed = Extract<FromWriter, { readonly type: 'sealed' }>
export function sealedLine({ number, flashblocks, transactions, gasUsed, ms }: Sealed): string {
  const gas = (Number(gasUsed) / 1e6).toFixed(2)
  return `block ${number}  ${flashblocks} flashblocks  ${transactions} transactions  ${gas} Mgas  ${Math.round(ms)} ms\n`
}

/** Returns the HTML that GET / serves to a browser. */
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
