/**
 * Some results outlive a flashblock. Whatever was cached, the response must be the one that a new
 * run of the call would give.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChainReader, ChainView, LeasedView } from '../../../engine/chain/types.ts'
import type { Engine } from '../../../engine/evm/engine.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { ChangingChain, type Fields, NOTHING, type Pinned } from '../../fixtures/changing-chain.ts'
import { pieceOf, programOf } from '../../fixtures/reading-programs.ts'
import { testRpc } from '../../fixtures/rpc.ts'

const filled = (byte: number) => new Uint8Array(20).fill(byte)
const CONTRACTS = [filled(0xc1), filled(0xc2), filled(0xc3)]
/** The addresses that the first two contracts create by CREATE2, without code and salt. */
const MADE = CONTRACTS.slice(0, 2).map((by) =>
  keccak256(
    concatBytes(Uint8Array.of(0xff), by, new Uint8Array(32), keccak256(new Uint8Array(0))),
  ).slice(12),
)
const DELEGATING = filled(0xde)
const [SENDER, MINER] = [filled(0xa1), filled(0xa2)]
const ADDRESSES = [...CONTRACTS, ...MADE, DELEGATING, SENDER, MINER]

/** Histories contain this code. */
const code = fc
  .tuple(
    fc.array(pieceOf(ADDRESSES), { minLength: 1, maxLength: 6 }),
    fc.constantFrom('RETURN', 'RETURN', 'RETURN', 'REVERT'),
  )
  .map(([pieces, ending]) => programOf(pieces, ending as 'RETURN' | 'REVERT'))
const delegation = fc
  .constantFrom(...CONTRACTS)
  .map((to) => concatBytes(Uint8Array.of(0xef, 1, 0), to))
const change = fc.record({
  at: fc.oneof(fc.nat(ADDRESSES.length - 1), fc.nat(CONTRACTS.length - 1)),
  slot: fc.nat(3),
  value: fc.nat(2),
  what: fc.constantFrom('slot', 'slot', 'slot', 'balance', 'nonce', 'code', 'none', 'touch'),
  program: fc.nat(7),
})
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never

const JOVIAN = 1_764_691_201n
/** Draws the first value mostly. */
const mostly = <T>(usual: T, ...others: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 8, arbitrary: fc.constant(usual) }, fc.constantFrom(...others))
const fields: fc.Arbitrary<Fields> = fc.record({
  timestamp: mostly(JOVIAN + 1n, JOVIAN - 1n).chain((at) => fc.constantFrom(at, at, at + 1n)),
  gasLimit: mostly(30_000_000n, 20_000_000n),
  baseFeePerGas: fc.constantFrom(7n, 7n, 8n),
  coinbase: mostly(MINER, SENDER),
  mixHash: fc.constantFrom(1, 1, 2).map((byte) => new Uint8Array(32).fill(byte)),
})
const step = fc.record({
  kind: fc.constantFrom(
    ...['flashblock', 'flashblock', 'flashblock', 'flashblock', 'flashblock', 'flashblock'],
    ...['flashblock', 'flashblock', 'flashblock', 'flashblock', 'next', 'next', 'next'],
    ...['seal', 'flush', 'again', 'confirm', 'replace', 'fold'],
  ),
  changes: fc.array(change, { maxLength: 2 }),
  fields,
})
const request = fc.record({
  method: fc.constantFrom('eth_call', 'eth_call', 'eth_estimateGas'),
  call: fc.record(
    {
      from: fc.constantFrom(SENDER, SENDER, MINER).map(bytesToHex),
      to: fc.constantFrom(...CONTRACTS, DELEGATING, MADE[0]!).map(bytesToHex),
      value: mostly('0x0', '0x1'),
      gas: fc.constantFrom('0x30d40', '0xf4240'),
      gasPrice: mostly('0x0', '0x7', '0x8'),
      data: fc.constantFrom('0x', '0x00'),
    },
    { requiredKeys: ['to'] },
  ),
  block: fc.constantFrom('pending', 'pending', 'latest'),
  state: mostly(undefined, { balance: '0x5' }, { stateDiff: slotText(1) }, { state: slotText(1) }),
  header: mostly(undefined, { number: '0x3ed' }, {}),
  endpoint: fc.constantFrom('flashblocks', 'flashblocks', 'standard'),
})
function slotText(slot: number) {
  const of = (n: number) => `0x${n.toString(16).padStart(64, '0')}`
  return { [of(slot)]: of(2) }
}
const history = fc.record({
  programs: fc.array(fc.oneof({ weight: 4, arbitrary: code }, delegation), {
    minLength: 8,
    maxLength: 8,
  }),
  requests: fc.array(request, { minLength: 2, maxLength: 5 }),
  steps: fc.array(step, { minLength: 6, maxLength: 16 }),
})
type History = typeof history extends fc.Arbitrary<infer T> ? T : never

