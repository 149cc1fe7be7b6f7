/**
 * These requests are as long, deep and many as the limits allow. None may occupy the front for more
 * than 20 ms at a stretch. A stretch is the longest turn of the event loop, divided by the slowness
 * of this machine. The thread's wait for a processor does not count.
 */
import { privateKeyToAccount } from 'viem/accounts'
import type { Check } from '../../kit/checks.ts'
import { call, callMany, KEYS } from '../../kit/node.ts'
import { type Cost, type MeasuredNode, startMeasured } from '../cost/measured-node.ts'
import { STRETCH_MS } from '../cost/rules.ts'
import type { Case } from '../cost/wire.ts'
import { hostileInputs, type Input } from './inputs.ts'

/**
 * An input is sent until one turn is short enough, because an expensive input is slow each time.
 */
const MAX_TIMES = 7
const TRANSACTIONS = 400
/** Code that has not run yet is slow at first. */
const WARM_TIMES = 300

const PLAIN: Omit<Case, 'body' | 'over' | 'path'> = {
  frame: 'text',
  headers: '',
  pieces: [],
  writes: [],
  part: 1,
  times: 1,
}

/**
 * Sends the inputs whose names are wanted.
 * @param flags of the node
 */
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
  const all = (['/', '/flashblocks'] as const).flatMap((path) =>
    inputs.map((input) => ({ input, path })),
  )
  let worstMs = 0
  const later: (typeof all)[number][] = []
  for (const sent of [all, later])
    for (const { input, path } of sent) {
      const cases = casesOf(input, path)
      const due = cases.reduce((sum, { times }) => sum + times, 0)
      const costs = await untilShort(node, cases)
      const minMs = Math.min(...costs.map(stretchOf))
      const hasResponse = costs.every(({ responses }) => responses >= due)
      const isRight = minMs <= STRETCH_MS && hasResponse
      // The machine may have been slow for some seconds, so the input is sent once more at the end.
      if (!isRight && sent === all) {
        later.push({ input, path })
        continue
      }
      worstMs = Math.max(worstMs, minMs)
      check(
        `${input.name} on ${path}`,
        isRight,
        `${costs.map((cost) => stretchOf(cost).toFixed(1)).join(' ')} ms, ${costs[0]!.responses} of ${due} answers`,
      )
    }
  check('the node still answers', (await call(node.url, 'eth_chainId')) === '0xc4')
  console.log(`${inputs.length} inputs, the longest turn ${worstMs.toFixed(1)} ms`)
  await node.stop()
}

async function untilShort(node: MeasuredNode, cases: readonly Case[]): Promise<readonly Cost[]> {
  const costs = [await node.measureAll(cases, 'answers')]
  while (costs.length < MAX_TIMES && costs.every((cost) => stretchOf(cost) > STRETCH_MS))
    costs.push(await node.measureCalibrated(cases, 'answers'))
  return costs
}

const stretchOf = ({ stretchMs, slowness }: Cost): number => stretchMs / slowness

/** Makes one case for each connection. */
function casesOf({ body, over }: Input, path: Case['path']): readonly Case[] {
  if (over === undefined) return [{ ...PLAIN, body, path, over: 'http' }]
  const one: Case = { ...PLAIN, body, path, over: 'websocket', times: over.times }
  return Array.from({ length: over.sockets }, () => one)
}

/** Fills blocks with transactions, and gives the newest of these blocks. */
async function fillBlock(url: string) {
  const account = privateKeyToAccount(KEYS[0])
  const chainId = Number(await call(url, 'eth_chainId'))
  const raws = await Promise.all(
    Array.from({ length: TRANSACTIONS }, (_, nonce) =>
      account.signTransaction({
        type: 'eip1559',
        chainId,
        nonce,
        to: account.address,
        gas: 30_000n,
        data: '0x00ff',
        maxFeePerGas: 10n ** 10n,
        maxPriorityFeePerGas: 1n,
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
