/**
 * The whole header of a canonical block is compared. A mismatch first makes the tracker fetch
 * another copy, before anything halts.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import type { UpstreamBlock } from '../../../engine/chain/types.ts'
import { type Header, hashHeader } from '../../../engine/primitives/header.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { ZERO_32 } from '../../../engine/primitives/words.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches, publishBlock, seal, worldWith } from '../../fixtures/writer-branches.ts'
import { hex, type WorldOptions, type WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
let shorter: ProducedBlock
beforeAll(async () => {
  ;({ a, b, shorter } = await createBranches())
})

const at = (block: ProducedBlock) => [block.number, hex(block.hash)]
const worldAt = (count: number, options: WorldOptions = {}) => worldWith(a.slice(0, count), options)
const known = ({ hash, header }: ProducedBlock): Partial<UpstreamBlock> => ({
  hash,
  stateRoot: header.stateRoot,
  withdrawalsRoot: header.withdrawalsRoot,
  blobGasUsed: header.blobGasUsed,
  requestsHash: header.requestsHash,
  excessBlobGas: 0n,
})
/**
 * Gives the hash. Changed roots get their own correct hash, so that only the persistence thread's
 * roots differ.
 */
const hashOf = (block: ProducedBlock, change: Partial<UpstreamBlock>) =>
  change.stateRoot !== undefined || change.withdrawalsRoot !== undefined
    ? hashHeader({ ...block.header, ...change } as Header)
    : WRONG_HASH
const WRONG_HASH = new Uint8Array(32).fill(9)
const emitted = (world: WriterWorld, type: string) =>
  world.emitted.filter((effect) => effect.type === type)

const fields: [field: string, change: Partial<UpstreamBlock>][] = [
  ['stateRoot', { stateRoot: ZERO_32 }],
  ['withdrawalsRoot', { withdrawalsRoot: ZERO_32 }],
  ['blobGasUsed', { blobGasUsed: 7n }],
  ['excessBlobGas', { excessBlobGas: 7n }],
  ['requestsHash', { requestsHash: ZERO_32 }],
  ['gasUsed', { gasUsed: 1n }],
  ['receiptsRoot', { receiptsRoot: ZERO_32 }],
  ['logsBloom', { logsBloom: new Uint8Array(256).fill(1) }],
  ['baseFee', { baseFee: 1n }],
  ['hash', {}],
]

describe.each([true, false])('a wrong canonical block, with flashblocks: %s', (isVisible) => {
  test.each(fields)(
    'is refused for its %s and changes nothing, and the right block follows',
    async (field, change) => {
      const world = await worldAt(1)
      if (isVisible) await publishBlock(world, a[1]!)
      const before = world.heads()
      const hash = hashOf(a[1]!, change)
      await seal(world, a[1]!, { ...known(a[1]!), ...change, hash })
      await world.settle({ ticks: true })
      expect(emitted(world, 'refused')).toEqual([{ type: 'refused', number: 2, hash, field }])
      expect([world.heads(), emitted(world, 'halted')]).toEqual([before, []])
      await seal(world, a[1]!, known(a[1]!))
      await world.settle({ ticks: true })
      expect(world.heads().canonical).toEqual(at(a[1]!))
      expect(emitted(world, 'halted')).toEqual([])
    },
  )

  test('halts the chain when it comes twice, until the right block comes', async () => {
    const world = await worldAt(1)
    if (isVisible) await publishBlock(world, a[1]!)
    const wrong = { ...known(a[1]!), gasUsed: 1n, hash: WRONG_HASH }
    for (let n = 0; n < 2; n++) {
      await seal(world, a[1]!, wrong)
      await world.settle({ ticks: true })
    }
    expect(emitted(world, 'halted')).toMatchObject([{ isFatal: false }])
    expect(world.heads().pending[0]).toBe(1)
    await seal(world, a[1]!, known(a[1]!))
    await world.settle({ ticks: true })
    expect(world.heads().canonical).toEqual(at(a[1]!))
  })
})

test('a competing payload may replace one that only a refused block had matched', async () => {
  const world = await worldAt(1)
  await publishBlock(world, a[1]!)
  const hash = hashOf(a[1]!, { stateRoot: ZERO_32 })
  await seal(world, a[1]!, { ...known(a[1]!), stateRoot: ZERO_32, hash })
  expect(emitted(world, 'refused')).toHaveLength(1)
  await publishBlock(world, b[0]!)
  expect(world.heads().complete).toEqual(at(b[0]!))
})