/** Makes the start state of the three contracts and of the delegating account. */
const first = (programs: readonly Bytes[]): Pinned[] =>
  ADDRESSES.map((_, at) => {
    if (at < 3) return { nonce: 1, balance: 3n, code: programs[at]!, slots: [0, 1, 0, 1] }
    if (at === 5) return { ...NOTHING, nonce: 1, code: concatBytes(DELEGATION, CONTRACTS[0]!) }
    return at === 6 ? { ...NOTHING, balance: 10n ** 18n } : NOTHING
  })
const DELEGATION = Uint8Array.of(0xef, 1, 0)

function changed(world: readonly Pinned[], changes: readonly Change[], { programs }: History) {
  const next = [...world]
  for (const { at, slot, value, what, program } of changes) {
    const was = next[at]!
    const slots = was.slots.map((old, flashblockId) => (flashblockId === slot ? value : old))
    if (what === 'touch') next[at] = { ...was }
    else if (what === 'none') next[at] = NOTHING
    else if (what === 'slot') next[at] = { ...was, slots }
    else if (what === 'balance') next[at] = { ...was, balance: BigInt(value) * 10n ** 17n }
    else if (what === 'nonce') next[at] = { ...was, nonce: value }
    else next[at] = { ...was, nonce: 1, code: programs[program]! }
  }
  return next
}

/** A mutation switches off a part of the product. */
type Mutation = {
  readonly view?: (view: ChainView) => Partial<ChainView>
  readonly fieldsRead?: () => number
}

function mutated(reader: ChainReader, { view }: Mutation): ChainReader {
  if (view === undefined) return reader
  const of = (leased: LeasedView): LeasedView => ({
    ...leased,
    view: { ...leased.view, ...view(leased.view) },
  })
  return {
    ...reader,
    lease: (endpoint) => of(reader.lease(endpoint)),
    adopt(snapshot, endpoint) {
      const leased = reader.adopt(snapshot, endpoint)
      return leased && of(leased)
    },
  }
}
function blind(engine: Engine, { fieldsRead }: Mutation): Engine {
  if (fieldsRead === undefined) return engine
  return {
    ...engine,
    openSession: (...given) => ({ ...engine.openSession(...given), fieldsRead }),
  }
}

/**
 * Runs a history: each request after each step, with the cache and without.
 * @returns the counts of the cache
 */
async function play(one: History, engine: Engine, mutation: Mutation = {}) {
  const chain = new ChangingChain(ADDRESSES)
  const { reader, onPublish } = chain
  const options = { chain: chain.chain, engine }
  const source = { reader: mutated(reader, mutation), onPublish }
  const cached = testRpc({ ...options, engine: blind(engine, mutation), source })
  const fresh = testRpc({
    ...options,
    source: { reader, onPublish },
    limits: { resultCacheItems: 0, resultCacheReads: 0 },
  })
  chain.payload({ timestamp: JOVIAN + 1n }, first(one.programs))
  chain.seal()
  chain.confirm()
  chain.payload({ timestamp: JOVIAN + 1n }, chain.pending.world)
  chain.publish()
  for (const [at, of] of one.steps.entries()) {
    move(chain, of, one)
    chain.publish()
    for (const { method, call, block, state, header, endpoint } of one.requests) {
      const overrides = state && { [bytesToHex(CONTRACTS[1]!)]: state }
      const params = [call, block, overrides ?? null, ...(header === undefined ? [] : [header])]
      const client = { endpoint } as const
      const [a, b] = [
        await cached.request(method, params, client),
        await fresh.request(method, params, client),
      ]
      if (JSON.stringify(a) !== JSON.stringify(b))
        throw new Error(`after step ${at}: kept ${JSON.stringify(a)}, fresh ${JSON.stringify(b)}`)
    }
  }
  expect([...cached.bugs, ...fresh.bugs]).toEqual([])
  return cached.stats().cache
}

function move(chain: ChangingChain, of: History['steps'][number], one: History): void {
  const { kind, changes, fields: at } = of
  const next = () => changed(chain.pending.world, changes, one)
  if (kind === 'flashblock') chain.flashblock(next())
  else if (kind === 'seal') chain.seal()
  else if (kind === 'flush') chain.flush()
  else if (kind === 'confirm') chain.confirm()
  else if (kind === 'fold') chain.persist()
  else if (kind === 'replace') chain.replace(at, changed(chain.canonical.world, changes, one))
  else {
    if (kind === 'next') chain.seal()
    chain.payload(at, changed(chain.complete.world, changes, one))
  }
}

