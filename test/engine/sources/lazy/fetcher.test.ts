/**
 * Fetching state gives the right values at our head, once each, from any upstream that has them.
 * Every wait ends.
 */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { bigintToBytes, concatBytes } from '../../../../engine/primitives/words.ts'
import { createBudget, DEFAULT_BUDGET_LIMITS } from '../../../../engine/sources/lazy/budget.ts'
import type { FetchHead } from '../../../../engine/sources/lazy/calls.ts'
import type { LazyMode } from '../../../../engine/sources/lazy/depth.ts'
import {
  createFetcher,
  DEFAULT_FETCH_LIMITS,
  FetchError,
  type FetcherOptions,
} from '../../../../engine/sources/lazy/fetcher.ts'
import { createGuesses } from '../../../../engine/sources/lazy/guesses.ts'
import { findDifference } from '../../../../engine/sources/lazy/sample.ts'
import { encodeAccount } from '../../../../engine/state/account-codec.ts'
import type { MissingKey } from '../../../../engine/state/reader.ts'
import { latin1 } from '../../../../engine/state/words.ts'
import type { FillRow } from '../../../../engine/storage/types.ts'
import {
  ADDRESSES,
  act,
  CODE,
  CODE_HASH,
  SLOTS,
  type World,
} from '../../../fixtures/chain-model.ts'
import { FakeUpstream, failure, fakeBlock } from '../../../fixtures/fake-upstream.ts'
import { handClock } from '../../../fixtures/hand-clock.ts'

const { world: W1 } = act(
  new Map(),
  [0, 1, 2].map((address) => ({
    address,
    isDeleted: false,
    nonce: address === 2 ? 3 : 1,
    slots: [[0, 1] as const, [3, 2] as const],
  })),
)
const { world: W2 } = act(W1, [{ address: 0, isDeleted: false, nonce: 2, slots: [[0, 3]] }])
const [B1, B2] = [fakeBlock(1, W1), fakeBlock(2, W2)]

const account = (at: number): MissingKey => ({ kind: 'account', address: ADDRESSES[at]! })
const slot = (at: number, key: number): MissingKey => ({
  kind: 'slot',
  address: ADDRESSES[at]!,
  key: SLOTS[key]!,
})

/** Makes flat state like the persistence thread: rows of a canonical block. */
function open(mode: LazyMode = 'proven', more: Partial<FetcherOptions> = {}) {
  const clock = handClock()
  const upstreams = ['one', 'two'].map((name) => new FakeUpstream(name, [B1, B2]))
  const rows = new Map<string, FillRow>()
  const origins = new Map<string, Uint8Array>()
  const keyOf = (row: FillRow) =>
    row.kind === 'account'
      ? latin1(row.address)
      : row.kind === 'slot'
        ? latin1(concatBytes(row.address, row.key))
        : row.kind === 'code'
          ? latin1(row.hash)
          : `${row.number}`
  const valueAt = (name: string) => {
    const row = rows.get(name)
    return row === undefined ? 'missing' : 'value' in row ? row.value : undefined
  }
  const store = {
    flatAccount: (address: Uint8Array) => valueAt(latin1(address)),
    flatSlot: (key: Uint8Array) => valueAt(latin1(key)),
    code(hash: Uint8Array) {
      const row = rows.get(latin1(hash))
      return row?.kind === 'code' ? row.code : undefined
    },
    codeOrigin: (hash: Uint8Array) => origins.get(latin1(hash)),
  }
  const state = {
    head: B1 as FetchHead,
    moves: 0,
    fills: 0,
    isTakenBack: false,
    reported: undefined as number | undefined,
  }
  const warnings: string[] = []
  const counts = new Map<string, number>()
  const fetcher = createFetcher({
    mode,
    store,
    clock,
    limits: DEFAULT_FETCH_LIMITS,
    upstreams: () =>
      upstreams.map((upstream) => ({
        upstream,
        depth: { state: 64, proofs: 64, takesHash: upstream.takesHash },
        head: state.reported,
      })),
    head(max) {
      if (state.isTakenBack) return undefined
      return max < state.head.number ? B1 : state.head
    },
    async fill(block, filled) {
      state.fills++
      if (state.moves > 0) {
        state.moves--
        state.head = B2
        return { written: 0 }
      }
      expect(block.number).toBe(Math.min(state.head.number, state.reported ?? state.head.number))
      for (const row of filled) {
        rows.set(keyOf(row), row)
        if (row.kind === 'code') origins.set(latin1(row.hash), row.address)
      }
      return { written: filled.length }
    },
    budget: createBudget(DEFAULT_BUDGET_LIMITS, clock),
    guesses: createGuesses(store),
    warn: (message) => warnings.push(message),
    count: (what, by) => counts.set(what, (counts.get(what) ?? 0) + by),
    ...more,
  })
  const request = (
    keys: readonly MissingKey[],
    what: 'canonical' | 'send' | 'call' = 'send',
    signal?: AbortSignal,
  ) =>
    fetcher.fetch(keys, { what, client: 'client', signal }).then(
      () => 'done',
      (error) => (error instanceof FetchError ? error.message : `bug: ${error}`),
    )
  return { clock, upstreams, rows, state, warnings, counts, fetcher, request }
}

