/**
 * The form of OP's sequencers states no hash, root or end. Execution and the next block give these
 * values.
 */

import { beforeAll, describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { MESSAGE_PASSER } from '../../../engine/chainspec/genesis.ts'
import { subblockOf } from '../../../engine/flashblocks/subblock.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { hashHeader } from '../../../engine/primitives/header.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { ZERO_32 } from '../../../engine/primitives/words.ts'
import { Mailbox, type MailboxLimits } from '../../../engine/sources/writer/mailbox.ts'
import { createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'
import { testChain } from '../../fixtures/sequenced-chain.ts'
import { createBranches, seal, worldWith } from '../../fixtures/writer-branches.ts'
import { digestOf, hex, WriterWorld } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
beforeAll(async () => {
  ;({ a, b } = await createBranches())
})

const at = (block: ProducedBlock) => [block.number, hex(block.hash)]
const subblocks = (block: ProducedBlock) => block.flashblocks.map(subblockOf)
const byWord = ({ hash, header: { stateRoot, withdrawalsRoot } }: ProducedBlock) => ({
  hash,
  stateRoot,
  withdrawalsRoot,
})
/** Sends messages with their own digests, like another feed. */
async function play(world: WriterWorld, messages: readonly Flashblock[], feed = 0): Promise<void> {
  for (const message of messages)
    await world.packet(
      message,
      BigInt(`${feed + 1}${message.payloadId.slice(2)}${message.index}`),
      feed,
    )
}
const blockOf = (world: WriterWorld, number: number) => {
  const lease = world.reader.lease('flashblocks')
  const block = lease.view.block({ number: BigInt(number) })!
  lease.release()
  return block
}

/** Makes a world in which block 1 is canonical, by flashblocks with a stated end. */
async function lazyWorld(): Promise<WriterWorld> {
  const world = new WriterWorld({ isLazy: true })
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  for (const message of [...a[0]!.flashblocks, a[0]!.end]) await world.packet(message)
  await seal(world, a[0]!, byWord(a[0]!))
  await world.settle({ ticks: true })
  world.counts.clear()
  return world
}

describe('subblocks with whole state', () => {
  test('are visible one by one, and the next payload completes their block', async () => {
    const world = await worldWith([a[0]!])
    for (const block of a.slice(1, 4)) {
      for (const message of subblocks(block)) {
        await world.packet(message)
        await world.settle()
        expect(world.heads().pending).toEqual([block.number, message.index])
      }
      expect(world.heads().complete[0]).toBe(block.number - 1)
    }
    expect(world.heads().complete).toEqual(at(a[2]!))
    await seal(world, a[1]!)
    await seal(world, a[2]!)
    expect(world.heads()).toMatchObject({ canonical: at(a[2]!), pending: [4, 2] })
    const unwanted = /executed_whole|mismatch|equivocation|replaced|flush/
    expect([...world.counts.keys()].filter((what) => unwanted.test(what))).toEqual([])
  })

  test('are completed by the canonical block', async () => {
    const world = await worldWith([a[0]!])
    await play(world, subblocks(a[1]!))
    await seal(world, a[1]!)
    expect(world.heads()).toMatchObject({ canonical: at(a[1]!), complete: at(a[1]!) })
    expect(world.count('sealed_executed_whole')).toBe(0)
  })

  test('give BLOCKHASH the parent’s hash without a canonical block', async () => {
    const world = await worldWith([a[0]!])
    await play(world, [...subblocks(a[1]!), ...subblocks(a[2]!)])
    await world.settle()
    const lease = world.reader.lease('flashblocks')
    const pending = lease.view.block({ tag: 'pending' })!
    expect(hex(lease.view.state(pending).blockHash(2n) as Uint8Array)).toBe(hex(a[1]!.hash))
    expect(hex(pending.header.parentHash)).toBe(hex(a[1]!.hash))
    lease.release()
  })

  test('have a partial header without roots, which is found by its hash', async () => {
    const world = await worldWith([a[0]!])
    await play(world, subblocks(a[1]!).slice(0, 2))
    const { header, hash } = blockOf(world, 2)
    expect([header.stateRoot, header.withdrawalsRoot]).toEqual([ZERO_32, ZERO_32])
    expect(hex(hash)).toBe(hex(hashHeader(header)))
  })

  test('do not take over roots that no hash covers', async () => {
    const world = await worldWith([a[0]!])
    await play(world, subblocks(a[1]!).slice(0, 1))
    const { hash } = blockOf(world, 2)
    const other = await worldWith([a[0]!])
    const [zero] = subblocks(a[1]!)
    const roots = {
      stateRoot: new Uint8Array(32).fill(7),
      withdrawalsRoot: new Uint8Array(32).fill(8),
    }
    await play(other, [{ ...zero!, delta: { ...zero!.delta, ...roots } }])
    expect(hex(blockOf(other, 2).hash)).toBe(hex(hash))
  })

  test('have the message passer’s withdrawals root, wherever the block is cut', async () => {
    const chain = testChain(new Map([[MESSAGE_PASSER, { balance: 0n, code: hexToBytes(STORE) }]]))
    const producer = createProducer(chain)
    const transactions = [0, 1, 2, 3].map((from) => call(chain.chainId, from))
    for (let cut = 0; cut <= transactions.length; cut++) {
      const parts = [transactions.slice(0, cut), transactions.slice(cut)]
      const block = await producer.build(producer.genesis, 1, parts)
      const next = await producer.build(block, 2, [])
      expect(block.header.withdrawalsRoot).not.toEqual(chain.genesisHeader.withdrawalsRoot)
      const world = await worldWith([], { chain })
      await play(world, [...subblocks(block), ...subblocks(next)])
      await world.settle()
      expect(world.heads()).toMatchObject({ complete: at(block), pending: [2, 0] })
      expect(blockOf(world, 1).header).toEqual(block.header)
    }
  })
})

describe('subblocks without a trie', () => {
  test('get their hash from the next payload, although the feed sent Ends before', async () => {
    const world = await lazyWorld()
    await play(world, [...subblocks(a[1]!), ...subblocks(a[2]!)])
    expect(world.heads()).toMatchObject({ complete: at(a[1]!), pending: [3, 2] })
    const { header } = blockOf(world, 2)
    expect([header.stateRoot, header.withdrawalsRoot]).toEqual([ZERO_32, ZERO_32])
    await seal(world, a[1]!, byWord(a[1]!))
    await seal(world, a[2]!, byWord(a[2]!))
    expect(blockOf(world, 3).header).toEqual(a[2]!.header)
    expect(world.count('sealed_executed_whole')).toBe(0)
  })

  test('give way to the other form, whose next payload waits for its End again', async () => {
    const world = await lazyWorld()
    await play(world, [...subblocks(a[1]!), ...subblocks(a[2]!)])
    const withoutTarget = a[3]!.flashblocks.map((message) => ({ ...message, targetIndex: 0 }))
    await play(world, [...withoutTarget, ...subblocks(a[4]!)])
    expect(world.heads()).toMatchObject({ complete: at(a[2]!), pending: [4, 2] })
  })

  test('with a hole leave the block open until the canonical block', async () => {
    const world = await lazyWorld()
    const [zero, , two] = subblocks(a[1]!)
    await play(world, [zero!, two!, ...subblocks(a[2]!)])
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 0] })
    await seal(world, a[1]!, byWord(a[1]!))
    await world.settle({ ticks: true })
    expect(world.heads()).toMatchObject({ canonical: at(a[1]!), pending: [3, 2] })
  })
})

