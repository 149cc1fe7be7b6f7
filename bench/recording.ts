/**
 * Records one transaction on a development chain and draws it as an animated terminal in real time.
 * Usage: npm run bench:recording [-- --write] (docs/images/send-and-receipt.svg; otherwise it
 * prints the times)
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { createPublicClient, createWalletClient, http, parseEther } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { xLayer } from 'viem/chains'
import { KEYS, startNode } from '../test/kit/node.ts'

const FILE = 'docs/images/send-and-receipt.svg'
const TO = '0x000000000000000000000000000000000000beef'
/**
 * Number of sends, of which the median is drawn, because a receipt takes from almost nothing to a
 * flashblock's time.
 */
const SENDS = 9
const LOOP_MS = 4_000

type Recording = {
  readonly hash: string
  readonly block: bigint
  /** Milliseconds since the send started. */
  readonly hashMs: number
  readonly receiptMs: number
  readonly sealedMs: number
}

const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } })
const node = await startNode(['--ephemeral'])
const recordings: Recording[] = []
try {
  // The first send warms the client's modules and the node's code.
  for (let index = 0; index <= SENDS; index++) {
    const recording = await recordSend(node.url)
    if (index > 0) recordings.push(recording)
  }
} finally {
  await node.stop()
}
const sorted = recordings.toSorted((one, other) => one.receiptMs - other.receiptMs)
const median = sorted[(SENDS - 1) / 2]!
console.log(
  `hash after ${median.hashMs} ms, receipt after ${median.receiptMs} ms, sealed after ${median.sealedMs} ms (median of ${SENDS} by receipt)`,
)
if (values.write) writeFileSync(FILE, drawn(median))

async function recordSend(url: string): Promise<Recording> {
  const account = privateKeyToAccount(KEYS[0])
  const transport = http(`${url}/flashblocks`)
  const wallet = createWalletClient({ account, chain: xLayer, transport })
  const client = createPublicClient({ chain: xLayer, transport })
  const sealed = createPublicClient({ chain: xLayer, transport: http(url) })
  const startedMs = performance.now()
  const sinceStart = () => Math.round(performance.now() - startedMs)
  const hash = await wallet.sendTransaction({ to: TO, value: parseEther('1') })
  const hashMs = sinceStart()
  const { blockNumber } = await client.waitForTransactionReceipt({ hash })
  const receiptMs = sinceStart()
  await sealed.waitForTransactionReceipt({ hash, pollingInterval: 20 })
  return { hash, block: blockNumber, hashMs, receiptMs, sealedMs: sinceStart() }
}

/** Draws an animation that repeats after LOOP_MS. */
function drawn({ hash, block, hashMs, receiptMs, sealedMs }: Recording): string {
  const lines: readonly (readonly [atMs: number, color: string, text: string, ms: string])[] = [
    [0, '#8b949e', 'await wallet.sendTransaction({ to, value })', '0 ms'],
    [hashMs, '#e6edf3', `${hash.slice(0, 18)}…`, `${hashMs} ms`],
    [hashMs, '#8b949e', 'await client.waitForTransactionReceipt({ hash })', ''],
    [receiptMs, '#2fbfae', `success, in the pending block ${block}`, `${receiptMs} ms`],
    [sealedMs, '#57c785', `block ${block} is sealed`, `${sealedMs} ms`],
  ]
  const rows = lines.map(([atMs, color, text, ms], index) => {
    const y = 62 + 30 * index
    const from = ((100 * atMs) / LOOP_MS).toFixed(2)
    return {
      style: `@keyframes l${index}{0%,${from}%{opacity:0}${Number(from) + 0.01}%,100%{opacity:1}}.l${index}{animation:l${index} ${LOOP_MS}ms linear infinite}`,
      row: `<g class="l${index}"><text x="24" y="${y}" fill="${color}">${escaped(text)}</text><text x="696" y="${y}" text-anchor="end" fill="${color}">${ms}</text></g>`,
    }
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 208" width="720" height="208" role="img">
<title>A transfer is sent with viem; its receipt comes after ${receiptMs} ms, its block is sealed after ${sealedMs} ms.</title>
<style>text{font:15px ui-monospace,Menlo,Consolas,monospace}${rows.map(({ style }) => style).join('')}</style>
<rect width="720" height="208" rx="10" fill="#0d1117"/>
<circle cx="24" cy="22" r="6" fill="#ff5f57"/><circle cx="44" cy="22" r="6" fill="#febc2e"/><circle cx="64" cy="22" r="6" fill="#28c840"/>
${rows.map(({ row }) => row).join('\n')}
</svg>
`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
