/**
 * Today's node runs on a directory and a recording of an earlier commit. It must resume from them,
 * and its own output must have the same names.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import { openRecord } from '../../../workers/record/reading.ts'
import { requesterOf } from '../../fixtures/dev-node.ts'
import { fieldsOf, missingOf, NAMES, RECORD, unpackDirectory } from '../../fixtures/names.ts'
import { freePort } from '../../kit/free-port.ts'
import { metricsUrl, readMetrics } from '../../kit/metrics.ts'
import { call, KEYS, type RunningNode, startNode } from '../../kit/node.ts'
import { readiness } from '../../outside/follow/nodes.ts'
import { runJson } from '../../outside/operate/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'flashnode-names-'))
const [directory, record] = [join(folder, 'dev'), join(folder, 'record')]
const FLAGS = ['--rate-limit', 'off', '--pool-threads', '2']

let dev: RunningNode
let follower: RunningNode
const ports = { dev: 0, follower: 0 }
const { request, receiptOf } = requesterOf(() => dev)

beforeAll(async () => {
  unpackDirectory(directory)
  ports.dev = await freePort()
  const lags = ['--finalized-lag', '12', '--safe-lag', '4']
  const admin = ['--admin-port', String(ports.dev)]
  dev = await startNode(['--datadir', directory, ...FLAGS, ...lags, ...admin])
})
afterAll(async () => {
  await follower?.stop()
  await dev?.stop()
  rmSync(folder, { recursive: true })
})

const TO = '0x00000000000000000000000000000000000000a1'
const CONTRACT = '0xe7f1725e7734ce288f8367e1bb143e90bb3f0512'
const SENT = '0xc2bdc39e796c9bc66d555c5f7ebb4e1ef29d584c06ca18077f8a3e23df07ef46'
const PENDING = '0x1979fa8b085b49b6286281dd38952a9666fddc0be6e6bba962333b424f8a9899'
const word = (byte: string): `0x${string}` => `0x${byte.padStart(64, '0')}`
const LOG = {
  address: CONTRACT,
  topics: [word('2a')],
  data: word('2b'),
  blockNumber: '0x8',
  transactionHash: SENT,
  transactionIndex: '0x1',
  logIndex: '0x0',
  removed: false,
  blockHash: '0x122a6acad3c88b6481cda45baccde333e484fbf27bf2b001bffdf730d5012486',
  blockTimestamp: '0x6b0d4c84',
}

/** These are responses of the node that wrote the directory. */
const known: readonly (readonly [method: string, params: readonly unknown[], answer: unknown])[] = [
  ['eth_getBalance', [TO, '0x16'], '0x5208'],
  [
    'eth_getBalance',
    ['0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266', '0x16'],
    '0x21e19e01e96cd3087d8',
  ],
  [
    'eth_getBalance',
    ['0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266', '0x1'],
    '0x21e19e0c9bab2400000',
  ],
  ['eth_getStorageAt', [CONTRACT, '0x0', '0x16'], word('2c')],
  ['eth_getStorageAt', [CONTRACT, '0x0', '0x9'], word('2b')],
  ['eth_getStorageAt', [CONTRACT, '0x0', '0x3'], word('')],
  ['eth_getCode', [CONTRACT, '0x16'], '0x5f355f555f355f52602a60205fa100'],
  ['eth_getLogs', [{ address: CONTRACT, fromBlock: '0x0', toBlock: '0x9' }], [LOG]],
  [
    'eth_getTransactionReceipt',
    [SENT],
    expect.objectContaining({
      status: '0x1',
      type: '0x2',
      gasUsed: '0xacf2',
      cumulativeGasUsed: '0x163ff',
      effectiveGasPrice: '0x4190ab00',
      l1Fee: '0x82767050',
      logs: [LOG],
    }),
  ],
  [
    'eth_getBlockByNumber',
    ['0x16', false],
    expect.objectContaining({
      hash: '0xcfcb1bbc3c6d14020137223831fcca81b0e638791f24ce9cf67d7715b59d81b1',
    }),
  ],
  [
    'flashblocks_transactionStatus',
    ['0x74bba19d3111b5f84a4dae3579add68c598883c4f0606f87098dd9b01d42fcbd'],
    {
      hash: '0x74bba19d3111b5f84a4dae3579add68c598883c4f0606f87098dd9b01d42fcbd',
      status: 'dropped',
      isWaiting: false,
      promises: [
        {
          blockNumber: '0x9',
          payloadId: '0x0375063cf4501e64',
          flashblockIndex: 1,
          transactionIndex: '0x1',
          preconfirmedAt: 1_796_033_685_054,
          fate: 'dropped',
          decidedAt: 1_796_033_690_979,
          causes: ['secondPayload'],
        },
      ],
    },
  ],
]

test('the chain of an older directory continues, with the same responses', async () => {
  await expect
    .poll(() => request('eth_getBlockByNumber', '0x17', false))
    .toMatchObject({
      parentHash: '0xcfcb1bbc3c6d14020137223831fcca81b0e638791f24ce9cf67d7715b59d81b1',
    })
  for (const [method, params, response] of known)
    expect([method, params, await request(method, ...params)]).toEqual([method, params, response])
})

test('the pending flashblock and the waiting transaction are restored', async () => {
  await expect.poll(() => receiptOf(PENDING)).toMatchObject({ status: '0x1', blockNumber: '0x17' })
  expect(await request('eth_getBalance', TO, 'pending')).toBe('0x61a8')
  const waiting = '0xbac4fce17685a2481d87412e2cb5f5e40e83a664a628ce4330466d1d769a9aa0'
  expect(await request('flashblocks_transactionStatus', waiting)).toMatchObject({
    status: 'pooled',
  })
})

