/** A lazy directory from an upstream: begun, gone on with, begun anew; and what an upstream may not say. */
import { describe, expect, test } from 'vitest'
import type { ChainSpec } from '../../../../engine/chainspec/types.ts'
import { encodeBlock } from '../../../../engine/primitives/block-codec.ts'
import type { Bytes, Hex } from '../../../../engine/primitives/bytes.ts'
import { decodeHeader, encodeHeader } from '../../../../engine/primitives/header-codec.ts'
import { bytesToHex, hexToBytes, quantity } from '../../../../engine/primitives/hex.ts'
import { EMPTY_OMMERS, keccak256 } from '../../../../engine/primitives/keccak.ts'
import { orderedRoot } from '../../../../engine/primitives/ordered-root.ts'
import {
  bloomOf,
  decodeStoredReceipt,
  encodeReceipt,
} from '../../../../engine/primitives/receipt-codec.ts'
import { addressOfKey } from '../../../../engine/primitives/signature.ts'
import { signTransaction } from '../../../../engine/primitives/transaction-codec.ts'
import { bigintToBytes, ZERO_20, ZERO_32 } from '../../../../engine/primitives/words.ts'
import { createBudget, DEFAULT_BUDGET_LIMITS } from '../../../../engine/sources/lazy/budget.ts'
import { lazyMode, probeDepth } from '../../../../engine/sources/lazy/depth.ts'
import { paced } from '../../../../engine/sources/lazy/pace.ts'
import { planLazy, startLazy } from '../../../../engine/sources/lazy/start.ts'
import { createTracer } from '../../../../engine/sources/lazy/trace.ts'
import type { Upstream } from '../../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../../engine/sources/upstream/error.ts'
import type { Call, Settled } from '../../../../engine/sources/upstream/transport.ts'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import { createKeeper } from '../../../../engine/storage/keeper/keeper.ts'
import { failure } from '../../../fixtures/fake-upstream.ts'
import { handClock } from '../../../fixtures/hand-clock.ts'
import { plainWords } from '../../../fixtures/keeper-chain.ts'

const KEY = new Uint8Array(32).fill(5)
const FIRST = 100

type Made = {
  readonly number: number
  readonly hash: Hex
  readonly header: Bytes
  readonly raw: Bytes
  readonly receipt: Record<string, unknown>
}

/** Signing takes its time: some transactions are in many blocks. */
const signed = new Map<string, { readonly raw: Bytes; readonly hash: Bytes }>()
function transactionOf(number: number, salt: number) {
  const name = `${number % 40} ${salt}`
  const known = signed.get(name)
  if (known !== undefined) return known
  const made = signTransaction(
    {
      ...({ type: 0, chainId: 196n, gasPrice: 7n, gasLimit: 30_000n } as const),
      ...{ nonce: BigInt(number % 40), to: ZERO_20, value: BigInt(salt) },
      input: new Uint8Array(0),
    },
    KEY,
  )
  signed.set(name, made)
  return made
}

function make(number: number, parentHash: Bytes, salt: number, other?: Bytes): Made {
  const { raw, hash } =
    other === undefined ? transactionOf(number, salt) : { raw: other, hash: keccak256(other) }
  const logs = [{ address: ZERO_20, topics: [hash], data: bigintToBytes(5n, 3) }]
  const logsBloom = bloomOf(logs)
  const common = { type: 0, status: 1, cumulativeGasUsed: 25_000n } as const
  const encoded = encodeReceipt({
    ...{ ...common, gasUsed: 25_000n, logsBloom, logs, contractAddress: undefined },
    effectiveGasPrice: 7n,
  })
  const header = encodeHeader({
    ...{ parentHash, ommersHash: EMPTY_OMMERS, coinbase: ZERO_20, stateRoot: keccak256(hash) },
    ...{ transactionsRoot: orderedRoot([raw]), receiptsRoot: orderedRoot([encoded]), logsBloom },
    ...{ difficulty: 0n, number: BigInt(number), gasLimit: 30_000_000n, gasUsed: 25_000n },
    ...{ timestamp: BigInt(number), extraData: new Uint8Array(0), mixHash: ZERO_32 },
    ...{ nonce: new Uint8Array(8), baseFeePerGas: 7n },
  })
  const receipt = {
    ...{ type: '0x0', status: '0x1', cumulativeGasUsed: quantity(25_000), contractAddress: null },
    ...{ effectiveGasPrice: '0x7', l1Fee: '0x10', l1GasPrice: '0x2', l1GasUsed: '0x3' },
    logs: [
      { address: bytesToHex(ZERO_20), topics: [bytesToHex(hash)], data: bytesToHex(logs[0]!.data) },
    ],
  }
  return { number, hash: bytesToHex(keccak256(header)), header, raw, receipt }
}

