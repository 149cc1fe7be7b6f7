/**
 * Cuts recorded blocks of OP Sepolia (CONFORMANCE_DIR, op-blocks) into flashblocks and subblocks at
 * every point. Every cut must give the recorded block.
 */

import { beforeAll, describe, expect, test } from 'vitest'
import { engineByName } from '../../engine/evm/engines/registry.ts'
import { subblockOf } from '../../engine/flashblocks/subblock.ts'
import { hashHeader } from '../../engine/primitives/header.ts'
import { encodeReceipt } from '../../engine/primitives/receipt-codec.ts'
import { readAccount, readSlot } from '../../engine/state/read.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { isAbsent } from '../fixtures/blocks.ts'
import { type CountingEngine, countingEngine } from '../fixtures/counting-engine.ts'
import { referenceEngine } from '../fixtures/engine.ts'
import {
  type Cut,
  cutsOf,
  packetsOf,
  type RecordedBlock,
  readRecorded,
  upstreamBlockOf,
  WitnessWorld,
} from '../fixtures/op-flashblocks.ts'
import { hex } from '../fixtures/writer-world.ts'

const NUMBERS = [26_207_960, 26_207_961, 26_207_962, 26_207_963]
const pathOf = (number: number) => `op-blocks/op-sepolia-${number}.json.gz`
const PAYLOAD = '0x0000000000000001'
const FORMS = ['flashblocks', 'subblocks'] as const
type Form = (typeof FORMS)[number]

describe.skipIf(isAbsent(pathOf(NUMBERS[0]!)))('a recorded block of OP Sepolia', () => {
  const fast = countingEngine(engineByName('fast'))
  const reference = countingEngine(referenceEngine)
  const recorded = new Map<number, RecordedBlock>()
  beforeAll(async () => {
    for (const number of NUMBERS)
      recorded.set(number, await readRecorded(pathOf(number), referenceEngine))
  })

  /** Follows the block until it is canonical. */
  async function follow(
    block: RecordedBlock,
    { cut, engine, name, form }: { cut: Cut; engine: CountingEngine; name: string; form: Form },
  ): Promise<WitnessWorld> {
    const world = new WitnessWorld(block, { engine, before: recorded.get(block.number - 1) })
    await world.apply({ type: 'feed', feed: 0, isConnected: true })
    for (const [index, packet] of packetsOf(block, cut, PAYLOAD).entries()) {
      await world.packet(form === 'subblocks' ? subblockOf(packet) : packet)
      await world.settle()
      expect(world.heads().pending, nameWith(name, world)).toEqual([block.number, index])
    }
    await world.apply({ type: 'sealed', block: upstreamBlockOf(block, PAYLOAD) })
    await world.settle()
    const head = [block.number, hex(block.hash)]
    const heads = { canonical: head, complete: head }
    expect(world.heads(), nameWith(name, world)).toMatchObject(heads)
    return world
  }

  /** One session of the engine gets the flashblocks of the block and nothing else. */
  async function tryCut(
    block: RecordedBlock,
    cut: Cut,
    { engine, form }: { engine: CountingEngine; form: Form },
  ): Promise<void> {
    const { opened } = engine
    const name = `block ${block.number} cut into ${form} of ${nameOf(cut)} on ${engine.name}`
    const world = await follow(block, { cut, engine, name, form })
    expect(outcomeOf(world, block), nameWith(name, world)).toEqual(recordedOf(block))
    const indexes = world.executed.map(({ message }) => 'index' in message && message.index)
    expect(indexes, name).toEqual([...cut.keys()])
    expect([engine.opened - opened, engine.open], name).toEqual([1, 0])
  }

  describe.each(FORMS)('in the form of %s', (form) => {
    test.each(NUMBERS)('has the recorded outcome after every cut: %s', (number) =>
      everyCut(recorded.get(number)!, form),
    )
  })
  test.each(NUMBERS)('has the recorded outcome on the reference engine: %s', (number) =>
    oneCut(recorded.get(number)!),
  )

  async function everyCut(block: RecordedBlock, form: Form): Promise<void> {
    for (const cut of cutsOf(block)) await tryCut(block, cut, { engine: fast, form })
  }
  async function oneCut(block: RecordedBlock): Promise<void> {
    const half = Math.ceil(block.transactions.length / 2)
    const cut = [half, block.transactions.length - half]
    await tryCut(block, cut, { engine: reference, form: 'flashblocks' })
  }
})

/** Describes the visible block and its stored rows, in texts. */
function outcomeOf(world: WitnessWorld, { number, diff, trie }: RecordedBlock) {
  const lease = world.reader.lease('standard')
  try {
    const block = lease.view.block({ number: BigInt(number) })!
    const state = lease.view.state(block)
    const stored = openStore(world.database).diff(block.hash)!
    return {
      hash: hex(block.hash),
      header: hex(hashHeader(block.header)),
      // The test computes the state root, because a lazy block has the root that its source sent.
      stateRoot: hex(trie.stateRoot(trie.preview(trie.base(), stored))),
      transactions: block.transactions().map(({ raw }) => hex(raw)),
      receipts: block.receipts().map((receipt) => hex(encodeReceipt(receipt))),
      state: diff.map(({ address, slots }) => ({
        account: readAccount(state, address),
        slots: slots.map(({ key }) => hex(readSlot(state, address, key))),
      })),
      unusual: world.emitted.map(({ type }) => type).filter((type) => !USUAL.includes(type)),
      repeated: REEXECUTED.filter((what) => world.count(what) > 0),
    }
  } finally {
    lease.release()
  }
}
type Outcome = ReturnType<typeof outcomeOf>

function recordedOf({ hash, header, ...block }: RecordedBlock): Outcome {
  return {
    hash: hex(hash),
    header: hex(hash),
    stateRoot: hex(header.stateRoot),
    transactions: block.transactions.map(hex),
    receipts: block.executed.map(({ receipt }) => hex(encodeReceipt(receipt))),
    state: block.diff.map(({ after, slots }) => ({
      account: after,
      slots: slots.map((slot) => hex(slot.after)),
    })),
    unusual: [],
    repeated: [],
  }
}

const USUAL: readonly string[] = ['published', 'sealed', 'check']
/** Counters of a canonical block that the writer executes rather than compares. */
const REEXECUTED = ['sealed_executed_whole', 'sealed_completed_flashblocks', 'canonical_mismatch']

const nameOf = (cut: Cut) => (cut.length > 2 ? 'single transactions' : cut.join(' and '))

/** Appends the messages of the writer to the name. */
function nameWith(name: string, { emitted }: WitnessWorld): string {
  const messages = emitted.flatMap((effect) => ('message' in effect ? [effect.message] : []))
  return [name, ...messages].join(': ')
}
