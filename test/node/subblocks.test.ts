/** A chain whose feed has subblocks, and followers with whole and with lazy state: the same answers at the same place. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { decodePacket } from '../../engine/flashblocks/codec.ts'
import { HANGS_MS } from '../kit/checks.ts'
import { call, type RunningNode, startNode } from '../kit/node.ts'
import { until } from '../outside/follow/nodes.ts'

const FLAGS = ['--rate-limit', 'off', '--pool-threads', '2']
const PLACES = 12
const folder = mkdtempSync(join(tmpdir(), 'flashnode-subblocks-'))
const nodes: RunningNode[] = []
afterAll(async () => {
  for (const node of nodes) await node.stop('SIGKILL')
  rmSync(folder, { recursive: true })
})

type Place = { readonly number: number; readonly index: number; readonly payloadId: string }
type Asked = { readonly place: Place; readonly answer: string }

/** Hash and roots are final where a node has the whole block already. */
const NAMES_OF_BLOCK = ['hash', 'blockHash', 'stateRoot', 'withdrawalsRoot']
const withoutNames = (key: string, value: unknown) =>
  NAMES_OF_BLOCK.includes(key) ? undefined : value

/** Asks on the newest flashblock, or on the one that is given. undefined: it is not there. */
async function blockAt({ url }: RunningNode, place?: Place): Promise<Asked | undefined> {
  const at = place === undefined ? 'pending' : { flashblock: place }
  const response = await fetch(`${url}/flashblocks`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'eth_getBlockByNumber', params: [at, true] },
    }),
  })
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown }
  // A follower on a busy machine executes a full block, which has no index on the other node.
  if (error !== undefined || result === null) return undefined
  const [number, index, payloadId] = response.headers.get('x-flashblock')!.split(':')
  return {
    place: place ?? { number: Number(number), index: Number(index), payloadId: payloadId! },
    answer: JSON.stringify(result, withoutNames),
  }
}

let leader: RunningNode
let whole: RunningNode
beforeAll(async () => {
  const datadir = join(folder, 'leader')
  leader = await started(startNode(['--datadir', datadir, '--feed-form', 'subblocks', ...FLAGS]))
  whole = await startFollower('whole')
})

/** Whatever happens in a test, it is stopped at the end. */
async function started(starting: Promise<RunningNode>): Promise<RunningNode> {
  const node = await starting
  nodes.push(node)
  return node
}

const startFollower = (state: 'whole' | 'lazy') =>
  started(
    startNode(
      [
        ...['--chain', join(folder, 'leader', 'genesis.json'), '--datadir', join(folder, state)],
        ...['--state', state, '--upstream', leader.url, ...FLAGS],
        ...['--feed', `${leader.url.replace('http', 'ws')}/feed`],
      ],
      'follow',
    ),
  )

test.each(['whole', 'lazy'] as const)('%s state', async (state) => {
  const follower = state === 'whole' ? whole : await startFollower(state)
  const [from, to] = (await call(`${leader.url}/`, 'eth_accounts')) as string[]
  const places = new Set<string>()
  const differing: unknown[] = []
  const compareNewest = async () => {
    await call(`${leader.url}/`, 'eth_sendTransaction', [{ from, to, value: '0x1' }])
    const theirs = await blockAt(follower)
    const ours = theirs && (await blockAt(leader, theirs.place))
    if (theirs === undefined || ours === undefined) return false
    places.add(JSON.stringify(theirs.place))
    if (ours.answer !== theirs.answer) differing.push([ours, theirs])
    return places.size >= PLACES
  }
  expect(await until(compareNewest, HANGS_MS, 20)).toBe(true)
  expect(differing).toEqual([])
  const ofIndexes = [...places].filter((place) => JSON.parse(place).index > 0)
  expect(ofIndexes.length).toBeGreaterThan(0)
})

test('the feed of a follower hands on subblocks', async () => {
  const socket = new WebSocket(`${whole.url.replace('http', 'ws')}/feed`)
  const messages = await new Promise<string[]>((resolve) => {
    const heard: string[] = []
    socket.onmessage = ({ data }) => {
      heard.push(String(data))
      if (heard.length === PLACES) resolve(heard)
    }
  })
  socket.close()
  for (const text of messages)
    expect(decodePacket(Buffer.from(text))).toMatchObject({
      message: { type: 'flashblock', targetIndex: 0, delta: { blockHash: undefined } },
    })
})

test('all end with 0', async () => {
  for (const node of nodes.toReversed()) expect(await node.stop()).toBe(0)
})