function makeChain(upTo: number, from: readonly Made[] = [], salt = 0): readonly Made[] {
  const chain = [...from]
  while ((chain.at(-1)?.number ?? FIRST - 1) < upTo) {
    const parent = chain.at(-1)
    const parentHash = parent === undefined ? ZERO_32 : keccak256(parent.header)
    chain.push(make((parent?.number ?? FIRST - 1) + 1, parentHash, salt))
  }
  return chain
}

const chain = {
  name: 'model',
  genesisNumber: BigInt(FIRST),
  rulesAt: () => ({ keepsDestroyed: true }),
} as unknown as ChainSpec

class ChainUpstream {
  name = 'one'
  chain: readonly Made[]
  refuses: readonly string[] = ['debug_traceBlockByHash']
  change: (call: Call, result: unknown) => unknown = (_, result) => result
  readonly calls: Call[] = []
  constructor(chain: readonly Made[]) {
    this.chain = chain
  }

  readonly as = (): Upstream => ({
    name: this.name,
    call: async (method, params) => {
      const [answer] = await this.#batch([{ method, params }])
      if ('error' in answer!) throw answer.error
      return answer!.result
    },
    batch: (calls) => this.#batch(calls),
    watchHeads: undefined,
    isWatching: false,
    lostConnections: 0,
    close() {},
  })

  async #batch(calls: readonly Call[]): Promise<readonly Settled[]> {
    this.calls.push(...calls)
    return calls.map((call) => {
      if (this.refuses.includes(call.method))
        return {
          error: new UpstreamError('refused', `${call.method} is not available`, {
            fault: { code: -32_601, message: 'no such method' },
          }),
        }
      return { result: this.change(call, this.#answer(call)) }
    })
  }

  #answer({ method, params }: Call): unknown {
    const [what] = params
    const block = this.chain.find(
      ({ number, hash, raw }) =>
        what === quantity(number) || what === hash || what === bytesToHex(keccak256(raw)),
    )
    switch (method) {
      case 'eth_getBlockByNumber':
        return what === 'latest'
          ? blockJson(this.chain.at(-1)!)
          : what === 'safe' || what === 'finalized'
            ? blockJson(this.chain.at(-3)!)
            : block === undefined
              ? null
              : blockJson(block)
      case 'debug_getRawBlock':
        return bytesToHex(
          encodeBlock({
            ...{ header: decodeHeader(block!.header), transactions: [block!.raw], ommers: [] },
            withdrawals: undefined,
          }),
        )
      case 'eth_getBlockReceipts':
        return [block!.receipt]
      case 'eth_getTransactionReceipt':
        return block!.receipt
      default:
        throw new Error(`not made for ${method}`)
    }
  }
}

function blockJson({ header: rlp, hash, raw }: Made) {
  const header = decodeHeader(rlp)
  return {
    ...{ hash, parentHash: bytesToHex(header.parentHash), sha3Uncles: bytesToHex(EMPTY_OMMERS) },
    ...{ miner: bytesToHex(header.coinbase), stateRoot: bytesToHex(header.stateRoot) },
    ...{ transactionsRoot: bytesToHex(header.transactionsRoot) },
    ...{ receiptsRoot: bytesToHex(header.receiptsRoot), logsBloom: bytesToHex(header.logsBloom) },
    ...{ difficulty: '0x0', number: quantity(header.number), gasLimit: quantity(header.gasLimit) },
    ...{ gasUsed: quantity(header.gasUsed), timestamp: quantity(header.timestamp) },
    ...{ extraData: '0x', mixHash: bytesToHex(ZERO_32), nonce: bytesToHex(new Uint8Array(8)) },
    ...{ baseFeePerGas: '0x7', transactions: [bytesToHex(keccak256(raw))] },
  }
}

