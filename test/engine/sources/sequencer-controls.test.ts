/** A developer controls the sequencer, on a clock that moves on demand only. */
import { expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import type { FeedMessage, Flashblock } from '../../../engine/flashblocks/types.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import type {
  Control,
  ControlPort,
  ControlResponse,
} from '../../../engine/sources/sequencer/controls.ts'
import { type SequencedChain, sequencedChain, testChain } from '../../fixtures/sequenced-chain.ts'

const KEY = hexToBytes(DEV_ACCOUNTS[0]!.privateKey)
const transfer = (nonce: bigint) =>
  signTransaction(
    {
      type: 2,
      chainId: 196n,
      nonce,
      gasLimit: 21_000n,
      to: new Uint8Array(20).fill(7),
      value: 1n,
      input: new Uint8Array(0),
      accessList: [],
      maxFeePerGas: 3_000_000_000n,
      maxPriorityFeePerGas: 7n,
    },
    KEY,
  )

/** Makes a chain with controls: `run` takes steps until the control has its response. */
function controlled() {
  const waiting: { request: number; control: Control }[] = []
  const responses: ControlResponse[] = []
  const control: ControlPort = {
    next: () => waiting.shift(),
    done: (response) => void responses.push(response),
    isFlat: () => true,
    isUnfoldable: () => true,
    pin() {},
    rewind() {},
    blocksFrom: (number) =>
      chain.blocks
        .slice(number)
        .map(({ header, hash }) => ({ number: Number(header.number), hash, transactions: [] })),
    finalized: () => 0,
    salt: () => new Uint8Array(8).fill(responses.length + 1),
  }
  const chain: SequencedChain = sequencedChain({ chain: testChain(), over: { control } })
  const run = async (what: Control) => {
    const request = responses.length + 1
    waiting.push({ request, control: what })
    await chain.until(() => responses.length === request)
    return responses.at(-1)!
  }
  return { chain, run }
}

const shortOf = (message: FeedMessage) =>
  message.type === 'end' ? 'end' : `${message.blockNumber}:${message.index}`
const sentBy = (chain: ReturnType<typeof sequencedChain>, from = 0) =>
  chain.sent.slice(from).map(({ message }) => shortOf(message))
const flashblockOf = (message: FeedMessage) => message as Flashblock

test('a paused chain makes no flashblock until a control asks for one', async () => {
  const { chain, run } = controlled()
  await chain.until(() => chain.blocks.length > 2)
  const paused = await run({ type: 'pause' })
  const { number } = chain.blocks.at(-1)!.header
  expect(paused).toMatchObject({ done: { head: { number: Number(number) } } })
  const count = chain.sent.length
  for (let steps = 0; steps < 10; steps++) await chain.step(() => 10_000)
  expect(chain.sent).toHaveLength(count)
  const next = Number(number) + 1
  for (let index = 0; index < 9; index++)
    expect(await run({ type: 'step' })).toMatchObject({
      done: { position: { number: next, index } },
    })
  await run({ type: 'seal' })
  const indices = Array.from({ length: 9 }, (_, index) => `${next}:${index}`)
  expect(sentBy(chain, count)).toEqual([...indices, 'end'])
  // No receiver takes the block as complete before its End.
  for (const { message } of chain.sent.slice(count + 1, -1))
    expect(flashblockOf(message).targetIndex).toBeGreaterThan(flashblockOf(message).index)
  chain.close()
})

test('a block sealed early has the waiting transactions, and mining skips the clock', async () => {
  const { chain, run } = controlled()
  await run({ type: 'pause' })
  await run({ type: 'resume' })
  const transaction = transfer(0n)
  chain.offer([transaction.raw])
  await run({ type: 'seal' })
  const { transactions, header } = chain.blocks.at(-1)!
  expect(transactions.map(bytesToHex)).toContain(bytesToHex(transaction.raw))
  const ms = chain.clock.ms
  await run({ type: 'mine', blocks: 5, interval: undefined })
  expect(chain.blocks.at(-1)!.header.timestamp).toBe(header.timestamp + 5n)
  expect(chain.clock.ms - ms).toBeLessThan(1_000)
  chain.close()
})

test('a step and a seal include waiting transactions, however slow the machine is', async () => {
  const { chain, run } = controlled()
  await run({ type: 'pause' })
  await run({ type: 'step' })
  // A transfer takes longer than a flashblock's time.
  chain.clock.perRead = 60
  const [first, second] = [transfer(0n), transfer(1n)]
  chain.offer([first.raw])
  await run({ type: 'step' })
  const stepped = flashblockOf(chain.sent.at(-1)!.message)
  expect(stepped.delta.transactions.map(bytesToHex)).toEqual([bytesToHex(first.raw)])
  chain.offer([second.raw])
  await run({ type: 'seal' })
  const texts = chain.blocks.at(-1)!.transactions.map(bytesToHex)
  expect(texts).toContain(bytesToHex(second.raw))
  chain.close()
})

