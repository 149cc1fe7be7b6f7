/** Every storage call of a node fails once, in turn: a right answer, an error, or a stop that says what to do; never a wrong answer. */
import { beforeAll, expect, test } from 'vitest'
import { memoryDatabase } from '../../engine/storage/database/rocksdb.ts'
import { storageFailure } from '../../engine/storage/keeper/failure.ts'
import { FAULT, faultyDatabase } from '../fixtures/faulty-database.ts'
import { send } from '../fixtures/producer.ts'
import { type Reply, testRpc } from '../fixtures/rpc.ts'
import { type Branches, createBranches } from '../fixtures/writer-branches.ts'
import { hex, WriterWorld } from '../fixtures/writer-world.ts'

/** Of so many calls one is tried: all of them where it is 1. */
const STRIDE = Number(process.env['FAULTS_STRIDE'] ?? 23)
const FOLD_DEPTH = 1
const BLOCKS = 5

let branches: Branches
beforeAll(async () => {
  branches = await createBranches()
})

/** What callers ask after each block: of the pending, the newest and an old block, by the front and by the pool. */
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
  /** Of each block, in the order of the questions; empty after a stop. */
  readonly replies: readonly (readonly Reply[])[]
  /** What the operator reads. */
  readonly stop: string | undefined
}

/** Blocks one after the other, until they are canonical or the node stops. The first: the next one that it lacks. */
async function run(world: WriterWorld): Promise<Outcome> {
  const replies: Reply[][] = []
  const rpc = testRpc({ source: { reader: world.reader, onPublish: () => () => {} } })
  const ask = async () => {
    const answers: Reply[] = []
    for (const [method, params] of QUESTIONS) answers.push(await rpc.ask(method, params))
    replies.push(answers)
  }
  try {
    await world.apply({ type: 'feed', feed: 0, isConnected: true })
    const head = world.heads().canonical[0]
    for (const [index, block] of branches.a.slice(head, BLOCKS).entries()) {
      for (const message of [...block.flashblocks, block.end]) await world.packet(message)
      await world.apply({ type: 'sealed', block: block.sealed })
      await world.settle()
      // As each second does it, and as the end does.
      world.answers.push(...(index % 2 === 0 ? await world.keeper.sync() : world.keeper.flush()))
      await world.settle()
      const failed = world.told.find((effect) => effect.type === 'halted')
      if (failed !== undefined) return { replies, stop: failed.message }
      await ask()
    }
    return { replies, stop: undefined }
  } catch (error) {
    const stop = storageFailure(error)
    if (stop === undefined) throw error
    return { replies, stop }
  }
}

/** Opens a world on what is stored, as a process would; a start that fails is a stop. */
function open(database: ReturnType<typeof faultyDatabase>): WriterWorld | string {
  try {
    return new WriterWorld({ database: database.database, foldDepth: FOLD_DEPTH })
  } catch (error) {
    const stop = storageFailure(error)
    if (stop === undefined) throw error
    return stop
  }
}

const LINE = `storage: ${FAULT}; repair the disk, then start again`

test('whichever call it is', async () => {
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
    for (const [index, answers] of outcome.replies.entries())
      for (const [question, answer] of answers.entries()) {
        if (answer.error?.code === -32603) failed++
        else expect(answer, where).toEqual(expected.replies[index]![question])
      }
    errors += failed
    if (outcome.stop !== undefined) {
      stops++
      expect(outcome.stop, where).toBe(LINE)
    }
    // It is one fault: either a caller hears of it, or the operator does, or somebody tried again.
    expect(failed + (outcome.stop === undefined ? 0 : 1), where).toBeLessThanOrEqual(1)
    const again = open(database)
    if (typeof again === 'string') throw new Error(`${where}: it does not open again: ${again}`)
    expect((await run(again)).stop, where).toBeUndefined()
    expect(again.heads().canonical[1], where).toBe(hex(branches.a[BLOCKS - 1]!.hash))
  }
  console.log(
    `${[...kinds.values()].reduce((a, b) => a + b)} of ${calls} calls failed once: ${stops} stops, ${errors} errors to callers; ${[...kinds].map(([kind, count]) => `${count} ${kind}`).join(', ')}`,
  )
})