const long = makeChain(FIRST + 300)
const options = (database = memoryDatabase()) => ({
  ...{ database, chain, undoBlocks: 6, lagBlocks: 8 },
})
const alone = (upstream: Upstream) => [{ upstream, depth: 64 }]

test('begins at the upstream’s head with what the head needs', async () => {
  const upstream = new ChainUpstream(long)
  const { database, ...rest } = options()
  const begun = await startLazy(alone(upstream.as()), { database, ...rest })
  expect(begun).toMatchObject({ status: 'begun', head: { number: FIRST + 300 } })
  const store = openStore(database)
  expect(store.lazyStart()).toEqual({ block: begun.head, oldestBlock: FIRST + 281 })
  expect(store.marks()).toEqual({ safe: FIRST + 298, finalized: FIRST + 298 })
  const [made, hash] = [long[290]!, store.hashOfNumber(FIRST + 290)!]
  expect(store.body(hash)?.transactions).toEqual([
    { raw: made.raw, hash: keccak256(made.raw), from: addressOfKey(KEY) },
  ])
  expect(decodeStoredReceipt(store.receipts(hash)![0]!)).toMatchObject({
    ...{ status: 1, gasUsed: 25_000n, effectiveGasPrice: 7n },
    l1: { l1Fee: 16n, l1GasPrice: 2n, l1GasUsed: 3n },
  })
  createKeeper({ database, words: plainWords(1), now: () => 0 })
})

test('without receipts of a block at once they come one by one; without tags there are none', async () => {
  const upstream = new ChainUpstream(long)
  upstream.refuses = ['eth_getBlockReceipts']
  upstream.change = ({ params }, result) =>
    params[0] === 'safe' || params[0] === 'finalized' ? null : result
  const { database, ...rest } = options()
  await startLazy(alone(upstream.as()), { database, ...rest })
  const store = openStore(database)
  expect(store.receipts(store.hashOfNumber(FIRST + 290)!)).toHaveLength(1)
  expect(store.marks()).toEqual({ safe: FIRST, finalized: FIRST })
})

test('what became final between the two questions is safe too', async () => {
  const upstream = new ChainUpstream(long)
  upstream.change = ({ params }, result) =>
    params[0] === 'safe' ? blockJson(long.at(-9)!) : result
  const { database, ...rest } = options()
  await startLazy(alone(upstream.as()), { database, ...rest })
  expect(openStore(database).marks()).toEqual({ safe: FIRST + 298, finalized: FIRST + 298 })
})

test('nothing becomes final by a number that is not that of its header', async () => {
  const upstream = new ChainUpstream(long)
  upstream.change = ({ params }, result) =>
    params[0] === 'finalized' ? { ...(result as object), number: quantity(FIRST + 300) } : result
  const { database, ...rest } = options()
  await expect(startLazy(alone(upstream.as()), { database, ...rest })).rejects.toThrow(
    /its finalized block is not what its hash says/,
  )
})

test('a chain of a few blocks is begun with all of them', async () => {
  const upstream = new ChainUpstream(makeChain(FIRST + 3))
  const begun = await startLazy(alone(upstream.as()), options())
  expect(begun.head.number).toBe(FIRST + 3)
})