test('a set time applies to the next block, and an earlier time is refused', async () => {
  const { chain, run } = controlled()
  await run({ type: 'pause' })
  const { timestamp } = chain.blocks.at(-1)!.header
  await run({ type: 'time', at: timestamp + 1_000n })
  await run({ type: 'time', by: 500n })
  await run({ type: 'mine', blocks: 2, interval: 7 })
  const times = chain.blocks.slice(-2).map(({ header }) => header.timestamp - timestamp)
  expect(times).toEqual([1_500n, 1_507n])
  expect(await run({ type: 'time', at: timestamp })).toMatchObject({
    reason: `the newest block has timestamp ${timestamp + 1_507n}: give a later one`,
  })
  chain.close()
})

test('the block continues from an equivocating flashblock, also after a kill', async () => {
  const { chain, run } = controlled()
  await run({ type: 'pause' })
  await run({ type: 'step' })
  const transaction = transfer(0n)
  chain.offer([transaction.raw])
  await run({ type: 'step' })
  chain.offer([])
  await run({ type: 'step' })
  const count = chain.sent.length
  const { done } = (await run({ type: 'equivocate', isRequeued: false })) as { done: object }
  expect(done).toMatchObject({ dropped: [transaction.hash] })
  expect(chain.rejected).toMatchObject([{ hash: transaction.hash, isUnwanted: true }])
  const repeated = chain.sent.slice(count).map(({ message }) => flashblockOf(message))
  const first = chain.sent.slice(count - 2, count).map(({ message }) => flashblockOf(message))
  expect(repeated.map(({ index }) => index)).toEqual(first.map(({ index }) => index))
  expect(repeated[0]!.delta.transactions).toEqual([])
  expect(repeated[0]!.delta.blockHash).not.toEqual(first[0]!.delta.blockHash)
  const { number } = chain.blocks.at(-1)!.header
  chain.restart()
  await chain.until(() => chain.blocks.at(-1)!.header.number > number)
  expect(chain.counts).not.toContain('journal_mismatch')
  const block = chain.blocks.at(-1)!
  expect(block.transactions.map(bytesToHex)).not.toContain(bytesToHex(transaction.raw))
  chain.close()
})

test('flashblocks of a gap or of silence are journalled but not sent', async () => {
  const { chain, run } = controlled()
  await run({ type: 'pause' })
  await run({ type: 'step' })
  const [sent, retained] = [chain.sent.length, chain.journal.packets.length]
  await run({ type: 'gap' })
  await run({ type: 'step' })
  await run({ type: 'silence', ms: 5_000 })
  await run({ type: 'step' })
  expect(chain.sent).toHaveLength(sent)
  expect(chain.journal.packets).toHaveLength(retained + 2)
  chain.clock.ms += 5_000
  await run({ type: 'step' })
  expect(sentBy(chain, sent)).toHaveLength(1)
  chain.close()
})

test('a reorg of depth 0 replaces the block in progress, also after a kill', async () => {
  const { chain, run } = controlled()
  await run({ type: 'pause' })
  await run({ type: 'step' })
  const first = flashblockOf(chain.sent.at(-1)!.message)
  const transaction = transfer(0n)
  chain.offer([transaction.raw])
  await run({ type: 'step' })
  chain.offer([])
  expect(await run({ type: 'reorg', depth: 0, isRequeued: true })).toMatchObject({
    done: { removed: [], dropped: [transaction.hash] },
  })
  expect(chain.rejected).toEqual([])
  const second = flashblockOf(chain.sent.at(-1)!.message)
  expect(second.payloadId).not.toBe(first.payloadId)
  expect(second).toMatchObject({
    index: 0,
    base: { blockNumber: first.base!.blockNumber, parentHash: first.base!.parentHash },
  })
  const { number } = chain.blocks.at(-1)!.header
  chain.restart()
  await chain.until(() => chain.blocks.at(-1)!.header.number > number)
  expect(chain.counts).not.toContain('journal_mismatch')
  expect(chain.blocks.at(-1)!.header.mixHash).toEqual(second.base!.prevRandao)
  chain.close()
})

test('controls without a valid target are refused with the reason', async () => {
  const { chain, run } = controlled()
  await run({ type: 'pause' })
  expect(await run({ type: 'reorg', depth: 0, isRequeued: true })).toMatchObject({
    reason: 'no block is in progress',
  })
  expect(await run({ type: 'equivocate', isRequeued: true })).toMatchObject({
    reason: 'no block is in progress',
  })
  await run({ type: 'step' })
  expect(await run({ type: 'equivocate', isRequeued: true })).toMatchObject({
    reason: 'no flashblock of the block in progress has transactions',
  })
  const depth = chain.blocks.length
  expect(await run({ type: 'reorg', depth, isRequeued: true })).toMatchObject({
    reason: expect.stringContaining('is final'),
  })
  expect(await run({ type: 'resume' })).toMatchObject({ done: {} })
  expect(await run({ type: 'step' })).toMatchObject({
    reason: 'the chain is not paused: dev_pause first',
  })
  chain.close()
})
