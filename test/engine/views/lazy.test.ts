/**
 * Views of a lazy directory report missing keys, and show fetched values at the next read of any
 * reader.
 */
import { expect, test } from 'vitest'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { decodeHeader } from '../../../engine/primitives/header.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import { concatBytes, ZERO_32 } from '../../../engine/primitives/words.ts'
import { encodeAccount } from '../../../engine/state/account-codec.ts'
import type { StateDiff } from '../../../engine/state/diff.ts'
import { encodeDiff } from '../../../engine/state/diff-codec.ts'
import { readAccount, readSlot } from '../../../engine/state/read.ts'
import { MissingError, type StateReader, ViewError } from '../../../engine/state/reader.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import { startLazyState } from '../../../engine/storage/lazy/directory.ts'
import { createPersistence } from '../../../engine/storage/persistence/persistence.ts'
import type { FillRow, StoredHead } from '../../../engine/storage/types.ts'
import { createViews, persistenceWords } from '../../../engine/views/arena.ts'
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
  const head = startLazyState(database, chain, startAt([first]))
  const views = createViews({ bytes: 2 ** 20, threads: 3, seed: 7, cacheEntries: 64 })
  const persistence = createPersistence({
    database,
    words: persistenceWords(views),
    now: () => 0,
    foldDepth: 0,
    undoWindow: 4,
  })
  const publisher = openPublisher(views, head)
  persistenceWords(views).setPersistedId(publisher.base.id)
  const thread = (row: number) => openViewThread({ views, store: openStore(database), thread: row })
  let parent: { handle: BlockHandle; source: SourceBlock } = {
    handle: publisher.base,
    source: first,
  }
  const publishCanonical = (canonical: BlockHandle) =>
    publisher.publish({ canonical, complete: canonical, pending: canonical, safe: 0, finalized: 0 })
  publishCanonical(publisher.base)
  return {
    thread,
    words: persistenceWords(views),
    chain: (row: number) =>
      openChainReader({
        views,
        store: openStore(database),
        thread: row,
        chain: chain as unknown as ChainSpec,
      }),
    /** Resyncs like the writer. */
    start(blocks: readonly SourceBlock[], keptUpTo: number) {
      const { id } = publisher.stored(blocks.at(-1)!)
      persistence.handle({
        ...({ type: 'begin', id, genesisNumber: FIRST } as const),
        start: { ...startAt(blocks), keptUpTo },
      })
      const [response] = persistence.step()
      if (response?.type !== 'begun') throw new Error(`it is ${response?.type}`)
      publishCanonical(publisher.unwound({ ...response.head, id, unwinds: response.unwinds }))
    },
    fill(rows: readonly FillRow[], block: StoredHead = parent.source) {
      const responses = [...persistence.handle({ type: 'fill', request: 1, block, rows })]
      while (persistence.hasWork()) responses.push(...persistence.step())
      return responses.find((response) => response.type === 'filled')
    },
    /** Publishes and appends a block; `persist` persists it. */
    block(diff: StateDiff, isPublishedAfterPersist = true) {
      const source = sourceBlock(parent.source.number + 1, parent.source.hash)
      const handle = publisher.start(parent.handle)
      const header = decodeHeader(source.header)
      const { hash } = source
      publisher.add(handle, { index: 0, diff, header, hash, transactions: [] })
      publisher.finish(handle, header, hash)
      publisher.submitForPersistence(handle)
      const { number } = source
      const ids = { id: handle.id, parentId: parent.handle.id, parentHash: parent.source.hash }
      const rows = { header: source.header, transactions: [], receipts: [], partialHeaders: [] }
      persistence.handle({
        type: 'append',
        block: { ...ids, ...rows, number, hash, diff: encodeDiff(diff) },
      })
      publisher.onResponse(handle)
      publishCanonical(handle)
      parent = { handle, source }
      return {
        persist() {
          while (persistence.hasWork()) persistence.step()
          if (!isPublishedAfterPersist) return
          publisher.persisted(handle)
          publishCanonical(handle)
        },
      }
    },
  }
}

