/**
 * Requests as long, deep and many as the limits allow. None may hold the front for more than 20 ms at a stretch: that is the longest turn of its
 * event loop, without the time that the thread waited for a processor, and divided by how slow this machine is.
 */
import { privateKeyToAccount } from 'viem/accounts'
import type { Check } from '../../kit/checks.ts'
import { call, callMany, KEYS } from '../../kit/node.ts'
import { type Cost, startMeasured } from '../cost/measured-node.ts'
import { STRETCH_MS } from '../cost/rules.ts'
import type { Case } from '../cost/wire.ts'
import { hostileInputs, type Input } from './inputs.ts'

/** An input is sent until one turn is short enough. A front that is held by an input is held each time. */
const MOST_TIMES = 7
const TRANSACTIONS = 400
/** Code that has not run yet is slow the first times. */
const WARM_TIMES = 300

const PLAIN: Omit<Case, 'body' | 'over' | 'path'> = {
  ...{ frame: 'text', headers: '', pieces: [], writes: [] },
  ...{ part: 1, times: 1 },
}

/** Those inputs whose name is wanted. @param flags of the node */
export async function sufferInputs(
  check: Check,
  wanted: RegExp,
  flags: readonly string[],
): Promise<void> {
  const node = await startMeasured([], flags)
  const inputs = (await hostileInputs(await fillBlock(node.url))).filter(({ name }) =>
    wanted.test(name),
  )
  const body = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
  for (const over of ['http', 'websocket'] as const)
    await node.measure({ ...PLAIN, body, over, path: '/', times: WARM_TIMES })
  let worstMs = 0
  for (const path of ['/', '/flashblocks'] as const)
    for (const input of inputs) {
      const cases = casesOf(input, path)
      const due = cases.reduce((sum, { times }) => sum + times, 0)
      const costs: Cost[] = []
      const isShort = (cost: Cost) => stretchOf(cost) <= STRETCH_MS
      node.calibrate()
      while (costs.length < MOST_TIMES && !costs.some(isShort))
        costs.push(await node.measureAll(cases, 'answers'))
      const leastMs = Math.min(...costs.map(stretchOf))
      const isAnswered = costs.every(({ answers }) => answers >= due)
      worstMs = Math.max(worstMs, leastMs)
      check(
        `${input.name} on ${path}`,
        leastMs <= STRETCH_MS && isAnswered,
        `${costs.map((cost) => stretchOf(cost).toFixed(1)).join(' ')} ms, ${costs[0]!.answers} of ${due} answers`,
      )
    }
  check('the node goes on', (await call(node.url, 'eth_chainId')) === '0xc4')
  console.log(`${inputs.length} inputs, the longest turn ${worstMs.toFixed(1)} ms`)
  await node.stop()
}

const stretchOf = ({ stretchMs, slowness }: Cost): number => stretchMs / slowness

/** One for each connection. */
function casesOf({ body, over }: Input, path: Case['path']): readonly Case[] {
  if (over === undefined) return [{ ...PLAIN, body, path, over: 'http' }]
  const one: Case = { ...PLAIN, body, path, over: 'websocket', times: over.times }
  return Array.from({ length: over.sockets }, () => one)
}

/** The newest of the blocks that hold transactions to look at. */
async function fillBlock(url: string) {
  const account = privateKeyToAccount(KEYS[0])
  const chainId = Number(await call(url, 'eth_chainId'))
  const raws = await Promise.all(
    Array.from({ length: TRANSACTIONS }, (_, nonce) =>
      account.signTransaction({
        ...{ type: 'eip1559', chainId, nonce, to: account.address, gas: 30_000n, data: '0x00ff' },
        ...{ maxFeePerGas: 10n ** 10n, maxPriorityFeePerGas: 1n },
      }),
    ),
  )
  const hashes = (await callMany(
    url,
    'eth_sendRawTransaction',
    raws.map((raw) => [raw]),
  )) as string[]
  const transaction = hashes.at(-1)!
  for (;;) {
    const receipt = (await call(url, 'eth_getTransactionReceipt', [transaction])) as {
      blockNumber: string
    } | null
    if (receipt !== null) return { block: receipt.blockNumber, transaction, chainId }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