describe.each(['fast', 'reference'] as const)('the result cache on the %s engine', (name) => {
  const engine = engineByName(name)
  test('gives the results that new runs of the calls would give', async () => {
    const sum = { carried: 0, written: 0, block: 0, chain: 0 }
    await fc.assert(
      fc.asyncProperty(history, async (one) => {
        const { carried, dropped } = await play(one, engine)
        sum.carried += carried
        sum.written += dropped.written
        sum.block += dropped.block
        sum.chain += dropped.chain
      }),
      { numRuns: name === 'fast' ? 150 : 40 },
    )
    for (const count of Object.values(sum)) expect(count).toBeGreaterThan(0)
  })
})

const raw =
  (read: 'account' | 'slot' | 'hasSlots'): NonNullable<Mutation['view']> =>
  (view) => ({
    recordingReads: (state, reads) => ({
      ...view.recordingReads(state, reads),
      [read]: state[read],
    }),
  })

test('a response that is reused is reported with the snapshot that reuses it', async () => {
  const chain = new ChangingChain(ADDRESSES)
  const { reader, onPublish } = chain
  const reported: unknown[] = []
  const rpc = testRpc({
    source: { reader, onPublish },
    chain: chain.chain,
    engine: engineByName('fast'),
    executor: (local) => ({
      ...local,
      carried: (call, reply) => reported.push([call.snapshot, reply]),
    }),
  })
  chain.payload({ timestamp: JOVIAN + 1n }, chain.pending.world)
  const results: unknown[] = []
  for (let count = 0; count < 4; count++) {
    chain.flashblock(chain.pending.world)
    chain.publish()
    for (let round = 0; round < 2; round++)
      results.push((await rpc.request('eth_call', [{ to: bytesToHex(SENDER) }, 'pending'])).result)
  }
  expect(results).toEqual(Array(8).fill('0x'))
  const newest = reader.newestSnapshot()
  const flashblockId = { number: 1001n, index: 2, payloadId: '0x0000000000000001' }
  const pending = expect.objectContaining(flashblockId)
  const reply = { result: '"0x"', snapshot: newest - 2, pending }
  expect(reported).toEqual([
    [newest - 1, reply],
    [newest, reply],
  ])
})

test('a result that depends on a whole storage is not reused at the next head', async () => {
  const making = programOf([{ text: '0 0 0 0 CREATE2' }], 'RETURN')
  const made = ADDRESSES.indexOf(MADE[0]!)
  const flashblock = (...changes: Change[]) => ({ kind: 'flashblock', changes, fields: {} })
  const write = { at: made, slot: 1, value: 1, program: 0 }
  const one: History = {
    programs: Array.from({ length: 8 }, () => making),
    requests: [
      {
        method: 'eth_call',
        call: { to: bytesToHex(CONTRACTS[0]!) },
        block: 'pending',
        state: undefined,
        header: undefined,
        endpoint: 'flashblocks',
      },
    ],
    steps: [
      flashblock({ ...write, what: 'balance' }),
      ...[flashblock(), flashblock()],
      // The account cannot be created any more.
      flashblock({ ...write, what: 'slot' }),
    ],
  }
  const engine = engineByName('fast')
  expect(await play(one, engine)).toMatchObject({ carried: 0 })
  await expect(play(one, engine, { view: raw('hasSlots') })).rejects.toThrow('after step 3')
})

describe('a fault of the result cache', () => {
  test.each<readonly [string, Mutation]>([
    ['accounts are not noted', { view: raw('account') }],
    ['slots are not noted', { view: raw('slot') }],
    ['read block fields are not reported', { fieldsRead: () => 0 }],
    [
      'a third of the writes is not reported',
      {
        view: (view) => ({
          changesSince: (mark, basis, onChange) =>
            view.changesSince(mark, basis, (hash) => (hash % 3 === 0 ? undefined : onChange(hash))),
        }),
      },
    ],
    ['another chain counts as the same one', { view: () => ({ changesSince: () => true }) }],
  ])('is found by the property: %s', async (_, mutation) => {
    const engine = engineByName('fast')
    const property = fc.asyncProperty(history, async (one) => {
      await play(one, engine, mutation)
    })
    const { failed } = await fc.check(property, { numRuns: 300, endOnFailure: true, seed: 1 })
    expect(failed).toBe(true)
  })
})