describe('a block with a transaction of an unknown type', () => {
  const STRANGE = FIRST + 295
  const strange = makeChain(FIRST + 300, [
    ...long.slice(0, STRANGE - FIRST),
    make(STRANGE, keccak256(long[STRANGE - FIRST - 1]!.header), 0, hexToBytes('0x7bc10a')),
  ])

  test('stands among those that a state begins with as a header', async () => {
    const { database, ...rest } = options()
    const started = await startLazy(alone(new ChainUpstream(strange).as()), { database, ...rest })
    const store = openStore(database)
    expect(store.lazyStart()).toEqual({ block: started.head, oldestBlock: STRANGE + 1 })
    expect(bytesToHex(store.hashOfNumber(STRANGE)!)).toBe(strange[STRANGE - FIRST]!.hash)
  })
  test('is nothing that a state begins at', async () => {
    const upstream = new ChainUpstream(strange.slice(0, STRANGE - FIRST + 1))
    await expect(startLazy(alone(upstream.as()), options())).rejects.toThrow(
      `block ${STRANGE}: type 0x7b of transaction 0 is not supported`,
    )
  })
  test('above the head: the state begins after it, as soon as there is a block', async () => {
    const upstream = new ChainUpstream(strange.slice(0, STRANGE - FIRST))
    const given = options()
    await startLazy(alone(upstream.as()), given)
    const head = STRANGE - 1
    const known = {
      ...{ head, oldestBlock: head - 19, lazyStart: head, isCut: false, finalized: undefined },
      isUnfoldable: () => false,
      hashOf: (number: number) => long[number - FIRST]?.hash,
    }
    const past = { number: STRANGE, why: 'it cannot be executed' }
    const plan = () => planLazy(alone(upstream.as()), { ...known, past }, given)
    upstream.chain = strange.slice(0, STRANGE - FIRST + 1)
    await expect(plan()).rejects.toThrow(`the upstreams have no block after ${STRANGE} yet`)
    upstream.chain = strange
    const found = await plan()
    expect(found).toMatchObject({ status: 'anew', why: past.why, start: { keptUpTo: head } })
  })
})

describe('a directory that was started', () => {
  const begun = async () => {
    const upstream = new ChainUpstream(long)
    const given = options()
    await startLazy(alone(upstream.as()), given)
    return { upstream, given }
  }
  const OWN = FIRST + 300

  test('goes on where the upstream’s state reaches back to its head', async () => {
    const { upstream, given } = await begun()
    upstream.chain = makeChain(OWN + 64, long)
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({
      ...{ status: 'on', head: { number: OWN }, why: undefined },
    })
  })
  test('goes on before an upstream that is behind it', async () => {
    const { upstream, given } = await begun()
    upstream.chain = long.slice(0, -5)
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({ status: 'on' })
  })
  test('is begun anew where it does not, and keeps its blocks', async () => {
    const { upstream, given } = await begun()
    upstream.chain = makeChain(OWN + 65, long)
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({
      ...{ status: 'anew', head: { number: OWN + 65 } },
      why: `block ${OWN} is 65 blocks behind the upstream, whose state reaches 64 back`,
    })
    expect(openStore(given.database).hashOfNumber(OWN - 250)).toBeDefined()
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({ status: 'on' })
  })
  test('is begun anew on another chain than can be undone to, and keeps what both have', async () => {
    const { upstream, given } = await begun()
    const shared = OWN - 10
    upstream.chain = makeChain(OWN + 2, long.slice(0, shared + 1 - FIRST), 1)
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({
      status: 'anew',
      why: `the upstream has another chain from block ${shared + 1} on, and blocks up to ${OWN} cannot be undone that far`,
    })
    const store = openStore(given.database)
    expect(bytesToHex(store.hashOfNumber(shared)!)).toBe(long[shared - FIRST]!.hash)
    expect(bytesToHex(store.hashOfNumber(shared + 1)!)).toBe(
      upstream.chain[shared + 1 - FIRST]!.hash,
    )
  })
  test('is begun anew with nothing kept where nothing is shared', async () => {
    const { upstream, given } = await begun()
    upstream.chain = makeChain(OWN + 40, [], 1)
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({ status: 'anew' })
    expect(openStore(given.database).header(keccak256(long[290]!.header))).toBeUndefined()
  })
})

