/** Fetching of state: the right values at our head, once each, from whoever gives them; and an end to every wait. */
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
    ...{ address, isDeleted: false, nonce: address === 2 ? 3 : 1 },
    slots: [[0, 1] as const, [3, 2] as const],
  })),
)
const { world: W2 } = act(W1, [{ address: 0, isDeleted: false, nonce: 2, slots: [[0, 3]] }])
const [B1, B2] = [fakeBlock(1, W1), fakeBlock(2, W2)]

const account = (at: number): MissingKey => ({ kind: 'account', address: ADDRESSES[at]! })
const slot = (at: number, key: number): MissingKey => ({
  ...{ kind: 'slot', address: ADDRESSES[at]! },
  key: SLOTS[key]!,
})

/** Flat state as the keeper keeps it: rows of a block that is canonical. */
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
    ...{ moves: 0, fills: 0, isTakenBack: false },
    told: undefined as number | undefined,
  }
  const warnings: string[] = []
  const counts = new Map<string, number>()
  const fetcher = createFetcher({
    ...{ mode, store, clock, limits: DEFAULT_FETCH_LIMITS },
    upstreams: () =>
      upstreams.map((upstream) => ({
        upstream,
        depth: { state: 64, proofs: 64, takesHash: upstream.takesHash },
        head: state.told,
      })),
    head(most) {
      if (state.isTakenBack) return undefined
      return most < state.head.number ? B1 : state.head
    },
    async fill(block, filled) {
      state.fills++
      if (state.moves > 0) {
        state.moves--
        state.head = B2
        return { kept: 0 }
      }
      expect(block.number).toBe(Math.min(state.head.number, state.told ?? state.head.number))
      for (const row of filled) {
        rows.set(keyOf(row), row)
        if (row.kind === 'code') origins.set(latin1(row.hash), row.address)
      }
      return { kept: filled.length }
    },
    budget: createBudget(DEFAULT_BUDGET_LIMITS, clock),
    guesses: createGuesses(store),
    warn: (message) => warnings.push(message),
    count: (what, by) => counts.set(what, (counts.get(what) ?? 0) + by),
    ...more,
  })
  const ask = (
    keys: readonly MissingKey[],
    what: 'canonical' | 'send' | 'call' = 'send',
    signal?: AbortSignal,
  ) =>
    fetcher.fetch(keys, { what, client: 'client', signal }).then(
      () => 'done',
      (error) => (error instanceof FetchError ? error.message : `bug: ${error}`),
    )
  return { clock, upstreams, rows, state, warnings, counts, fetcher, ask }
}

/** Every row is what the world has. */
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