test('a wrong canonical block that ends early leaves the pending block open', async () => {
  const world = await worldAt(1)
  await world.packet(a[1]!.flashblocks[0]!)
  await world.packet(a[1]!.flashblocks[1]!)
  // The block has the transactions so far, and a hash of no such block.
  await seal(world, shorter, {
    ...known(shorter),
    prevRandao: a[1]!.upstreamBlock.prevRandao,
    hash: WRONG_HASH,
  })
  await world.settle({ ticks: true })
  expect(emitted(world, 'refused')).toMatchObject([{ number: 2 }])
  await world.packet(a[1]!.flashblocks[2]!)
  await world.settle()
  expect(world.heads().complete).toEqual(at(a[1]!))
})

test('a replaced block is reported with both hashes and its lost transactions', async () => {
  const world = await worldAt(1)
  await publishBlock(world, a[1]!)
  await world.packet(a[2]!.flashblocks[0]!)
  await world.packet(a[2]!.flashblocks[1]!)
  await seal(world, b[0]!)
  const lost =
    [...a[1]!.upstreamBlock.transactions, ...a[2]!.flashblocks[1]!.delta.transactions].length - 1
  const [replaced] = emitted(world, 'replaced')
  expect(replaced).toMatchObject({ number: 2, promised: a[1]!.hash, canonical: b[0]!.hash })
  expect(replaced?.type === 'replaced' && replaced.lost).toHaveLength(lost)
  expect(world.count('promise_broken')).toBe(1)
})

test('a canonical block that continues the visible flashblocks breaks no promise', async () => {
  const world = await worldAt(1)
  await world.packet(a[1]!.flashblocks[0]!)
  await world.packet(a[1]!.flashblocks[1]!)
  await seal(world, a[1]!)
  await world.settle({ ticks: true })
  expect([world.heads().canonical, emitted(world, 'replaced')]).toEqual([at(a[1]!), []])
})

describe('a transaction of an unsupported type', () => {
  const blob = signTransaction(
    {
      ...({ type: 3, chainId: 196n, nonce: 0n, to: new Uint8Array(20), value: 0n } as const),
      gasLimit: 21_000n,
      input: new Uint8Array(0),
      accessList: [],
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 0n,
      maxFeePerBlobGas: 1n,
      blobVersionedHashes: [WRONG_HASH],
    },
    new Uint8Array(32).fill(7),
  )
  test.each([
    ['0x7b', hexToBytes('0x7bc10a')],
    ['0x3', blob.raw],
  ])('%s in a flashblock is reported, and the canonical block is taken', async (type, raw) => {
    const world = await worldAt(1)
    const [first, second] = a[1]!.flashblocks
    await world.packet(first!)
    const { delta } = second!
    const transactions = [...delta.transactions, raw]
    await world.packet({ ...second!, delta: { ...delta, transactions } })
    const { payloadId } = second!
    expect(emitted(world, 'warning')).toEqual([
      {
        type: 'warning',
        message: `block 2, payload ${payloadId} index 1: transactionType is not supported here, ${type} of transaction ${delta.transactions.length - 1 + 1} in the feed`,
      },
    ])
    expect(world.count('mismatch_transaction_type')).toBe(1)
    expect(world.heads().pending[0]).toBe(1)
    await seal(world, a[1]!, known(a[1]!))
    expect(world.heads().canonical).toEqual(at(a[1]!))
  })
  test('in a canonical block makes it refused, with the type as the reason', async () => {
    const world = await worldAt(1)
    const transactions = [...a[1]!.upstreamBlock.transactions, blob.raw]
    await seal(world, a[1]!, { ...known(a[1]!), transactions, hash: WRONG_HASH })
    await world.settle({ ticks: true })
    const reason = `type 0x3 of transaction ${transactions.length - 1} is not supported`
    expect(emitted(world, 'refused')).toEqual([
      { type: 'refused', number: 2, hash: WRONG_HASH, field: 'transactionType', reason },
    ])
    expect(world.heads().canonical[0]).toBe(1)
  })
})