describe('of several upstreams', () => {
  /** Each with its chain; undefined: it does not answer. */
  const several = (...chains: readonly (readonly Made[] | undefined)[]) =>
    chains.map((chain, at) => {
      const upstream = new ChainUpstream(chain ?? long)
      upstream.name = `u${at}`
      if (chain === undefined)
        upstream.change = () => {
          throw new UpstreamError('silent', `u${at} is silent`)
        }
      return { upstream: upstream.as(), depth: 64 }
    })
  const HEAD = FIRST + 300
  const forked = makeChain(HEAD + 2, long.slice(0, 280), 1)
  const begunAt = async (...chains: readonly (readonly Made[] | undefined)[]) => {
    const { head, doubts } = await startLazy(several(...chains), options())
    return { hash: bytesToHex(head.hash), doubts: doubts.map(({ name }) => name) }
  }
  const [ours, older] = [long.at(-1)!, long.at(-2)!]

  test.each([
    ['a liar that is named first', [forked, long, long], ours, ['u0']],
    ['a liar that is named last', [long, long, forked], ours, ['u2']],
    ['a liar with a far head', [makeChain(HEAD + 90, forked, 1), long, long], ours, ['u0']],
    ['one that is far behind', [long.slice(0, 150), long, long], ours, []],
    ['one that is a block behind', [long, long.slice(0, -1)], older, []],
    ['one of two that says otherwise', [long, forked], ours, ['u1']],
    ['one of two that says otherwise, and is behind', [long, forked.slice(0, -6)], ours, ['u1']],
    ['of two that say otherwise the first', [forked, long], forked.at(-1)!, ['u1']],
    ['of two that are far apart the first', [long.slice(0, 280), long], long[279]!, []],
    ['a silent one', [undefined, long, long], ours, []],
  ] as const)('%s does not choose where it begins', async (_, chains, head, doubted) => {
    expect(await begunAt(...chains)).toEqual({ hash: head.hash, doubts: doubted })
  })

  test('where each of three says something else nobody chooses', async () => {
    const forks = [1, 2].map((salt) => makeChain(HEAD, long.slice(0, 280), salt))
    await expect(startLazy(several(forks[0]!, forks[1]!, long), options())).rejects.toThrow(
      'most others say something else',
    )
  })

  test('what most have says whether it goes on, not the one that is asked for the state', async () => {
    const given = options()
    await startLazy(several(long), given)
    const later = makeChain(HEAD + 5, long)
    const deep = makeChain(HEAD + 5, long.slice(0, 280), 1)
    expect(await startLazy(several(later, deep, later), given)).toMatchObject({
      ...{ status: 'on', doubts: [{ name: 'u1' }] },
    })
    expect(await startLazy(several(deep, later, later), given)).toMatchObject({ status: 'on' })
    expect(await startLazy(several(deep, later, deep), given)).toMatchObject({ status: 'anew' })
  })

  test('while it runs nothing that is final is left for another chain', async () => {
    const sources = several(makeChain(HEAD + 5, long.slice(0, 280), 1))
    const hashOf = (number: number) => long[number - FIRST]?.hash
    const known = (finalized: number | undefined) => ({
      ...{ head: HEAD, oldestBlock: HEAD - 100, lazyStart: HEAD - 100, isCut: false, finalized },
      ...{ hashOf, isUnfoldable: () => false },
    })
    const { database: _, ...limits } = options()
    await expect(planLazy(sources, known(FIRST + 280), limits)).rejects.toThrow(
      /^u0: block 380 is 0x\w+ there and 0x\w+ here, where it is final$/,
    )
    for (const finalized of [undefined, FIRST + 279])
      expect(await planLazy(sources, known(finalized), limits)).toMatchObject({
        ...{ status: 'anew', start: { keptUpTo: FIRST + 279 } },
      })
  })

  test('the next one gives the start where one does not give what its hashes say', async () => {
    const [bad, good] = several(long, long)
    const broken: Upstream = {
      ...bad!.upstream,
      name: 'u0',
      batch: async (calls, more) =>
        calls.some(({ method }) => method === 'eth_getBlockReceipts')
          ? calls.map(() => ({ result: [long[3]!.receipt] }))
          : bad!.upstream.batch(calls, more),
    }
    const begun = await startLazy([{ upstream: broken, depth: 64 }, good!], options())
    expect(begun.head.number).toBe(HEAD)
  })

  test('none of those that agree gives state', async () => {
    const sources = several(long, long, forked).map((one, at) => ({
      ...one,
      depth: at < 2 ? undefined : 64,
    }))
    await expect(startLazy(sources, options())).rejects.toThrow(/at upstreams that give no state/)
  })

  test('all are silent', async () => {
    await expect(startLazy(several(undefined, undefined), options())).rejects.toThrow(
      'u0 is silent',
    )
  })
})

