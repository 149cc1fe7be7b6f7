/**
 * A follower is recorded on a chain whose promises are broken meanwhile. This module also reads
 * everything that a node serves.
 */
import { join } from 'node:path'
import { openLedgerReader } from '../../../engine/storage/ledger/reader.ts'
import { encodeLine } from '../../../workers/record/values.ts'
import { openSmall } from '../../fixtures/databases-open.ts'
import type { Check } from '../../kit/checks.ts'
import { call, KEYS, type RunningNode, startNode } from '../../kit/node.ts'
import { headOf, type Leader, temporary, until } from '../follow/nodes.ts'
import { type Clients, startClients } from './clients.ts'

export type Recorded = {
  readonly name: string
  readonly file: string
  /** The node's responses at the end of the recording. */
  readonly read: Read
  readonly ledger: string
  readonly first: number
}
export type Read = {
  readonly head: number
  /**
   * JSON of blocks with transactions and of their receipts, from the first block on; the last one
   * is pending.
   */
  readonly blocks: readonly string[]
  readonly statuses: readonly string[]
}

const BREAKS: readonly (readonly [method: string, params: readonly unknown[]])[] = [
  ['dev_reorg', [{ depth: 2, keep: true }]],
  ['dev_equivocate', [{ keep: true }]],
  ['dev_reorg', [{ depth: 0, keep: true }]],
  ['dev_gap', []],
]
const WITHIN_MS = 600_000
/** Breaks after which a node without a broken promise fails the check. */
const MAX_BREAKS = 60

/** Records one node of each kind of state at the same time. */
export async function record(
  leader: Leader,
  {
    seconds,
    check,
    random,
  }: { readonly seconds: number; readonly check: Check; readonly random: () => number },
): Promise<{ readonly lazy: Recorded; readonly full: Recorded }> {
  const recorders = await Promise.all([
    startRecorder(leader, 'lazy'),
    startRecorder(leader, 'whole'),
  ])
  const clients = recorders.map(({ node }, at) =>
    startClients(node.url, { world: leader.load.world, random, key: KEYS[at]! }),
  )
  const nodes = recorders.map(({ node }) => node)
  await breakPromises(leader, { seconds, random, nodes })
  // A busy machine gives few responses in the time.
  const isEnough = await until(
    async () =>
      clients.every(({ responses }) => responses >= MIN.responses) &&
      clients.some(({ receipts }) => receipts >= MIN.receipts),
    WITHIN_MS,
  )
  check(
    'the clients sent requests and transactions',
    isEnough,
    JSON.stringify(clients.map(countsOf)),
  )
  await Promise.all(clients.map((one) => one.stop()))
  await leader.load.stop()
  await call(`${leader.node.url}/`, 'dev_pause')
  const [lazy, full] = await Promise.all(recorders.map((one) => endOf(one, leader, check)))
  return { lazy: lazy!, full: full! }
}

/**
 * The minimum number of responses of each node. One receipt is enough, because a busy lazy node may
 * show receipts after the client's timeout.
 */
const MIN = { responses: 150, receipts: 1 }
const countsOf = ({ responses, receipts }: Clients) => ({ responses, receipts })

async function breakPromises(
  { node }: Leader,
  {
    seconds,
    random,
    nodes,
  }: {
    readonly seconds: number
    readonly random: () => number
    readonly nodes: readonly RunningNode[]
  },
): Promise<void> {
  const end = performance.now() + seconds * 1_000
  const isBroken = async () =>
    (await Promise.all(nodes.map(countBroken))).every((count) => count > 0)
  // Each kind of break comes once, and each node has a broken promise, however slow the machine is.
  for (
    let at = 0;
    at < BREAKS.length || performance.now() < end || (at < MAX_BREAKS && !(await isBroken()));
    at++
  ) {
    const [method, params] = BREAKS[at % BREAKS.length]!
    // A block in progress may have no transactions yet.
    const isDone = () =>
      call(`${node.url}/`, method, params).then(
        () => true,
        () => false,
      )
    await until(isDone, WITHIN_MS)
    const from = await headOf(node.url)
    const blocks = 2 + Math.floor(random() * 3)
    await until(async () => (await headOf(node.url)) >= from + blocks, WITHIN_MS)
  }
}

/** Promises that the node's ledger calls dropped or reordered. */
async function countBroken({ url }: RunningNode): Promise<number> {
  type Stats = { readonly fates: { readonly dropped: number; readonly reordered: number } }
  const { fates } = (await call(`${url}/flashblocks`, 'flashblocks_stats', [])) as Stats
  return fates.dropped + fates.reordered
}

type Recorder = {
  readonly name: string
  readonly file: string
  readonly datadir: string
  readonly node: RunningNode
}

async function startRecorder({ node, genesis }: Leader, name: 'lazy' | 'whole'): Promise<Recorder> {
  const file = join(temporary('record'), `${name}.flashnode`)
  const datadir = temporary(name)
  const flags = ['--chain', genesis, '--upstream', `${node.url}/`, '--state', name]
  const feed = `${node.url.replace('http', 'ws')}/feed`
  const rates = ['--rate-limit', 'off', '--upstream-rate', '2000', '--pool-threads', '2']
  const limits = [...rates, '--datadir', datadir]
  const recorder = await startNode([...flags, '--feed', feed, ...limits, '--out', file], 'record')
  return { name, file, datadir, node: recorder }
}

/** Reads the node at its end, while the chain stands still. */
async function endOf(
  { name, file, datadir, node }: Recorder,
  leader: Leader,
  check: Check,
): Promise<Recorded> {
  const isThere = await until(async () => {
    const heads = [await headOf(leader.node.url), await headOf(node.url)]
    return heads[0] === heads[1]
  }, WITHIN_MS)
  check(`${name}: the recorded node reaches the head of the chain`, isThere)
  // A full state starts with the genesis, whose first blocks give no more information.
  const first = Math.max(node.head, 1)
  const read = await readNode(node.url, first)
  check(`${name}: the recorded node ends with 0`, (await node.stop()) === 0)
  return { name, file, read, ledger: await ledgerOf(datadir, read, first), first }
}

/** Reads the chain from `first` on, with its transactions. */
export async function readNode(url: string, first: number): Promise<Read> {
  const request = (method: string, params: readonly unknown[]) =>
    call(`${url}/flashblocks`, method, params)
  const head = await headOf(url)
  const numbers = Array.from(
    { length: head - first + 1 },
    (_, at) => `0x${(first + at).toString(16)}`,
  )
  const blocks: string[] = []
  const statuses: string[] = []
  for (const number of [...numbers, 'pending']) {
    const block = (await request('eth_getBlockByNumber', [number, true])) as {
      readonly transactions: readonly { readonly hash: string }[]
    }
    blocks.push(JSON.stringify([block, await request('eth_getBlockReceipts', [number])]))
    for (const { hash } of block.transactions)
      statuses.push(JSON.stringify(await request('flashblocks_transactionStatus', [hash])))
  }
  return { head, blocks, statuses }
}

/** Reads the promises at each height, with times and outcomes. */
export async function ledgerOf(
  datadir: string,
  { head }: Pick<Read, 'head'>,
  first: number,
): Promise<string> {
  const database = await openSmall(join(datadir, 'state'))
  try {
    const ledger = openLedgerReader(database)
    const rows = Array.from({ length: head - first + 3 }, (_, at) => ledger.promisesAt(first + at))
    return rows.map((row) => encodeLine(row)).join('\n')
  } finally {
    await database.close()
  }
}
