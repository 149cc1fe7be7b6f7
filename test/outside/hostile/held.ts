/** As long, deep and many as the limits allow: no request holds up those of others. A pinger beside it says how long each does. */
import { request } from 'node:http'
import { privateKeyToAccount } from 'viem/accounts'
import { WebSocket } from 'ws'
import type { Check } from '../checks.ts'
import { call, callMany, KEYS, startNode } from '../node-process.ts'
import { hostileInputs, type Input } from './inputs.ts'
import { startPinger } from './pinger.ts'

const MAX_MS = 20
/** Each is sent so often. A front that is held by an input is held each time; a machine that does something else is not. */
const TIMES = 7
const TRANSACTIONS = 400
const TIMEOUT_MS = 60_000
const MAX_ANSWER_BYTES = 50_000_000

/** Those inputs whose name is wanted. @param flags of the node */
export async function sufferInputs(
  check: Check,
  wanted: RegExp,
  flags: readonly string[],
): Promise<void> {
  const node = await startNode(['--ephemeral', '--rate-limit', 'off', ...flags])
  const inputs = (await hostileInputs(await fillBlock(node.url))).filter(({ name }) =>
    wanted.test(name),
  )
  const pinger = await startPinger(node.url)
  let held = 0
  let worst = 0
  for (const path of ['/', '/flashblocks'])
    for (const { name, body, over } of inputs) {
      const times: number[] = []
      let status = 0
      for (let time = 0; time < TIMES; time++) {
        await pinger.slowest()
        const url = `${node.url}${path}`
        status = over === undefined ? await send(url, body) : await sendOver(url, body, over)
        times.push(await pinger.slowest())
      }
      times.sort((a, b) => a - b)
      const least = times[0]!
      worst = Math.max(worst, least)
      const shown = times.map((milliseconds) => Math.round(milliseconds)).join(' ')
      if (least > MAX_MS) held++
      check(`${name} on ${path}`, least <= MAX_MS && status > 0, `${status}, ${shown} ms`)
    }
  check('the node goes on', (await call(node.url, 'eth_chainId')) === '0xc4')
  console.log(
    `${inputs.length} inputs, ${held} held the front for more than ${MAX_MS} ms, at most ${worst.toFixed(1)} ms`,
  )
  await pinger.stop()
  await node.stop()
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

/** 101, once the answers are all here, on all sockets; 0 without one. */
async function sendOver(
  url: string,
  body: string,
  { sockets, times }: NonNullable<Input['over']>,
): Promise<number> {
  const one = () =>
    new Promise<number>((resolve) => {
      const socket = new WebSocket(url.replace('http', 'ws'), { maxPayload: MAX_ANSWER_BYTES })
      let left = times
      const timer = setTimeout(() => socket.terminate(), TIMEOUT_MS)
      socket.on('error', () => {})
      socket.on('open', () => {
        for (let time = 0; time < times; time++) socket.send(body)
      })
      socket.on('message', () => {
        if (--left === 0) socket.close()
      })
      socket.on('close', () => {
        clearTimeout(timer)
        resolve(left === 0 ? 101 : 0)
      })
    })
  const statuses = await Promise.all(Array.from({ length: sockets }, one))
  return Math.min(...statuses)
}

/** The status, once the whole answer is here; 0 without one. */
function send(url: string, body: string): Promise<number> {
  return new Promise((resolve) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    }
    const sent = request(url, { method: 'POST', headers, timeout: TIMEOUT_MS }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
      response.on('error', () => resolve(0))
    })
    sent.on('timeout', () => sent.destroy())
    sent.on('error', () => resolve(0))
    sent.end(body)
  })
}