describe('an upstream is told what is wrong with it:', () => {
  const cases: [string, (upstream: ChainUpstream) => void, RegExp][] = [
    ['no latest block', (one) => (one.change = () => null), /^one: it has no latest block$/],
    ['a hole', (one) => (one.chain = long.toSpliced(200, 1)), /^one: it has no block 300$/],
    [
      'receipts of another block',
      (one) =>
        (one.change = ({ method }, result) =>
          method === 'eth_getBlockReceipts' ? [long[3]!.receipt] : result),
      /block 381: its receipts are not those of its header/,
    ],
    [
      'receipts that are none',
      (one) =>
        (one.change = ({ method }, result) =>
          method === 'eth_getBlockReceipts' ? [{ logs: 7 }] : result),
      /^one: block 381: logs: expected an array, got 7$/,
    ],
    [
      'a header with a field less',
      (one) =>
        (one.change = ({ method, params }, result) =>
          method === 'eth_getBlockByNumber' && params[0] === quantity(FIRST + 100)
            ? { ...(result as object), stateRoot: undefined }
            : result),
      /^one: stateRoot: expected 0x and 32 bytes, got nothing$/,
    ],
    [
      'a header with another field',
      (one) =>
        (one.change = ({ method, params }, result) =>
          method === 'eth_getBlockByNumber' && params[0] === quantity(FIRST + 100)
            ? { ...(result as object), gasUsed: '0x1' }
            : result),
      /block 200 is not the parent that 201 names/,
    ],
  ]
  test.each(cases)('%s', async (_, spoil, message) => {
    const upstream = new ChainUpstream(long)
    spoil(upstream)
    const given = options()
    await expect(startLazy(alone(upstream.as()), given)).rejects.toThrow(message)
    expect(openStore(given.database).isLazy()).toBe(false)
  })
})

test('a start is paid for from the budget', async () => {
  const upstream = new ChainUpstream(long)
  const clock = handClock()
  const budget = createBudget(DEFAULT_BUDGET_LIMITS, clock)
  const paying = paced(upstream.as(), budget, { what: 'canonical', client: '' })
  const started = startLazy(alone(paying), options())
  await clock.advance(1_000)
  expect(upstream.calls.length).toBeLessThanOrEqual(180)
  await clock.advance(4_000)
  expect((await started).status).toBe('begun')
})

