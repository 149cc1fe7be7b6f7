/**
 * viem and ethers are used like in an application, with their default retries. A client with an
 * ethers WebSocket makes a new one when it ends.
 */
import {
  createPublicClient,
  createWalletClient,
  type Hex,
  http,
  type Transport,
  webSocket,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { xLayer } from 'viem/chains'
import { DEV_ACCOUNTS } from '../../../../engine/chainspec/dev-accounts.ts'
import { JsonRpcProvider, WebSocketProvider } from '../../../clients/ethers.ts'
import { until } from '../../follow/nodes.ts'
import { type Observations, pause } from './observations.ts'

type Around = {
  readonly url: string
  readonly observations: Observations
  readonly isOver: () => boolean
}
export type Watcher = {
  readonly name: string
  /** The heights in order of arrival. */
  readonly heights: number[]
  stop(): Promise<void> | void
}

const POLL_MS = 500
const BETWEEN_SENDS_MS = 1_000
const RECEIPT_MS = 20_000

export function startWatchers({ url, isOver }: Around): readonly Watcher[] {
  const socketUrl = `${url.replace('http', 'ws')}/`
  const blocks = (name: string, transport: Transport): Watcher => {
    const heights: number[] = []
    const client = createPublicClient({ chain: xLayer, transport, pollingInterval: POLL_MS })
    const stop = client.watchBlocks({
      emitMissed: true,
      onBlock: ({ number }) => void heights.push(Number(number)),
      // viem retries by itself.
      onError: () => {},
    })
    return { name, heights, stop }
  }
  const reconnect = { attempts: 100, delay: 500 }
  return [
    blocks('viem, http', http(`${url}/`)),
    blocks('viem, webSocket', webSocket(socketUrl, { reconnect })),
    ethersPolling(url),
    ethersSocket(socketUrl, isOver),
  ]
}

function ethersPolling(url: string): Watcher {
  const heights: number[] = []
  const provider = new JsonRpcProvider(`${url}/`, undefined, { staticNetwork: true })
  provider.pollingInterval = POLL_MS
  void provider.on('error', () => {})
  void provider.on('block', (number: number) => void heights.push(number))
  return { name: 'ethers, JsonRpcProvider', heights, stop: () => provider.destroy() }
}

function ethersSocket(url: string, isOver: () => boolean): Watcher {
  const heights: number[] = []
  let current: WebSocketProvider | undefined
  const run = async () => {
    while (!isOver()) {
      const provider = new WebSocketProvider(url, 196, { staticNetwork: true })
      current = provider
      const socket = provider.websocket
      socket.onerror = () => {}
      const closed = new Promise<void>((resolve) => {
        socket.onclose = resolve
      })
      void provider.on('block', (number: number) => void heights.push(number))
      await closed
      await provider.destroy().catch(() => {})
      if (!isOver()) await pause(POLL_MS)
    }
  }
  const ended = run()
  return {
    name: 'ethers, WebSocketProvider',
    heights,
    async stop() {
      current?.websocket.close()
      await ended
    },
  }
}

/** Sends one transaction after another, and awaits each like an application. */
export async function sendByViem({ url, observations, isOver }: Around): Promise<void> {
  const account = privateKeyToAccount(DEV_ACCOUNTS.at(-1)!.privateKey as Hex)
  const transport = http(`${url}/flashblocks`)
  const wallet = createWalletClient({ account, chain: xLayer, transport })
  const client = createPublicClient({ chain: xLayer, transport, pollingInterval: POLL_MS })
  for (; !isOver(); await pause(BETWEEN_SENDS_MS)) {
    const started = performance.now()
    try {
      const hash = await wallet.sendTransaction({ to: account.address, value: 1n })
      const { status } = await client.waitForTransactionReceipt({ hash, timeout: RECEIPT_MS })
      observations.count('receipts by viem')
      if (status !== 'success') observations.fault('wrong', `viem: ${hash} has status ${status}`)
    } catch (error) {
      const text = (error as Error).message.split('\n').slice(0, 8).join(' ')
      // viem had resent a transaction on its way to a killed replica.
      const isOfKilled = observations.happenings.some(
        ({ kind, from }) => kind === 'kill' && started <= from && from <= performance.now(),
      )
      observations.count('sends by viem that failed with a killed replica', isOfKilled ? 1 : 0)
      if (!isOfKilled)
        observations.fault('client', `viem at ${observations.seconds(started)}: ${text}`)
    }
  }
}

/**
 * Finds missing heights. A socket client sees only the blocks of its connection, because it does
 * not request what it missed.
 */
export function wrongHeights({ name, heights }: Watcher, isComplete: boolean): readonly string[] {
  const wrong: string[] = []
  for (const [at, height] of heights.entries()) {
    const before = heights[at - 1]
    if (before === undefined || height === before + 1) continue
    if (!isComplete && height > before) continue
    wrong.push(`${name}: ${height} after ${before}`)
  }
  return wrong
}

export const seen = ({ heights }: Watcher, height: number, withinMs: number): Promise<boolean> =>
  until(async () => (heights.at(-1) ?? 0) >= height, withinMs)
