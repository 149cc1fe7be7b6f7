/** Clients read a node with a flashblock lag, with one front thread and with several. */
import { describe, expect, test } from 'vitest'
import { call, type RunningNode, startNode } from '../kit/node.ts'
import { until } from '../outside/follow/nodes.ts'

const WAIT_MS = 120_000
/** The times are so long that only the count matters. */
const SLOW = ['--block-time-ms', '600000', '--flashblock-time-ms', '60000']
/** The chain stands still, so that only the time matters. */
const FAST = ['--flashblock-time-ms', '100']

type Said = { readonly flashblockId: string; readonly result: unknown }
async function request(url: string, method: string, params: unknown[] = [], min?: string) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(min && { 'x-min-flashblock': min }) },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const flashblockId = response.headers.get('x-flashblock') ?? ''
  const { result } = (await response.json()) as { readonly result: unknown }
  return { flashblockId: flashblockId.split(':').slice(0, 2).join(':'), result } satisfies Said
}

type Stepped = { readonly number: string; readonly index: number | string }
const flashblockIdOf = ({ number, index }: Stepped) => `${Number(number)}:${Number(index)}`

const start = (flags: readonly string[]) =>
  startNode([
    '--ephemeral',
    '--rate-limit',
    'off',
    '--flashblock-lag',
    '2',
    '--pool-threads',
    '2',
    ...flags,
  ])

async function using(flags: readonly string[], use: (node: RunningNode) => Promise<void>) {
  const node = await start(flags)
  try {
    await use(node)
  } finally {
    await node.stop()
  }
}

describe.each([1, 2])('a node with a flashblock lag of 2 and %i front threads', (fronts) => {
  const threads = ['--front-threads', String(fronts)]

  test('serves two flashblocks late, and the newest if a request names it', async () => {
    await using([...threads, ...SLOW], async (node) => {
      const url = `${node.url}/flashblocks`
      const [from, to] = (await call(url, 'eth_accounts')) as [string, string]
      await call(url, 'dev_pause')
      const step = async () => flashblockIdOf((await call(url, 'dev_step')) as Stepped)
      const visible = async () => (await request(url, 'eth_blockNumber')).flashblockId
      const receipt = async (min?: string) =>
        (await request(url, 'eth_getTransactionReceipt', [hash], min)).result
      const first = await step()
      await step()
      const hash = await call(url, 'eth_sendTransaction', [{ from, to, value: '0x1' }])
      const third = await step()
      expect(await until(async () => (await visible()) === first, WAIT_MS)).toBe(true)
      expect((await request(url, 'eth_blockNumber', [], third)).flashblockId).toBe(third)
      expect(await receipt(third)).not.toBeNull()
      expect(await receipt()).toBeNull()
      const { result: status } = await request(url, 'flashblocks_transactionStatus', [hash])
      expect(status).toMatchObject({ status: 'pooled', promises: [] })
      const { result: waiting } = await request(url, 'eth_getTransactionByHash', [hash])
      expect(waiting).toMatchObject({ blockNumber: null })
      await step()
      const fifth = await step()
      expect(await until(async () => (await visible()) === third, WAIT_MS)).toBe(true)
      expect(await receipt()).not.toBeNull()
      expect((await request(url, 'eth_blockNumber', [], fifth)).flashblockId).toBe(fifth)
      expect(await visible()).toBe(third)
    })
  })

  test('makes all flashblocks of a paused chain visible', async () => {
    await using([...threads, ...FAST], async (node) => {
      const url = `${node.url}/flashblocks`
      const [from, to] = (await call(url, 'eth_accounts')) as [string, string]
      await call(url, 'dev_pause')
      const hash = await call(url, 'eth_sendTransaction', [{ from, to, value: '0x1' }])
      // Index 0 has no transactions of the txpool.
      for (let steps = 0; steps < 2; steps++) await call(url, 'dev_step')
      const isThere = async () =>
        (await request(url, 'eth_getTransactionReceipt', [hash])).result !== null
      expect(await until(isThere, WAIT_MS)).toBe(true)
      await call(url, 'dev_seal')
      const block = async () =>
        (await request(node.url, 'eth_getTransactionReceipt', [hash])).result !== null
      expect(await until(block, WAIT_MS)).toBe(true)
    })
  })

  test('never goes back, and never has latest above pending', async () => {
    await using([...threads, ...FAST], async (node) => {
      const url = `${node.url}/flashblocks`
      let before = [0, 0]
      let blocks = 0
      const read = async () => {
        const { flashblockId, result } = await request(url, 'eth_getBlockByNumber', [
          'latest',
          false,
        ])
        const now = flashblockId.split(':').map(Number)
        if (now[0]! > before[0]!) blocks++
        expect(now[0]! > before[0]! || (now[0] === before[0] && now[1]! >= before[1]!)).toBe(true)
        expect(Number((result as { number: string }).number)).toBeLessThanOrEqual(now[0]!)
        before = now
        return blocks === 4
      }
      expect(await until(read, WAIT_MS)).toBe(true)
    })
  })
})