/** Checks that every row has the world's value. */
function expectTruth(rows: ReadonlyMap<string, FillRow>, world: World) {
  for (const row of rows.values())
    if (row.kind === 'account') {
      const known = world.get(latin1(row.address))
      expect(row.value).toEqual(known && encodeAccount(known.account))
    } else if (row.kind === 'slot')
      expect(row.value).toEqual(world.get(latin1(row.address))?.slots.get(latin1(row.key)))
    else if (row.kind === 'code') expect(row).toMatchObject({ hash: CODE_HASH, code: CODE })
}

const KEYS = [account(0), account(2), account(5), slot(0, 0), slot(0, 1), slot(2, 3)]
const done = async (running: Promise<string>, clock: ReturnType<typeof handClock>) => {
  await clock.advance(20_000)
  return running
}

describe.each(['proven', 'trusted'] as const)('the fetcher in %s mode', (mode) => {
  test('fetches accounts, code, slots and absent values at our head by block hash', async () => {
    const { clock, upstreams, rows, fetcher, request } = open(mode)
    expect(await done(request(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
    // The rows are six keys and one code.
    expect(rows.size).toBe(7)
    const [one, two] = upstreams
    expect(two!.messages).toEqual([])
    for (const { params } of one!.calls)
      expect(params.at(-1)).toEqual({ blockHash: bytesToHex(B1.hash) })
    fetcher.close()
  })

  test('sends nothing more for a request that was aborted', async () => {
    const { clock, upstreams, rows, request } = open(mode)
    const gone = new AbortController()
    const requested = request(KEYS, 'call', gone.signal)
    gone.abort()
    expect(await done(requested, clock)).toBe('nobody waits for it any more')
    const { length } = upstreams[0]!.messages
    expect(await done(request(KEYS, 'call', gone.signal), clock)).toBe(
      'nobody waits for it any more',
    )
    expect(upstreams[0]!.messages.length).toBe(length)
    // Other requests for the same keys get them.
    expect(await done(request(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
  })

  test('asks by number and checks the block hash where the upstream refuses hashes', async () => {
    const { clock, upstreams, rows, request } = open(mode)
    for (const upstream of upstreams) upstream.takesHash = false
    expect(await done(request(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
    for (const message of upstreams[0]!.messages)
      expect(message.at(-1)).toEqual({ method: 'eth_getBlockByNumber', params: ['0x1', false] })
  })

  test('refuses state of an upstream that has another block at that number', async () => {
    const { clock, upstreams, rows, warnings, request } = open(mode)
    for (const upstream of upstreams) {
      upstream.takesHash = false
      upstream.blocks = [fakeBlock(1, W2, 9)]
    }
    expect(await done(request(KEYS), clock)).toBe('its block 1 is another one than ours')
    expect(rows.size).toBe(0)
    expect(warnings).toEqual([])
  })

  test('fetches again when the head moves during the fetch', async () => {
    const { clock, state, rows, counts, request } = open(mode)
    state.moves = 1
    expect(await done(request(KEYS), clock)).toBe('done')
    expectTruth(rows, W2)
    expect(state.fills).toBe(2)
    expect(counts.get('state_dropped')).toBeGreaterThan(0)
  })

  test('asks an upstream that lags at the head of that upstream', async () => {
    const { clock, upstreams, rows, state, request } = open(mode)
    for (const upstream of upstreams) upstream.blocks = [B1]
    state.head = B2
    state.reported = 1
    expect(await done(request(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
    expect(upstreams[1]!.messages).toEqual([])
  })

  test('sends nothing while blocks are taken back', async () => {
    const { clock, upstreams, rows, state, request } = open(mode)
    state.isTakenBack = true
    const running = request(KEYS)
    await clock.advance(1_000)
    expect(upstreams[0]!.messages).toEqual([])
    state.isTakenBack = false
    expect(await done(running, clock)).toBe('done')
    expectTruth(rows, W1)
  })

  test('refuses a malformed value and backs off from its upstream', async () => {
    const { clock, upstreams, rows, warnings, counts, request } = open(mode)
    upstreams[0]!.mischief = ({ method }) =>
      method === 'eth_getProof' ? {} : method === 'eth_getBalance' ? 'lots' : undefined
    expect(await done(request(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatch(/^one is not asked for state for a while: /)
    expect(counts.get('state_wrong')).toBe(1)
    const before = upstreams[0]!.messages.length
    expect(await done(request([account(1)]), clock)).toBe('done')
    expect(upstreams[0]!.messages.length).toBe(before)
    await clock.advance(60_000)
    expect(await done(request([slot(1, 0)]), clock)).toBe('done')
    expect(upstreams[0]!.messages.length).toBe(before + 1)
  })
})

test('a valid proof of another state does not prove a value at our head', async () => {
  const { clock, upstreams, rows, request } = open('proven')
  const other = fakeBlock(1, W2)
  for (const upstream of upstreams)
    upstream.mischief = ({ method, params }) =>
      method === 'eth_getProof' ? other.prover.prove(ADDRESSES[0]!, []) : void params
  expect(await done(request([account(0)]), clock)).toMatch(/eth_getProof of 0x.*accountProof\[0\]/)
  expect(rows.size).toBe(0)
})

test('code with another hash is refused', async () => {
  const { clock, upstreams, request } = open('proven')
  for (const upstream of upstreams)
    upstream.mischief = ({ method }) => (method === 'eth_getCode' ? '0x6001' : undefined)
  expect(await done(request([account(2)]), clock)).toMatch(
    /^code of 0x[0-9a-f]+: its hash is not 0x/,
  )
})

test('code alone is fetched through an account that is known to have it', async () => {
  const { clock, rows, request } = open('proven')
  const key = { kind: 'code', hash: CODE_HASH } as const
  expect(await done(request([key]), clock)).toMatch(/^no account is known to have the code 0x/)
  expect(await done(request([account(2)]), clock)).toBe('done')
  rows.delete(latin1(CODE_HASH))
  expect(await done(request([key]), clock)).toBe('done')
  expect(rows.get(latin1(CODE_HASH))).toMatchObject({ code: CODE })
})

test('keys are fetched once, but an urgent request does not wait for a call', async () => {
  const { clock, upstreams, request } = open('proven')
  const blocked = Promise.withResolvers<void>()
  upstreams[0]!.wait = () => blocked.promise
  const calls = [request(KEYS, 'call'), request(KEYS, 'call'), request([KEYS[0]!], 'call')]
  await clock.advance(10)
  expect(upstreams[0]!.messages).toHaveLength(1)
  const urgent = request([KEYS[0]!], 'canonical')
  await clock.advance(10)
  expect(upstreams[0]!.messages).toHaveLength(2)
  blocked.resolve()
  expect(await done(Promise.all([...calls, urgent]).then(String), clock)).toBe(
    'done,done,done,done',
  )
})

test('keys that another fetch did not get in time are fetched again', async () => {
  const { clock, upstreams, request } = open('proven')
  const hang = Promise.withResolvers<void>()
  for (const upstream of upstreams) upstream.wait = () => hang.promise
  const first = request([account(0)])
  await clock.advance(5_000)
  const second = request([account(0)])
  for (const upstream of upstreams) upstream.wait = async () => {}
  await clock.advance(3_500)
  expect(await first).toMatch(/^account 0x\w+ did not come within 8000 ms$/)
  hang.resolve()
  expect(await done(second, clock)).toBe('done')
})

test('a fetch retries an upstream that fails or lacks our head, and tries the other', async () => {
  const { clock, upstreams, rows, request } = open('proven')
  const [one, two] = upstreams
  one!.blocks = []
  two!.mischief = () => {
    throw failure('silent', 'two is silent')
  }
  const running = request(KEYS)
  await clock.advance(500)
  one!.blocks = [B1]
  expect(await done(running, clock)).toBe('done')
  expectTruth(rows, W1)
})

test('a rate-limited upstream is waited for only if there is no other', async () => {
  const { clock, upstreams, rows, request } = open('proven')
  const [one, two] = upstreams
  one!.mischief = () => {
    throw failure('limited', 'one wants fewer requests')
  }
  expect(await done(request([account(0)]), clock)).toBe('done')
  expectTruth(rows, W1)
  expect(one!.options.map(({ hasOthers }) => hasOthers)).toEqual([true])
  expect(two!.options.map(({ hasOthers }) => hasOthers)).toEqual(two!.options.map(() => undefined))
  expect(two!.options.length).toBeGreaterThan(0)
})

test('a fetch fails before its deadline when no upstream has the state', async () => {
  const { clock, upstreams, request } = open('proven')
  for (const upstream of upstreams) upstream.blocks = []
  const running = request(KEYS)
  await clock.advance(4_000)
  expect(await running).toBe('header not found')
})

test('batches are as long as the budget allows, and stay within its rate', async () => {
  const { clock, upstreams, request } = open('trusted')
  const keys = Array.from(
    { length: 300 },
    (_, at): MissingKey => ({
      kind: 'slot',
      address: ADDRESSES[at % 3]!,
      key: bigintToBytes(BigInt(at + 9_000), 32),
    }),
  )
  const running = request(keys)
  await clock.advance(1_000)
  expect(upstreams[0]!.calls.length).toBeLessThanOrEqual(180)
  expect(await done(running, clock)).toBe('done')
  for (const message of upstreams[0]!.messages) expect(message.length).toBeLessThanOrEqual(45)
  expect(upstreams[0]!.calls).toHaveLength(300)
})

test('too many keys, block hashes and fetches of a closed node are refused', async () => {
  const { clock, upstreams, fetcher, request } = open('proven')
  const many = Array.from({ length: 1_001 }, () => account(0))
  expect(await request(many)).toBe('1001 values are missing, at most 1000')
  expect(await request([{ kind: 'blockHash', number: 7n }])).toMatch(/^hash of block 7 is not kept/)
  upstreams[0]!.wait = () => new Promise(() => {})
  const running = request(KEYS)
  await clock.advance(10)
  fetcher.close()
  expect(await running).toBe('nothing is fetched any more: the node stops')
})

test('slots that other contracts with the same code used are fetched with an account', async () => {
  const { world } = act(
    new Map(),
    [0, 1].map((address) => ({ address, isDeleted: false, nonce: 3, slots: [] })),
  )
  const block = fakeBlock(1, world)
  const { clock, upstreams, rows, request, state } = open('proven')
  for (const upstream of upstreams) upstream.blocks = [block]
  state.head = block
  const slot = bigintToBytes(7n, 32)
  const of = (at: number, key: Uint8Array): MissingKey => ({
    kind: 'slot',
    address: ADDRESSES[at]!,
    key,
  })
  const mapping = new Uint8Array(32).fill(0xcd)
  expect(await done(request([account(0), of(0, slot), of(0, mapping)]), clock)).toBe('done')
  expect(await done(request([account(1)]), clock)).toBe('done')
  const has = (at: number, key: Uint8Array) => rows.has(latin1(concatBytes(ADDRESSES[at]!, key)))
  expect([has(1, slot), has(1, mapping)]).toEqual([true, false])
})

test('reads of values after a block return them and store nothing', async () => {
  const { clock, upstreams, rows, fetcher } = open('trusted')
  const keys = [
    { kind: 'account', address: ADDRESSES[0]! },
    { kind: 'slot', address: ADDRESSES[0]!, key: SLOTS[0]! },
  ] as const
  const payer = { what: 'flashblock', client: '' } as const
  const of = ({ account, slots }: NonNullable<ReturnType<World['get']>>) => [
    { ...keys[0], value: encodeAccount(account), hasNoStorage: false },
    { ...keys[1], value: slots.get(latin1(SLOTS[0]!)) },
  ]
  for (const block of [B1, B2]) {
    const expected = of(block.world.get(latin1(ADDRESSES[0]!))!)
    expect(await fetcher.read(keys, block, payer)).toEqual(expected)
  }
  expect(rows.size).toBe(0)
  for (const upstream of upstreams) upstream.mischief = () => 'nonsense'
  const failing = expect(fetcher.read(keys, B1, payer)).rejects.toThrow(FetchError)
  await clock.advance(0)
  await failing
})

test('a difference between sampled values of a block and the upstream is named', async () => {
  const { fetcher } = open('trusted')
  const sampled = (world: World) => [
    {
      key: { kind: 'account', address: ADDRESSES[0]! } as const,
      value: encodeAccount(world.get(latin1(ADDRESSES[0]!))!.account),
    },
    {
      key: { kind: 'slot', address: ADDRESSES[0]!, key: SLOTS[0]! } as const,
      value: world.get(latin1(ADDRESSES[0]!))?.slots.get(latin1(SLOTS[0]!)),
    },
    { key: { kind: 'account', address: ADDRESSES[5]! } as const, value: undefined },
  ]
  expect(await findDifference(fetcher, B1, sampled(W1))).toBeUndefined()
  expect(await findDifference(fetcher, B2, sampled(W2))).toBeUndefined()
  expect(await findDifference(fetcher, B1, sampled(W2))).toMatch(
    /^account 0x\w+ after block 1 is 0x\w+ here and 0x\w+ at the upstream$/,
  )
  expect(await findDifference(fetcher, B2, [{ ...sampled(W2)[1]!, value: undefined }])).toMatch(
    /^slot 0x\w+ of 0x\w+ after block 2 is absent here and 0x\w+ at the upstream$/,
  )
})