describe('the identity of a subblock', () => {
  test('shows an equivocation, although no hash is stated', async () => {
    const world = await worldWith([a[0]!])
    const [zero, one] = subblocks(a[1]!) as [Flashblock, Flashblock]
    await play(world, [zero, one])
    const delta = { ...one.delta, gasUsed: one.delta.gasUsed + 1n }
    await play(world, [{ ...one, delta }, zero, one], 1)
    expect([world.count('feed_equivocation'), world.count('feed_duplicate')]).toEqual([1, 2])
    expect(world.requests.some(({ type }) => type === 'suspicion')).toBe(true)
  })

  test('is the same in both forms, whichever comes first', async () => {
    const world = await worldWith([a[0]!])
    await world.apply({ type: 'feed', feed: 1, isConnected: true })
    const [zero, one, two] = a[1]!.flashblocks as [Flashblock, Flashblock, Flashblock]
    await play(world, [zero])
    await play(world, [subblockOf(zero), subblockOf(one)], 1)
    await play(world, [one, two])
    await play(world, [subblockOf(two)], 1)
    expect(world.heads().pending).toEqual([2, 2])
    await world.settle()
    expect(world.heads().complete).toEqual(at(a[1]!))
    expect([world.count('feed_duplicate'), world.count('feed_equivocation')]).toEqual([3, 0])
  })

  test('includes its payload, so a second payload replaces the first', async () => {
    const world = await worldWith([a[0]!])
    await play(world, subblocks(a[1]!).slice(0, 2))
    await play(world, subblocks(b[0]!))
    await play(world, subblocks(b[1]!))
    await world.settle()
    expect(world.heads()).toMatchObject({ complete: at(b[0]!), pending: [3, 1] })
    expect(world.count('payload_replaced')).toBe(1)
  })
})

