/**
 * Every storage call of a node fails once, in turn. The outcome must be a right response, an error,
 * or a stop with advice; never a wrong response.
 */
import { beforeAll, expect, test } from 'vitest'
import { memoryDatabase } from '../../engine/storage/database/rocksdb.ts'
import { storageFailure } from '../../engine/storage/persistence/failure.ts'
import { FAULT, faultyDatabase } from '../fixtures/faulty-database.ts'
import { send } from '../fixtures/producer.ts'
import { type Reply, testRpc } from '../fixtures/rpc.ts'
import { type Branches, createBranches } from '../fixtures/writer-branches.ts'
import { hex, WriterWorld } from '../fixtures/writer-world.ts'

/** One of this many calls is tried; 1 tries all of them. */
const STRIDE = Number(process.env['FAULTS_STRIDE'] ?? 23)
const PERSIST_DEPTH = 1
const BLOCKS = 5

let branches: Branches
beforeAll(async () => {
  branches = await createBranches()
})

/**
 * These requests follow each block: for the pending, the newest and an old block, by the front and
 * by the pool.
 */
const SENDER = hex(send(0, 0).from)
const QUESTIONS: readonly (readonly [method: string, params: readonly unknown[]])[] = [
  ['eth_blockNumber', []],
  ['eth_getBlockByNumber', ['latest', true]],
  ['eth_getBlockByNumber', ['0x1', true]],
  ['eth_getTransactionReceipt', [hex(send(0, 0).hash)]],
  ...['latest', 'pending', '0x1', '0x0'].map(
    (block) => ['eth_getBalance', [SENDER, block]] as const,
  ),
  ['eth_getTransactionCount', [SENDER, '0x1']],
  ['eth_call', [{ from: SENDER, to: SENDER, value: '0x1' }, '0x1']],
  ['eth_getLogs', [{ fromBlock: '0x0', toBlock: 'latest' }]],
]
type Outcome = {
  /** The responses for each block, in the order of the requests; empty after a stop. */
  readonly replies: readonly (readonly Reply[])[]
  /** The message for the operator. */
  readonly stop: string | undefined
}

/** Adds the missing blocks one after the other, until they are canonical or the node stops. */
async function run(world: WriterWorld): Promise<Outcome> {
  const replies: Reply[][] = []
  const rpc = testRpc({ source: { reader: world.reader, onPublish: () => () => {} } })
  const request = async () => {
    const responses: Reply[] = []
    for (const [method, params] of QUESTIONS) responses.push(await rpc.request(method, params))
    replies.push(responses)
  }
  try {
    await world.apply({ type: 'feed', feed: 0, isConnected: true })
    const head = world.heads().canonical[0]
    for (const [index, block] of branches.a.slice(head, BLOCKS).entries()) {
      for (const message of [...block.flashblocks, block.end]) await world.packet(message)
      await world.apply({ type: 'sealed', block: block.upstreamBlock })
      await world.settle()
      // The sync runs each second in the product, and the flush at its end.
      world.responses.push(
        ...(index % 2 === 0 ? await world.persistence.sync() : world.persistence.flush()),
      )
      await world.settle()
      const failed = world.emitted.find((effect) => effect.type === 'halted')
      if (failed !== undefined) return { replies, stop: failed.message }
      await request()
    }
    return { replies, stop: undefined }
  } catch (error) {
    const stop = storageFailure(error)
    if (stop === undefined) throw error
    return { replies, stop }
  }
}

/** Opens a world on the stored data like a process; a start that fails is a stop. */
function open(database: ReturnType<typeof faultyDatabase>): WriterWorld | string {
  try {
    return new WriterWorld({ database: database.database, foldDepth: PERSIST_DEPTH })
  } catch (error) {
    const stop = storageFailure(error)
    if (stop === undefined) throw error
    return stop
  }
}

const LINE = `storage: ${FAULT}; repair the disk, then start again`

test('no storage call that fails once causes a wrong response', async () => {
  const plain = faultyDatabase()
  plain.arm(Number.POSITIVE_INFINITY)
  const expected = await run(open(plain) as WriterWorld)
  expect(expected.stop).toBeUndefined()
  const { calls } = plain
  const kinds = new Map<string, number>()
  let [stops, errors] = [0, 0]
  for (let at = 1 + (calls % STRIDE); at <= calls; at += STRIDE) {
    const database = faultyDatabase(memoryDatabase())
    database.arm(at)
    const world = open(database)
    const outcome = typeof world === 'string' ? { replies: [], stop: world } : await run(world)
    expect(database.hit, `call ${at} of ${calls}`).toBeDefined()
    kinds.set(database.hit!, (kinds.get(database.hit!) ?? 0) + 1)
    const where = `call ${at} of ${calls}, a ${database.hit}`
    let failed = 0
    for (const [index, responses] of outcome.replies.entries())
      for (const [question, response] of responses.entries()) {
        if (response.error?.code === -32603) failed++
        else expect(response, where).toEqual(expected.replies[index]![question])
      }
    errors += failed
    if (outcome.stop !== undefined) {
      stops++
      expect(outcome.stop, where).toBe(LINE)
    }
    // Each fault is reported once: to a caller or to the operator, or a retry hides it.
    expect(failed + (outcome.stop === undefined ? 0 : 1), where).toBeLessThanOrEqual(1)
    const reopened = open(database)
    if (typeof reopened === 'string')
      throw new Error(`${where}: it does not open again: ${reopened}`)
    expect((await run(reopened)).stop, where).toBeUndefined()
    expect(reopened.heads().canonical[1], where).toBe(hex(branches.a[BLOCKS - 1]!.hash))
  }
  console.log(
    `${[...kinds.values()].reduce((a, b) => a + b)} of ${calls} calls failed once: ${stops} stops, ${errors} errors to callers; ${[...kinds].map(([kind, count]) => `${count} ${kind}`).join(', ')}`,
  )
})