test('a recording of a follower replays to the same responses', async () => {
  const flags = ['--port', '0', '--admin-port', '0', ...FLAGS]
  const { status, result } = await runJson(['replay', ...flags, RECORD])
  expect(status).toBe(0)
  expect(result).toMatchObject({
    frames: 30,
    blocks: 5,
    values: 16,
    events: 58,
    held: 22,
    isCut: false,
    differs: null,
    requests: { asked: 21, same: 21, different: 0, leftOut: 74 },
    shown: {
      record: 33,
      canonical: 8,
      pending: 9,
      index: 0,
      hash: '0x77e2ea9a598ba4b46863644044c8db011f35c03cb37df04064da98394a50b970',
      canonicalHash: '0xe78bd3e0db7e0c3c1f35c11be0df4263ba49b311fb4eefe02224ff9add7cf9d0',
    },
  })
})

/** Lists the fields by the type of line, for example `event sealed`. */
function fieldsOfLines(path: string): ReadonlyMap<string, ReadonlySet<string>> {
  const { head, lines } = openRecord(path)
  const found = new Map<string, Set<string>>()
  for (const line of [head, ...lines]) {
    const { type } = line
    const inner = Reflect.get(line, type) as { readonly type?: string } | undefined
    const kind = inner?.type === undefined ? `record: ${type}` : `record: ${type} ${inner.type}`
    const fields = found.get(kind) ?? new Set()
    for (const field of fieldsOf(line)) fields.add(field)
    found.set(kind, fields)
  }
  return found
}

const KINDS = Object.keys(NAMES).filter((kind) => kind.startsWith('record: '))

test('an older recording has exactly the listed fields', () => {
  const found = fieldsOfLines(RECORD)
  expect([...found.keys()].toSorted()).toEqual(KINDS.toSorted())
  for (const kind of KINDS) expect([...found.get(kind)!].toSorted(), kind).toEqual(NAMES[kind])
})

describe('a node of this build', () => {
  const enriched = new Set<string>()
  let socket: WebSocket | undefined
  afterAll(() => socket?.terminate())

  test('sends all listed fields in an enriched message', async () => {
    // A lazy follower is recorded, from a block that its chain has now.
    ports.follower = await freePort()
    const source = ['--chain', join(directory, 'genesis.json'), '--upstream', `${dev.url}/`]
    const feed = ['--feed', `${dev.url.replace('http', 'ws')}/feed`, '--state', 'lazy']
    const more = ['--requests', '1', '--out', record, '--admin-port', String(ports.follower)]
    follower = await startNode([...source, ...feed, ...FLAGS, ...more], 'record')
    socket = new WebSocket(`${dev.url.replace('http', 'ws')}/feed?enrich=1`)
    socket.on('error', () => {})
    socket.on('message', (data: Buffer) => {
      for (const field of fieldsOf(JSON.parse(data.toString()))) enriched.add(field)
    })
    await sendTo(dev, KEYS[4], 0)
    await sendTo(follower, KEYS[5], 0)
    const isVisible = ['flashblocks[].receipts[].logs[].data', 'flashblocks[].accounts[].slots[][]']
    await expect.poll(() => isVisible.filter((field) => !enriched.has(field))).toEqual([])
    // A block may have no flashblock yet that can be removed.
    const isGone = () =>
      request('dev_reorg', { depth: 0, keep: true }).then(
        () => true,
        () => false,
      )
    await expect.poll(isGone).toBe(true)
    await expect.poll(() => missingOf('fields of an enriched message', enriched)).toEqual([])
  })

  test.each(['dev', 'follower'] as const)('has all listed metrics as %s', async (name) => {
    const read = async () => {
      const metrics = await readMetrics(metricsUrl(ports[name]))
      return missingOf(`metrics of ${name}`, metrics.keys())
    }
    await expect.poll(read).toEqual([])
  })

  test.each(['dev', 'follower'] as const)(
    'has all listed fields on the admin port of %s',
    async (name) => {
      const read = async () => {
        const details = await (await fetch(`http://127.0.0.1:${ports[name]}/`)).json()
        return missingOf(`fields of the admin port of ${name}`, fieldsOf(details))
      }
      await expect.poll(read).toEqual([])
    },
  )

  test('has all listed fields in /readyz', async () => {
    const { code: _, ...reported } = await readiness(follower.url)
    expect(missingOf('fields of /readyz', fieldsOf(reported))).toEqual([])
  })

  test('writes all listed fields to a recording', async () => {
    const missing = async () => {
      // The recording omits further reads of a second, and states their number.
      const reads = Array.from({ length: 4 }, () =>
        call(follower.url, 'eth_getBalance', [TO, 'latest']),
      )
      await Promise.all(reads)
      const found = fieldsOfLines(record)
      const all = [...found.values()].flatMap((fields) => [...fields])
      // A field may be in another kind of line, because its frame depends on time.
      return [
        ...KINDS.filter((kind) => !found.has(kind)),
        ...KINDS.flatMap((kind) => missingOf(kind, all)),
      ]
    }
    await expect.poll(missing).toEqual([])
    expect(await follower.stop()).toBe(0)
  })
})

/** Sends a call that emits a log and changes a slot, and waits until it is in a block. */
async function sendTo(node: RunningNode, key: `0x${string}`, nonce: number): Promise<void> {
  const raw = await privateKeyToAccount(key).signTransaction({
    chainId: 196,
    nonce,
    to: CONTRACT,
    data: word('2d'),
    gas: 100_000n,
    maxFeePerGas: 2_000_000_000n,
    maxPriorityFeePerGas: 1_000_000_000n,
  })
  const hash = (await call(`${node.url}/flashblocks`, 'eth_sendRawTransaction', [raw])) as Hex
  await expect.poll(() => receiptOf(hash)).toMatchObject({ status: '0x1' })
}
