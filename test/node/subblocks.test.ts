/**
 * A chain's feed has subblocks, and followers have full or lazy state. The responses at the same
 * flashblock must be equal.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { decodePacket } from '../../engine/flashblocks/codec.ts'
import { HANGS_MS } from '../kit/checks.ts'
import { call, type RunningNode, startNode } from '../kit/node.ts'
import { until } from '../outside/follow/nodes.ts'

const FLAGS = ['--rate-limit', 'off', '--pool-threads', '2']
const FLASHBLOCKS = 12
const folder = mkdtempSync(join(tmpdir(), 'flashnode-subblocks-'))
const nodes: RunningNode[] = []
afterAll(async () => {
  for (const node of nodes) await node.stop('SIGKILL')
  rmSync(folder, { recursive: true })
})

type FlashblockId = { readonly number: number; readonly index: number; readonly payloadId: string }
type FlashblockResponse = { readonly flashblockId: FlashblockId; readonly response: string }

/** Hash and roots are final where a node has the full block already. */
const NAMES_OF_BLOCK = ['hash', 'blockHash', 'stateRoot', 'withdrawalsRoot']
const withoutNames = (key: string, value: unknown) =>
  NAMES_OF_BLOCK.includes(key) ? undefined : value

/** Reads the newest flashblock, or the given one. undefined: the node does not have it. */
async function blockAt(
  { url }: RunningNode,
  flashblockId?: FlashblockId,
): Promise<FlashblockResponse | undefined> {
  const at = flashblockId === undefined ? 'pending' : { flashblock: flashblockId }
  const response = await fetch(`${url}/flashblocks`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'eth_getBlockByNumber',
      params: [at, true],
    }),
  })
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown }
  // A follower on a busy machine executes a full block, which has no index on the other node.
  if (error !== undefined || result === null) return undefined
  const [number, index, payloadId] = response.headers.get('x-flashblock')!.split(':')
  return {
    flashblockId: flashblockId ?? {
      number: Number(number),
      index: Number(index),
      payloadId: payloadId!,
    },
    response: JSON.stringify(result, withoutNames),
  }
}

let leader: RunningNode
let full: RunningNode
beforeAll(async () => {
  const datadir = join(folder, 'leader')
  leader = await started(startNode(['--datadir', datadir, '--feed-form', 'subblocks', ...FLAGS]))
  full = await startFollower('whole')
})

/** Registers a node to be stopped at the end, whatever happens in the test. */
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

test.each(['whole', 'lazy'] as const)(
  'a follower with %s state responds like the leader',
  async (state) => {
    const follower = state === 'whole' ? full : await startFollower(state)
    const [from, to] = (await call(`${leader.url}/`, 'eth_accounts')) as string[]
    const flashblockIds = new Set<string>()
    const differing: unknown[] = []
    const compareNewest = async () => {
      await call(`${leader.url}/`, 'eth_sendTransaction', [{ from, to, value: '0x1' }])
      const theirs = await blockAt(follower)
      const ours = theirs && (await blockAt(leader, theirs.flashblockId))
      if (theirs === undefined || ours === undefined) return false
      flashblockIds.add(JSON.stringify(theirs.flashblockId))
      if (ours.response !== theirs.response) differing.push([ours, theirs])
      return flashblockIds.size >= FLASHBLOCKS
    }
    expect(await until(compareNewest, HANGS_MS, 20)).toBe(true)
    expect(differing).toEqual([])
    const ofIndexes = [...flashblockIds].filter(
      (flashblockId) => JSON.parse(flashblockId).index > 0,
    )
    expect(ofIndexes.length).toBeGreaterThan(0)
  },
)

test('the feed of a follower has subblocks', async () => {
  const socket = new WebSocket(`${full.url.replace('http', 'ws')}/feed`)
  const messages = await new Promise<string[]>((resolve) => {
    const received: string[] = []
    socket.onmessage = ({ data }) => {
      received.push(String(data))
      if (received.length === FLASHBLOCKS) resolve(received)
    }
  })
  socket.close()
  for (const text of messages)
    expect(decodePacket(Buffer.from(text))).toMatchObject({
      message: { type: 'flashblock', targetIndex: 0, delta: { blockHash: undefined } },
    })
})

test('all nodes end with 0', async () => {
  for (const node of nodes.toReversed()) expect(await node.stop()).toBe(0)
})