describe('the depth of an upstream', () => {
  const head = { number: 1_000, hash: `0x${'11'.repeat(32)}` as const, first: 0 }
  /** Down to so many blocks below the head. */
  const deep = (state: number, proofs: number, takesHash = true) => ({
    batch: async (calls: readonly Call[]): Promise<readonly Settled[]> =>
      calls.map(({ method, params }) => {
        const at = params.at(-1)
        const isThere =
          typeof at === 'object'
            ? takesHash
            : 1_000 - Number(at) <= (method === 'eth_getProof' ? proofs : state)
        return isThere ? { result: '0x0' } : { error: failure('refused', 'missing trie node') }
      }),
  })
  test.each([
    [300, 128, true, { state: 256, proofs: 128, takesHash: true }],
    [20, -1, false, { state: 16, proofs: undefined, takesHash: false }],
    [-1, -1, true, { state: undefined, proofs: undefined, takesHash: true }],
    // Down to its first block is as deep as can be.
    [1_000, 0, true, { state: 8_192, proofs: 0, takesHash: true }],
  ])('of state %i and proofs %i', async (state, proofs, takesHash, expected) => {
    expect(await probeDepth(deep(state, proofs, takesHash), head)).toEqual(expected)
  })
  test('is not guessed of one that is silent', async () => {
    const silent = {
      batch: async (calls: readonly Call[]): Promise<readonly Settled[]> =>
        calls.map(() => ({ error: failure('silent', 'one is silent') })),
    }
    await expect(probeDepth(silent, head)).rejects.toThrow('one is silent')
  })

  const probed = (name: string, state: number | undefined, proofs: number | undefined) => ({
    ...{ name, depth: { state, proofs, takesHash: true } },
  })
  test.each([
    [
      [probed('a', 64, undefined), probed('b', 64, 64)],
      false,
      'proven: state is fetched from b with proofs, 64',
    ],
    [
      [probed('a', 64, undefined), probed('b', 128, 4)],
      true,
      'trusted: state is fetched from a and b without proofs, 128',
    ],
    [
      [probed('a', 64, undefined)],
      false,
      'refused: a gives no proofs of its state (eth_getProof is refused), .* say --trust-upstream',
    ],
    [
      [probed('a', 64, 4)],
      false,
      'refused: a gives no proofs of its state (eth_getProof reaches 4 blocks back, 16 are needed)',
    ],
    [[probed('a', 4, 4)], true, 'refused: a gives no state 16 blocks below its head'],
  ])('decides how it is followed: %j, trusted: %s', (list, isTrusted, expected) => {
    const mode = lazyMode(list, isTrusted)
    const text = 'refused' in mode ? `refused: ${mode.refused}` : `${mode.mode}: ${mode.says}`
    expect(text).toMatch(new RegExp(`^${expected.replace(/[()]/g, '\\$&')}`))
  })
})

describe('a trace of a block', () => {
  const hash = `0x${'22'.repeat(32)}` as const
  const tracing = (answer: () => unknown) => {
    const calls: unknown[] = []
    const tracer = createTracer({
      async call(...call) {
        calls.push(call)
        return answer()
      },
    })
    return { tracer, calls }
  }
  const address = `0x${'ab'.repeat(20)}`
  const trace = [
    { txHash: hash, result: { [address]: { balance: '0x1', storage: { '0x1': '0x2' } } } },
    { txHash: hash, result: { [address]: { nonce: 1 }, [`0x${'cd'.repeat(20)}`]: {} } },
  ]

  test('names what the block touches, once each', async () => {
    const { tracer } = tracing(() => trace)
    const keys = await tracer.keysOf(hash, 10)
    expect(keys?.map(({ kind }) => kind)).toEqual(['account', 'slot', 'account'])
    expect(keys?.[1]).toMatchObject({ key: bigintToBytes(1n, 32) })
    expect(await tracer.keysOf(hash, 2)).toHaveLength(2)
  })
  test('is asked again while the block is not there yet, and never of one that has none', async () => {
    const faults: [Error, boolean][] = [
      [
        new UpstreamError('refused', 'x', { fault: { code: -32_000, message: 'block not found' } }),
        true,
      ],
      [
        new UpstreamError('refused', 'x', { fault: { code: -32_601, message: 'no method' } }),
        false,
      ],
      [new UpstreamError('silent', 'x'), true],
    ]
    for (const [fault, isAsked] of faults) {
      const { tracer, calls } = tracing(() => {
        throw fault
      })
      for (let at = 0; at < 2; at++) expect(await tracer.keysOf(hash, 10)).toBeUndefined()
      expect(calls).toHaveLength(isAsked ? 2 : 1)
    }
  })
  test.each([
    null,
    [{}],
    [{ result: { xyz: {} } }],
    [{ result: { [address]: { storage: { z: 1 } } } }],
  ])('that is none is none: %j', async (json) => {
    const { tracer, calls } = tracing(() => json)
    for (let at = 0; at < 2; at++) expect(await tracer.keysOf(hash, 10)).toBeUndefined()
    expect(calls).toHaveLength(1)
  })
})