describe('a wrong subblock is refused with this count:', () => {
  const wrong: [kind: string, delta: (of: Flashblock['delta']) => Partial<Flashblock['delta']>][] =
    [
      ['mismatch_gas_used', ({ gasUsed }) => ({ gasUsed: gasUsed + 1n })],
      ['mismatch_receipts_root', () => ({ receiptsRoot: ZERO_32 })],
      ['mismatch_logs_bloom', () => ({ logsBloom: new Uint8Array(256).fill(1) })],
      ['mismatch_blob_gas_used', () => ({ blobGasUsed: 77n })],
      ['mismatch_transaction', () => ({ transactions: [send(0, 99).raw] })],
      ['mismatch_block_hash', () => ({ blockHash: new Uint8Array(32).fill(7) })],
    ]
  test.each(wrong)('%s', async (kind, change) => {
    const world = await worldWith([a[0]!])
    const [zero, one] = subblocks(a[1]!) as [Flashblock, Flashblock]
    await play(world, [zero, { ...one, delta: { ...one.delta, ...change(one.delta) } }])
    expect([world.count(kind), world.heads().pending[0]]).toEqual([1, 1])
    await seal(world, a[1]!)
    expect(world.heads().canonical).toEqual(at(a[1]!))
  })
})

/** The contract stores the remaining gas in slot 0, so that each call changes the slot. */
const STORE = '0x5a5f55'

const call = (chainId: bigint, from: number): SignedTransaction =>
  signTransaction(
    {
      type: 2,
      chainId,
      nonce: 0n,
      to: hexToBytes(MESSAGE_PASSER),
      value: 0n,
      gasLimit: 100_000n + BigInt(from),
      input: new Uint8Array(0),
      accessList: [],
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 1n,
    },
    hexToBytes(DEV_ACCOUNTS[from]!.privateKey),
  )

describe('packets that wait for a busy writer', () => {
  /** Gives the writer what a mailbox has, one event after the other. */
  const drain = async (
    world: WriterWorld,
    messages: readonly Flashblock[],
    limits?: MailboxLimits,
  ) => {
    const mailbox = new Mailbox(limits)
    for (const message of messages) {
      const packet = { feed: 0, message, digest: digestOf(message), receivedAtMs: world.clock.ms }
      mailbox.push({ type: 'packet', packet })
    }
    for (;;) {
      const event = mailbox.next((hash) => world.writer.knows(hash))
      if (event === undefined) break
      await world.apply(event)
    }
    await world.settle({ ticks: true })
  }

  test('are not skipped for a late copy of an older index 0', async () => {
    const world = await lazyWorld()
    const [zero, one, two] = subblocks(a[2]!)
    await play(world, [...subblocks(a[1]!), zero!, one!])
    const [copy, next] = [subblocks(a[1]!)[0]!, subblocks(a[3]!)[0]!]
    await drain(world, [two!, copy, next])
    expect(world.heads()).toMatchObject({ complete: at(a[2]!), pending: [4, 0] })
    const transactions = subblocks(a[2]!).flatMap(({ delta }) => delta.transactions)
    expect(blockOf(world, 3).transactionCount).toBe(transactions.length)
  })

  test('leave their block open when some are dropped', async () => {
    const world = await lazyWorld()
    const [zero, one, two] = subblocks(a[1]!)
    await play(world, [zero!, one!])
    await drain(world, [two!, subblocks(a[2]!)[0]!], { packets: 1, packetBytes: 2 ** 20 })
    expect(world.heads()).toMatchObject({ complete: at(a[0]!), pending: [2, 1] })
  })
})