describe.each(['proven', 'trusted'] as const)('%s', (mode) => {
  test('gives accounts, code with them, slots and absences, at our head by its hash', async () => {
    const { clock, upstreams, rows, fetcher, ask } = open(mode)
    expect(await done(ask(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
    // Six keys and one code.
    expect(rows.size).toBe(7)
    const [one, two] = upstreams
    expect(two!.messages).toEqual([])
    for (const { params } of one!.calls)
      expect(params.at(-1)).toEqual({ blockHash: bytesToHex(B1.hash) })
    fetcher.close()
  })

  test('nothing more is asked for whom nobody waits for any more', async () => {
    const { clock, upstreams, rows, ask } = open(mode)
    const gone = new AbortController()
    const asked = ask(KEYS, 'call', gone.signal)
    gone.abort()
    expect(await done(asked, clock)).toBe('nobody waits for it any more')
    const { length } = upstreams[0]!.messages
    expect(await done(ask(KEYS, 'call', gone.signal), clock)).toBe('nobody waits for it any more')
    expect(upstreams[0]!.messages.length).toBe(length)
    // Others that want the same get it.
    expect(await done(ask(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
  })

  test('by number where hashes are refused, with a look at the hash', async () => {
    const { clock, upstreams, rows, ask } = open(mode)
    for (const upstream of upstreams) upstream.takesHash = false
    expect(await done(ask(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
    for (const message of upstreams[0]!.messages)
      expect(message.at(-1)).toEqual({ method: 'eth_getBlockByNumber', params: ['0x1', false] })
  })

  test('another block at that number is none of ours', async () => {
    const { clock, upstreams, rows, warnings, ask } = open(mode)
    for (const upstream of upstreams) {
      upstream.takesHash = false
      upstream.blocks = [fakeBlock(1, W2, 9)]
    }
    expect(await done(ask(KEYS), clock)).toBe('its block 1 is another one than ours')
    expect(rows.size).toBe(0)
    expect(warnings).toEqual([])
  })

  test('fetches again where the head moved meanwhile', async () => {
    const { clock, state, rows, counts, ask } = open(mode)
    state.moves = 1
    expect(await done(ask(KEYS), clock)).toBe('done')
    expectTruth(rows, W2)
    expect(state.fills).toBe(2)
    expect(counts.get('state_dropped')).toBeGreaterThan(0)
  })

  test('an upstream that lags is asked at its own head', async () => {
    const { clock, upstreams, rows, state, ask } = open(mode)
    for (const upstream of upstreams) upstream.blocks = [B1]
    state.head = B2
    state.told = 1
    expect(await done(ask(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
    expect(upstreams[1]!.messages).toEqual([])
  })

  test('waits while blocks are taken back', async () => {
    const { clock, upstreams, rows, state, ask } = open(mode)
    state.isTakenBack = true
    const running = ask(KEYS)
    await clock.advance(1_000)
    expect(upstreams[0]!.messages).toEqual([])
    state.isTakenBack = false
    expect(await done(running, clock)).toBe('done')
    expectTruth(rows, W1)
  })

  test('a value that cannot be is not taken, and its upstream rests', async () => {
    const { clock, upstreams, rows, warnings, counts, ask } = open(mode)
    upstreams[0]!.mischief = ({ method }) =>
      method === 'eth_getProof' ? {} : method === 'eth_getBalance' ? 'lots' : undefined
    expect(await done(ask(KEYS), clock)).toBe('done')
    expectTruth(rows, W1)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatch(/^one is not asked for state for a while: /)
    expect(counts.get('state_wrong')).toBe(1)
    const before = upstreams[0]!.messages.length
    expect(await done(ask([account(1)]), clock)).toBe('done')
    expect(upstreams[0]!.messages.length).toBe(before)
    await clock.advance(60_000)
    expect(await done(ask([slot(1, 0)]), clock)).toBe('done')
    expect(upstreams[0]!.messages.length).toBe(before + 1)
  })
})

test('a wrong value with a right proof beside it is not believed', async () => {
  const { clock, upstreams, rows, ask } = open('proven')
  const other = fakeBlock(1, W2)
  for (const upstream of upstreams)
    upstream.mischief = ({ method, params }) =>
      method === 'eth_getProof' ? other.prover.prove(ADDRESSES[0]!, []) : void params
  expect(await done(ask([account(0)]), clock)).toMatch(/eth_getProof of 0x.*accountProof\[0\]/)
  expect(rows.size).toBe(0)
})

test('code is held to its hash', async () => {
  const { clock, upstreams, ask } = open('proven')
  for (const upstream of upstreams)
    upstream.mischief = ({ method }) => (method === 'eth_getCode' ? '0x6001' : undefined)
  expect(await done(ask([account(2)]), clock)).toMatch(/^code of 0x[0-9a-f]+: its hash is not 0x/)
})

test('code alone is asked of an account that is known to have it', async () => {
  const { clock, rows, ask } = open('proven')
  const key = { kind: 'code', hash: CODE_HASH } as const
  expect(await done(ask([key]), clock)).toMatch(/^no account is known to have the code 0x/)
  expect(await done(ask([account(2)]), clock)).toBe('done')
  rows.delete(latin1(CODE_HASH))
  expect(await done(ask([key]), clock)).toBe('done')
  expect(rows.get(latin1(CODE_HASH))).toMatchObject({ code: CODE })
})

test('what is under way is asked once, but the urgent do not wait for the idle', async () => {
  const { clock, upstreams, ask } = open('proven')
  const held = Promise.withResolvers<void>()
  upstreams[0]!.wait = () => held.promise
  const calls = [ask(KEYS, 'call'), ask(KEYS, 'call'), ask([KEYS[0]!], 'call')]
  await clock.advance(10)
  expect(upstreams[0]!.messages).toHaveLength(1)
  const urgent = ask([KEYS[0]!], 'canonical')
  await clock.advance(10)
  expect(upstreams[0]!.messages).toHaveLength(2)
  held.resolve()
  expect(await done(Promise.all([...calls, urgent]).then(String), clock)).toBe(
    'done,done,done,done',
  )
})

test('what another fetch came to nothing with is fetched again', async () => {
  const { clock, upstreams, ask } = open('proven')
  const hang = Promise.withResolvers<void>()
  for (const upstream of upstreams) upstream.wait = () => hang.promise
  const first = ask([account(0)])
  await clock.advance(5_000)
  const second = ask([account(0)])
  for (const upstream of upstreams) upstream.wait = async () => {}
  await clock.advance(3_500)
  expect(await first).toMatch(/^account 0x\w+ did not come within 8000 ms$/)
  hang.resolve()
  expect(await done(second, clock)).toBe('done')
})

test('an upstream that is silent or does not have our head is asked again, and the other meanwhile', async () => {
  const { clock, upstreams, rows, ask } = open('proven')
  const [one, two] = upstreams
  one!.blocks = []
  two!.mischief = () => {
    throw failure('silent', 'two is silent')
  }
  const running = ask(KEYS)
  await clock.advance(500)
  one!.blocks = [B1]
  expect(await done(running, clock)).toBe('done')
  expectTruth(rows, W1)
})

test('one that wants fewer calls is waited for only where nobody else is left', async () => {
  const { clock, upstreams, rows, ask } = open('proven')
  const [one, two] = upstreams
  one!.mischief = () => {
    throw failure('limited', 'one wants fewer requests')
  }
  expect(await done(ask([account(0)]), clock)).toBe('done')
  expectTruth(rows, W1)
  expect(one!.options.map(({ hasOthers }) => hasOthers)).toEqual([true])
  expect(two!.options.map(({ hasOthers }) => hasOthers)).toEqual(two!.options.map(() => undefined))
  expect(two!.options.length).toBeGreaterThan(0)
})

test('a state that nobody gives is said to be so before the time is over', async () => {
  const { clock, upstreams, ask } = open('proven')
  for (const upstream of upstreams) upstream.blocks = []
  const running = ask(KEYS)
  await clock.advance(4_000)
  expect(await running).toBe('header not found')
})

test('messages are as long as the budget lets them be, and all within its rate', async () => {
  const { clock, upstreams, ask } = open('trusted')
  const keys = Array.from(
    { length: 300 },
    (_, at): MissingKey => ({
      ...{ kind: 'slot', address: ADDRESSES[at % 3]! },
      key: bigintToBytes(BigInt(at + 9_000), 32),
    }),
  )
  const running = ask(keys)
  await clock.advance(1_000)
  expect(upstreams[0]!.calls.length).toBeLessThanOrEqual(180)
  expect(await done(running, clock)).toBe('done')
  for (const message of upstreams[0]!.messages) expect(message.length).toBeLessThanOrEqual(45)
  expect(upstreams[0]!.calls).toHaveLength(300)
})

test('more keys than may be, and hashes of blocks, are refused; a node that stops answers all', async () => {
  const { clock, upstreams, fetcher, ask } = open('proven')
  const many = Array.from({ length: 1_001 }, () => account(0))
  expect(await ask(many)).toBe('1001 values are missing, at most 1000')
  expect(await ask([{ kind: 'blockHash', number: 7n }])).toMatch(/^hash of block 7 is not kept/)
  upstreams[0]!.wait = () => new Promise(() => {})
  const running = ask(KEYS)
  await clock.advance(10)
  fetcher.close()
  expect(await running).toBe('nothing is fetched any more: the node stops')
})

test('what runs of the same code have touched comes along', async () => {
  const { world } = act(
    new Map(),
    [0, 1].map((address) => ({ address, isDeleted: false, nonce: 3, slots: [] })),
  )
  const block = fakeBlock(1, world)
  const { clock, upstreams, rows, ask, state } = open('proven')
  for (const upstream of upstreams) upstream.blocks = [block]
  state.head = block
  const place = bigintToBytes(7n, 32)
  const of = (at: number, key: Uint8Array): MissingKey => ({
    ...{ kind: 'slot', address: ADDRESSES[at]!, key },
  })
  const mapping = new Uint8Array(32).fill(0xcd)
  expect(await done(ask([account(0), of(0, place), of(0, mapping)]), clock)).toBe('done')
  expect(await done(ask([account(1)]), clock)).toBe('done')
  const has = (at: number, key: Uint8Array) => rows.has(latin1(concatBytes(ADDRESSES[at]!, key)))
  expect([has(1, place), has(1, mapping)]).toEqual([true, false])
})

test('values after any block are read for who compares them, and nothing is kept', async () => {
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

test('a sample of what a block wrote is compared with the upstream’s', async () => {
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