const lease = (reader: ReturnType<ReturnType<typeof open>['thread']>) => {
  const pinned = reader.leases.lease()
  return { pinned, state: openState(reader, pinned, pinned.snapshot.canonical) }
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

test('missing keys are reported each time, and all readers see a fetched one at once', () => {
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

test('a new contract has empty storage without a fetch, in and before its block', () => {
  const node = open()
  node.fill([{ kind: 'account', address: A, value: undefined, hasNoStorage: false }])
  const before = lease(node.thread(2))
  const change = { address: A, before: undefined, after: account(1n), code: undefined }
  const slots = [{ key: KEY, before: ZERO_32, after: VALUE }]
  const block = node.block([{ ...change, slots }])
  const expectEmpty = () => {
    const { state, pinned } = lease(node.thread(1))
    expect(readSlot(state, A, KEY)).toEqual(VALUE)
    expect(readSlot(state, A, VALUE)).toEqual(ZERO_32)
    pinned.release()
    expect(nonceOf(before.state, A)).toBeUndefined()
    expect(readSlot(before.state, A, KEY)).toEqual(ZERO_32)
    expect(readSlot(before.state, A, VALUE)).toEqual(ZERO_32)
  }
  expectEmpty()
  block.persist()
  expectEmpty()
})

test('a reader overtaken by a persist pass reads history, and misses unknown keys', () => {
  const node = open()
  node.fill([
    { kind: 'account', address: A, value: encodeAccount(account(4n)), hasNoStorage: false },
  ])
  const { state } = lease(node.thread(1))
  const change = { address: A, before: account(4n), after: account(5n), code: undefined }
  node.block([{ ...change, slots: [{ key: KEY, before: VALUE, after: ZERO_32 }] }]).persist()
  expect(nonceOf(state, A)).toBe(4n)
  expect(readSlot(state, A, KEY)).toEqual(VALUE)
  expect(missing(() => nonceOf(state, B))).toMatch(/^account 0xbb/)
  // The value fetched at the new head was the same before.
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
  node.block([]).persist()
  node.block([]).persist()
  const reader = node.thread(1)
  const { pinned } = lease(reader)
  const old = { ...pinned.snapshot.canonical, height: FIRST, diffLayer: 0, tag: -1 }
  expect(node.words.takeRead(A)).toBe(false)
  expect(
    nonceOf(openState(reader, pinned, { ...old, tag: pinned.snapshot.canonical.tag }), A),
  ).toBe(4n)
  expect(node.words.takeRead(A)).toBe(true)
})

test('below the first block of a lazy state there is no state', () => {
  const node = open()
  node.block([]).persist()
  const reader = node.thread(1)
  const { pinned } = lease(reader)
  const below = { ...pinned.snapshot.canonical, height: FIRST - 1, diffLayer: 0 }
  expect(blockAt(reader.arena, pinned.snapshot.canonical, FIRST, FIRST - 1)).toBeUndefined()
  const state = openState(reader, pinned, below)
  expect(() => readAccount(state, A)).toThrow(ViewError)
  expect(() => readSlot(state, concatBytes(A), KEY)).toThrow(/state of block 49 is not kept/)
})

test('a resync voids older views, retains blocks, and a search stops at the gap', () => {
  const node = open()
  const retained = node.block([], true)
  retained.persist()
  const before = node.thread(1)
  const old = lease(before)
  const far = sourceChain(sourceBlock(FIRST + 100, ZERO_32), 257)
  node.start(far, FIRST + 1)
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
  // The blocks between the retained ones and the newest were never present.
  expect(() => spans(FIRST, FIRST + 356)).toThrow(/block 386 is not here/)
  expect(() => spans(FIRST + 1, FIRST + 2)).toThrow(/block 52 is not here/)
  release()
  old.pinned.release()
})
