/** Views of a lazy directory: what is missing is said, what is fetched is seen at the next read, whoever reads. */
import { expect, test } from 'vitest'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { decodeHeader } from '../../../engine/primitives/header-codec.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import { concatBytes, ZERO_32 } from '../../../engine/primitives/words.ts'
import { encodeAccount } from '../../../engine/state/account-codec.ts'
import type { StateDiff } from '../../../engine/state/diff.ts'
import { encodeDiff } from '../../../engine/state/diff-codec.ts'
import { readAccount, readSlot } from '../../../engine/state/read.ts'
import { MissingError, type StateReader, ViewError } from '../../../engine/state/reader.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import { createKeeper } from '../../../engine/storage/keeper/keeper.ts'
import { beginLazy } from '../../../engine/storage/lazy/begin.ts'
import type { FillRow, StoredHead } from '../../../engine/storage/types.ts'
import { createViews, keeperWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { openState, openViewThread } from '../../../engine/views/reader.ts'
import type { BlockHandle } from '../../../engine/views/types.ts'
import { blockAt } from '../../../engine/views/walk.ts'
import { type SourceBlock, sourceBlock, sourceChain, startAt } from '../../fixtures/lazy-chain.ts'

const FIRST = 50
const A: Bytes = new Uint8Array(20).fill(0xaa)
const B: Bytes = new Uint8Array(20).fill(0xbb)
const KEY: Bytes = new Uint8Array(32).fill(1)
const VALUE: Bytes = new Uint8Array(32).fill(2)
const account = (nonce: bigint) => ({ nonce, balance: 5n, codeHash: EMPTY_HASH })
const chain = {
  name: 'model',
  genesisNumber: BigInt(FIRST),
  rulesAt: () => ({ keepsDestroyed: true }) as never,
}

function open() {
  const database = memoryDatabase()
  const first = sourceBlock(FIRST, ZERO_32)
  const head = beginLazy(database, chain, startAt([first]))
  const views = createViews({ bytes: 2 ** 20, threads: 3, seed: 7, cacheEntries: 64 })
  const keeper = createKeeper({
    ...{ database, words: keeperWords(views), now: () => 0, foldDepth: 0, undoWindow: 4 },
  })
  const publisher = openPublisher(views, head)
  keeperWords(views).setFold(publisher.base.id)
  const thread = (row: number) => openViewThread({ views, store: openStore(database), thread: row })
  let parent: { handle: BlockHandle; source: SourceBlock } = {
    handle: publisher.base,
    source: first,
  }
  const show = (canonical: BlockHandle) =>
    publisher.publish({ canonical, complete: canonical, pending: canonical, safe: 0, finalized: 0 })
  show(publisher.base)
  return {
    thread,
    words: keeperWords(views),
    chain: (row: number) =>
      openChainReader({
        ...{ views, store: openStore(database), thread: row },
        chain: chain as unknown as ChainSpec,
      }),
    /** As the writer does it. */
    begin(blocks: readonly SourceBlock[], keptUpTo: number) {
      const { id } = publisher.stored(blocks.at(-1)!)
      keeper.handle({
        ...({ type: 'begin', id, genesisNumber: FIRST } as const),
        start: { ...startAt(blocks), keptUpTo },
      })
      const [answer] = keeper.step()
      if (answer?.type !== 'begun') throw new Error(`it is ${answer?.type}`)
      show(publisher.unfolded({ ...answer.head, id, unfolds: answer.unfolds }))
    },
    fill(rows: readonly FillRow[], block: StoredHead = parent.source) {
      const answers = [...keeper.handle({ type: 'fill', request: 1, block, rows })]
      while (keeper.hasWork()) answers.push(...keeper.step())
      return answers.find((answer) => answer.type === 'filled')
    },
    /** Published and appended; `fold` folds it. */
    block(diff: StateDiff, isPublishedAfterFold = true) {
      const source = sourceBlock(parent.source.number + 1, parent.source.hash)
      const handle = publisher.begin(parent.handle)
      const header = decodeHeader(source.header)
      const { hash } = source
      publisher.add(handle, { index: 0, diff, header, hash, transactions: [] })
      publisher.finish(handle, header, hash)
      publisher.handOver(handle)
      const { number } = source
      const ids = { id: handle.id, parentId: parent.handle.id, parentHash: parent.source.hash }
      const rows = { header: source.header, transactions: [], receipts: [], momentary: [] }
      keeper.handle({
        type: 'append',
        block: { ...ids, ...rows, number, hash, diff: encodeDiff(diff) },
      })
      publisher.answered(handle)
      show(handle)
      parent = { handle, source }
      return {
        fold() {
          while (keeper.hasWork()) keeper.step()
          if (!isPublishedAfterFold) return
          publisher.folded(handle)
          show(handle)
        },
      }
    },
  }
}

const lease = (reader: ReturnType<ReturnType<typeof open>['thread']>) => {
  const held = reader.leases.lease()
  return { held, state: openState(reader, held, held.record.canonical) }
}
const missing = (work: () => unknown): string => {
  try {
    return `found ${JSON.stringify(work())}`
  } catch (error) {
    if (error instanceof MissingError) return error.what
    throw error
  }
}
const nonceOf = (state: StateReader, address: Bytes) => readAccount(state, address)?.nonce

test('missing is said each time, and what was fetched is seen at once by all', () => {
  const node = open()
  const [one, two] = [lease(node.thread(1)), lease(node.thread(2))]
  for (const { state } of [one, two, one]) {
    expect(missing(() => nonceOf(state, A))).toBe(`account 0x${'aa'.repeat(20)}`)
    expect(missing(() => readSlot(state, A, KEY))).toMatch(/^slot 0x0101/)
  }
  node.fill([
    { kind: 'account', address: A, value: encodeAccount(account(4n)), hasNoStorage: false },
    { kind: 'account', address: B, value: undefined, hasNoStorage: true },
    { kind: 'slot', address: A, key: KEY, value: VALUE },
  ])
  for (const { state } of [one, two, one]) {
    expect(nonceOf(state, A)).toBe(4n)
    expect(nonceOf(state, B)).toBeUndefined()
    expect(readSlot(state, A, KEY)).toEqual(VALUE)
    expect(readSlot(state, B, KEY)).toEqual(ZERO_32)
    expect(missing(() => readSlot(state, A, VALUE))).toMatch(/^slot 0x0202/)
  }
})

test('a contract that is created has empty storage without a fetch: in its block, folded, and before it', () => {
  const node = open()
  node.fill([{ kind: 'account', address: A, value: undefined, hasNoStorage: false }])
  const before = lease(node.thread(2))
  const change = { address: A, before: undefined, after: account(1n), code: undefined }
  const slots = [{ key: KEY, before: ZERO_32, after: VALUE }]
  const block = node.block([{ ...change, slots }])
  const expectEmpty = () => {
    const { state, held } = lease(node.thread(1))
    expect(readSlot(state, A, KEY)).toEqual(VALUE)
    expect(readSlot(state, A, VALUE)).toEqual(ZERO_32)
    held.release()
    expect(nonceOf(before.state, A)).toBeUndefined()
    expect(readSlot(before.state, A, KEY)).toEqual(ZERO_32)
    expect(readSlot(before.state, A, VALUE)).toEqual(ZERO_32)
  }
  expectEmpty()
  block.fold()
  expectEmpty()
})

test('a reader that a fold overtook reads history, and misses what nobody knows', () => {
  const node = open()
  node.fill([
    { kind: 'account', address: A, value: encodeAccount(account(4n)), hasNoStorage: false },
  ])
  const { state } = lease(node.thread(1))
  const change = { address: A, before: account(4n), after: account(5n), code: undefined }
  node.block([{ ...change, slots: [{ key: KEY, before: VALUE, after: ZERO_32 }] }]).fold()
  expect(nonceOf(state, A)).toBe(4n)
  expect(readSlot(state, A, KEY)).toEqual(VALUE)
  expect(missing(() => nonceOf(state, B))).toMatch(/^account 0xbb/)
  // What is fetched at the new head was the same before it.
  node.fill([
    { kind: 'account', address: B, value: encodeAccount(account(9n)), hasNoStorage: false },
  ])
  expect(nonceOf(state, B)).toBe(9n)
})

test('a value that is read in an old block counts as read', () => {
  const node = open()
  node.fill([
    { kind: 'account', address: A, value: encodeAccount(account(4n)), hasNoStorage: false },
  ])
  node.block([]).fold()
  node.block([]).fold()
  const reader = node.thread(1)
  const { held } = lease(reader)
  const old = { ...held.record.canonical, height: FIRST, table: 0, tag: -1 }
  expect(node.words.takeRead(A)).toBe(false)
  expect(nonceOf(openState(reader, held, { ...old, tag: held.record.canonical.tag }), A)).toBe(4n)
  expect(node.words.takeRead(A)).toBe(true)
})

test('below its first block there is no state', () => {
  const node = open()
  node.block([]).fold()
  const reader = node.thread(1)
  const { held } = lease(reader)
  const below = { ...held.record.canonical, height: FIRST - 1, table: 0 }
  expect(blockAt(reader.arena, held.record.canonical, FIRST, FIRST - 1)).toBeUndefined()
  const state = openState(reader, held, below)
  expect(() => readAccount(state, A)).toThrow(ViewError)
  expect(() => readSlot(state, concatBytes(A), KEY)).toThrow(/state of block 49 is not kept/)
})

test('begun anew: older views are void, kept blocks are readable, and no search goes over the hole', () => {
  const node = open()
  const kept = node.block([], true)
  kept.fold()
  const before = node.thread(1)
  const old = lease(before)
  const far = sourceChain(sourceBlock(FIRST + 100, ZERO_32), 257)
  node.begin(far, FIRST + 1)
  expect(() => readAccount(old.state, A)).toThrow(ViewError)
  const { view, release } = node.chain(2).lease('standard')
  expect(view.canonical.number).toBe(BigInt(FIRST + 356))
  expect(view.block({ number: BigInt(FIRST + 1) })?.logSummaries()).toEqual([])
  expect(() => view.block({ number: BigInt(FIRST + 2) })).toThrow(/block 52 is not here/)
  const spans = (first: number, last: number) => [
    ...view.logSpans([], { first: BigInt(first), last: BigInt(last) }),
  ]
  expect(spans(FIRST, FIRST + 1).length).toBeGreaterThan(0)
  expect(spans(FIRST + 337, FIRST + 356).length).toBeGreaterThan(0)
  // From kept blocks to the newest: what is between was never here.
  expect(() => spans(FIRST, FIRST + 356)).toThrow(/block 386 is not here/)
  expect(() => spans(FIRST + 1, FIRST + 2)).toThrow(/block 52 is not here/)
  release()
  old.held.release()
})
