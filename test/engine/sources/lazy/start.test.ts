/**
 * A lazy directory from an upstream: its start, restart and resync, and the upstream's invalid
 * responses.
 */
import { describe, expect, test } from 'vitest'
import type { ChainSpec } from '../../../../engine/chainspec/types.ts'
import { encodeBlock } from '../../../../engine/primitives/block-codec.ts'
import type { Bytes, Hex } from '../../../../engine/primitives/bytes.ts'
import { decodeHeader, encodeHeader } from '../../../../engine/primitives/header.ts'
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
import { paced } from '../../../../engine/sources/lazy/paced-upstream.ts'
import { planLazy, startLazy } from '../../../../engine/sources/lazy/start.ts'
import { createTracer } from '../../../../engine/sources/lazy/trace.ts'
import type { Upstream } from '../../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../../engine/sources/upstream/error.ts'
import type { Call, Settled } from '../../../../engine/sources/upstream/messages.ts'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import { createPersistence } from '../../../../engine/storage/persistence/persistence.ts'
import { failure } from '../../../fixtures/fake-upstream.ts'
import { handClock } from '../../../fixtures/hand-clock.ts'
import { plainWords } from '../../../fixtures/persistence-chain.ts'

const KEY = new Uint8Array(32).fill(5)
const FIRST = 100

type Made = {
  readonly number: number
  readonly hash: Hex
  readonly header: Bytes
  readonly raw: Bytes
  /** The hash of the block's transaction. */
  readonly transactionHash: Hex
  readonly receipt: Record<string, unknown>
}

/** Signing is slow, so some transactions are in many blocks. */
const signed = new Map<string, { readonly raw: Bytes; readonly hash: Bytes }>()
function transactionOf(number: number, salt: number) {
  const name = `${number % 40} ${salt}`
  const known = signed.get(name)
  if (known !== undefined) return known
  const made = signTransaction(
    {
      ...({ type: 0, chainId: 196n, gasPrice: 7n, gasLimit: 30_000n } as const),
      nonce: BigInt(number % 40),
      to: ZERO_20,
      value: BigInt(salt),
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
    ...common,
    gasUsed: 25_000n,
    logsBloom,
    logs,
    contractAddress: undefined,
    effectiveGasPrice: 7n,
  })
  const header = encodeHeader({
    parentHash,
    ommersHash: EMPTY_OMMERS,
    coinbase: ZERO_20,
    stateRoot: keccak256(hash),
    transactionsRoot: orderedRoot([raw]),
    receiptsRoot: orderedRoot([encoded]),
    logsBloom,
    difficulty: 0n,
    number: BigInt(number),
    gasLimit: 30_000_000n,
    gasUsed: 25_000n,
    timestamp: BigInt(number),
    extraData: new Uint8Array(0),
    mixHash: ZERO_32,
    nonce: new Uint8Array(8),
    baseFeePerGas: 7n,
  })
  const receipt = {
    type: '0x0',
    status: '0x1',
    cumulativeGasUsed: quantity(25_000),
    contractAddress: null,
    effectiveGasPrice: '0x7',
    l1Fee: '0x10',
    l1GasPrice: '0x2',
    l1GasUsed: '0x3',
    logs: [
      { address: bytesToHex(ZERO_20), topics: [bytesToHex(hash)], data: bytesToHex(logs[0]!.data) },
    ],
  }
  const transactionHash = bytesToHex(hash)
  return { number, hash: bytesToHex(keccak256(header)), header, raw, transactionHash, receipt }
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
      const [response] = await this.#batch([{ method, params }])
      if ('error' in response!) throw response.error
      return response!.result
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
      return { result: this.change(call, this.#respond(call)) }
    })
  }

  #respond({ method, params }: Call): unknown {
    const [what] = params
    const block = this.chain.find(
      ({ number, hash, transactionHash }) =>
        what === hash || what === transactionHash || what === quantity(number),
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
            header: decodeHeader(block!.header),
            transactions: [block!.raw],
            ommers: [],
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

function blockJson({ header: rlp, hash, transactionHash }: Made) {
  const header = decodeHeader(rlp)
  return {
    hash,
    parentHash: bytesToHex(header.parentHash),
    sha3Uncles: bytesToHex(EMPTY_OMMERS),
    miner: bytesToHex(header.coinbase),
    stateRoot: bytesToHex(header.stateRoot),
    transactionsRoot: bytesToHex(header.transactionsRoot),
    receiptsRoot: bytesToHex(header.receiptsRoot),
    logsBloom: bytesToHex(header.logsBloom),
    difficulty: '0x0',
    number: quantity(header.number),
    gasLimit: quantity(header.gasLimit),
    gasUsed: quantity(header.gasUsed),
    timestamp: quantity(header.timestamp),
    extraData: '0x',
    mixHash: bytesToHex(ZERO_32),
    nonce: bytesToHex(new Uint8Array(8)),
    baseFeePerGas: '0x7',
    transactions: [transactionHash],
  }
}

const long = makeChain(FIRST + 300)
const options = (database = memoryDatabase()) => ({
  database,
  chain,
  undoBlocks: 6,
  lagBlocks: 8,
})
const alone = (upstream: Upstream) => [{ upstream, depth: 64 }]

test('a start takes the upstream’s head with the blocks that the head needs', async () => {
  const upstream = new ChainUpstream(long)
  const { database, ...rest } = options()
  const started = await startLazy(alone(upstream.as()), { database, ...rest })
  expect(started).toMatchObject({ status: 'begun', head: { number: FIRST + 300 } })
  const store = openStore(database)
  expect(store.lazyStart()).toEqual({ block: started.head, oldestBlock: FIRST + 281 })
  expect(store.labelledHeads()).toEqual({ safe: FIRST + 298, finalized: FIRST + 298 })
  const [made, hash] = [long[290]!, store.hashOfNumber(FIRST + 290)!]
  expect(store.body(hash)?.transactions).toEqual([
    { raw: made.raw, hash: keccak256(made.raw), from: addressOfKey(KEY) },
  ])
  expect(decodeStoredReceipt(store.receipts(hash)![0]!)).toMatchObject({
    status: 1,
    gasUsed: 25_000n,
    effectiveGasPrice: 7n,
    l1: { l1Fee: 16n, l1GasPrice: 2n, l1GasUsed: 3n },
  })
  createPersistence({ database, words: plainWords(1), now: () => 0 })
})

test('a start reads receipts one by one and has no labelled heads, where needed', async () => {
  const upstream = new ChainUpstream(long)
  upstream.refuses = ['eth_getBlockReceipts']
  upstream.change = ({ params }, result) =>
    params[0] === 'safe' || params[0] === 'finalized' ? null : result
  const { database, ...rest } = options()
  await startLazy(alone(upstream.as()), { database, ...rest })
  const store = openStore(database)
  expect(store.receipts(store.hashOfNumber(FIRST + 290)!)).toHaveLength(1)
  expect(store.labelledHeads()).toEqual({ safe: FIRST, finalized: FIRST })
})

test('a safe head below the finalized head is raised to the finalized head', async () => {
  const upstream = new ChainUpstream(long)
  upstream.change = ({ params }, result) =>
    params[0] === 'safe' ? blockJson(long.at(-9)!) : result
  const { database, ...rest } = options()
  await startLazy(alone(upstream.as()), { database, ...rest })
  expect(openStore(database).labelledHeads()).toEqual({ safe: FIRST + 298, finalized: FIRST + 298 })
})

test('a finalized block whose number contradicts its header is refused', async () => {
  const upstream = new ChainUpstream(long)
  upstream.change = ({ params }, result) =>
    params[0] === 'finalized' ? { ...(result as object), number: quantity(FIRST + 300) } : result
  const { database, ...rest } = options()
  await expect(startLazy(alone(upstream.as()), { database, ...rest })).rejects.toThrow(
    /its finalized block is not what its hash says/,
  )
})

test.each(['safe', 'finalized'])('a %s block of another chain is refused', async (tag) => {
  const upstream = new ChainUpstream(long)
  const other = makeChain(FIRST + 300, long.slice(0, 290), 1)
  upstream.change = ({ params }, result) => (params[0] === tag ? blockJson(other.at(-3)!) : result)
  const { database, ...rest } = options()
  await expect(startLazy(alone(upstream.as()), { database, ...rest })).rejects.toThrow(
    `one: its ${tag} block ${FIRST + 298} is ${other.at(-3)!.hash}, and is ${long.at(-3)!.hash} below the head that it gave`,
  )
})

test('a finalized block above the head is ignored', async () => {
  const upstream = new ChainUpstream(long)
  const longer = makeChain(FIRST + 303, long.slice(0, 290), 1)
  upstream.change = ({ params }, result) =>
    params[0] === 'finalized' ? blockJson(longer.at(-1)!) : result
  const { database, ...rest } = options()
  await startLazy(alone(upstream.as()), { database, ...rest })
  expect(openStore(database).labelledHeads()).toEqual({ safe: FIRST + 298, finalized: FIRST })
})

test('a chain of a few blocks starts with all of them', async () => {
  const upstream = new ChainUpstream(makeChain(FIRST + 3))
  const started = await startLazy(alone(upstream.as()), options())
  expect(started.head.number).toBe(FIRST + 3)
})

describe('a block with a transaction of an unknown type', () => {
  const STRANGE = FIRST + 295
  const strange = makeChain(FIRST + 300, [
    ...long.slice(0, STRANGE - FIRST),
    make(STRANGE, keccak256(long[STRANGE - FIRST - 1]!.header), 0, hexToBytes('0x7bc10a')),
  ])

  test('below the head is stored as a header only', async () => {
    const { database, ...rest } = options()
    const started = await startLazy(alone(new ChainUpstream(strange).as()), { database, ...rest })
    const store = openStore(database)
    expect(store.lazyStart()).toEqual({ block: started.head, oldestBlock: STRANGE + 1 })
    expect(bytesToHex(store.hashOfNumber(STRANGE)!)).toBe(strange[STRANGE - FIRST]!.hash)
  })
  test('at the head refuses the start', async () => {
    const upstream = new ChainUpstream(strange.slice(0, STRANGE - FIRST + 1))
    await expect(startLazy(alone(upstream.as()), options())).rejects.toThrow(
      `block ${STRANGE}: type 0x7b of transaction 0 is not supported`,
    )
  })
  test('above the head makes a resync start at a later block, once there is one', async () => {
    const upstream = new ChainUpstream(strange.slice(0, STRANGE - FIRST))
    const given = options()
    await startLazy(alone(upstream.as()), given)
    const head = STRANGE - 1
    const known = {
      head,
      oldestBlock: head - 19,
      lazyStart: head,
      isCut: false,
      finalized: undefined,
      canUnwindTo: () => false,
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

describe('a directory with lazy state', () => {
  const started = async () => {
    const upstream = new ChainUpstream(long)
    const given = options()
    await startLazy(alone(upstream.as()), given)
    return { upstream, given }
  }
  const OWN = FIRST + 300

  test('continues while the upstream’s state reaches back to its head', async () => {
    const { upstream, given } = await started()
    upstream.chain = makeChain(OWN + 64, long)
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({
      status: 'on',
      head: { number: OWN },
      why: undefined,
    })
  })
  test('continues when the upstream is behind it', async () => {
    const { upstream, given } = await started()
    upstream.chain = long.slice(0, -5)
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({ status: 'on' })
  })
  test('restarts at a newer head when that state does not reach back', async () => {
    const { upstream, given } = await started()
    upstream.chain = makeChain(OWN + 65, long)
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({
      status: 'anew',
      head: { number: OWN + 65 },
      why: `block ${OWN} is 65 blocks behind the upstream, whose state reaches 64 back`,
    })
    expect(openStore(given.database).hashOfNumber(OWN - 250)).toBeDefined()
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({ status: 'on' })
  })
  test('restarts after a reorg beyond the undo window, and keeps the shared blocks', async () => {
    const { upstream, given } = await started()
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
  test('restarts without any old block when no block is shared', async () => {
    const { upstream, given } = await started()
    upstream.chain = makeChain(OWN + 40, [], 1)
    expect(await startLazy(alone(upstream.as()), given)).toMatchObject({ status: 'anew' })
    expect(openStore(given.database).header(keccak256(long[290]!.header))).toBeUndefined()
  })
})

describe('a start from several upstreams', () => {
  /** Makes an upstream for each chain; undefined: the upstream does not respond. */
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
  const startedAt = async (...chains: readonly (readonly Made[] | undefined)[]) => {
    const { head, suspicions } = await startLazy(several(...chains), options())
    return { hash: bytesToHex(head.hash), suspicions: suspicions.map(({ name }) => name) }
  }
  const [ours, older] = [long.at(-1)!, long.at(-2)!]

  test.each([
    ['a wrong upstream, listed first', [forked, long, long], ours, ['u0']],
    ['a wrong upstream, listed last', [long, long, forked], ours, ['u2']],
    [
      'a wrong upstream with a higher head',
      [makeChain(HEAD + 90, forked, 1), long, long],
      ours,
      ['u0'],
    ],
    ['one of three is far behind', [long.slice(0, 150), long, long], ours, []],
    ['one of two is a block behind', [long, long.slice(0, -1)], older, []],
    ['two have different chains, and the first is listed first', [long, forked], ours, ['u1']],
    ['one of two has another chain and is behind', [long, forked.slice(0, -6)], ours, ['u1']],
    ['two have different chains, in the other order', [forked, long], forked.at(-1)!, ['u1']],
    ['two are far apart, and the lower one is first', [long.slice(0, 280), long], long[279]!, []],
    ['one of three does not answer', [undefined, long, long], ours, []],
    [
      'a wrong upstream, listed first, beside one that is two blocks behind',
      [forked.slice(0, long.length), long, long.slice(0, -2)],
      long.at(-3)!,
      ['u0'],
    ],
    [
      'a wrong block, listed first, beside a head below it',
      [makeChain(HEAD, long.slice(0, -1), 1), long, long.slice(0, -2)],
      long.at(-3)!,
      [],
    ],
  ] as const)('takes the right head despite this: %s', async (_, chains, head, suspected) => {
    expect(await startedAt(...chains)).toEqual({ hash: head.hash, suspicions: suspected })
  })

  test('is refused when each of three has another chain', async () => {
    const forks = [1, 2].map((salt) => makeChain(HEAD, long.slice(0, 280), salt))
    await expect(startLazy(several(forks[0]!, forks[1]!, long), options())).rejects.toThrow(
      'most upstreams do not agree',
    )
  })

  test('is refused when two of three contradict each other and the third is silent', async () => {
    await expect(startLazy(several(forked, long, undefined), options())).rejects.toThrow(
      /^u0: block \d+ is 0x\w+ there, and most upstreams do not agree$/,
    )
  })

  test('decides by majority whether the directory continues', async () => {
    const given = options()
    await startLazy(several(long), given)
    const later = makeChain(HEAD + 5, long)
    const deep = makeChain(HEAD + 5, long.slice(0, 280), 1)
    expect(await startLazy(several(later, deep, later), given)).toMatchObject({
      status: 'on',
      suspicions: [{ name: 'u1' }],
    })
    expect(await startLazy(several(deep, later, later), given)).toMatchObject({ status: 'on' })
    expect(await startLazy(several(deep, later, deep), given)).toMatchObject({ status: 'anew' })
  })

  test('of a running node is refused for a chain without our finalized block', async () => {
    const sources = several(makeChain(HEAD + 5, long.slice(0, 280), 1))
    const hashOf = (number: number) => long[number - FIRST]?.hash
    const known = (finalized: number | undefined) => ({
      head: HEAD,
      oldestBlock: HEAD - 100,
      lazyStart: HEAD - 100,
      isCut: false,
      finalized,
      hashOf,
      canUnwindTo: () => false,
    })
    const { database: _, ...limits } = options()
    await expect(planLazy(sources, known(FIRST + 280), limits)).rejects.toThrow(
      /^u0: block 380 is 0x\w+ there and 0x\w+ here, where it is final$/,
    )
    for (const finalized of [undefined, FIRST + 279])
      expect(await planLazy(sources, known(finalized), limits)).toMatchObject({
        status: 'anew',
        start: { keptUpTo: FIRST + 279 },
      })
  })

  test('uses the next upstream when the receipts contradict the headers', async () => {
    const [bad, good] = several(long, long)
    const broken: Upstream = {
      ...bad!.upstream,
      name: 'u0',
      batch: async (calls, more) =>
        calls.some(({ method }) => method === 'eth_getBlockReceipts')
          ? calls.map(() => ({ result: [long[3]!.receipt] }))
          : bad!.upstream.batch(calls, more),
    }
    const started = await startLazy([{ upstream: broken, depth: 64 }, good!], options())
    expect(started.head.number).toBe(HEAD)
  })

  test('is refused when the upstreams that agree give no state', async () => {
    const sources = several(long, long, forked).map((one, at) => ({
      ...one,
      depth: at < 2 ? undefined : 64,
    }))
    await expect(startLazy(sources, options())).rejects.toThrow(/at upstreams that give no state/)
  })

  test('is refused when all upstreams are silent', async () => {
    await expect(startLazy(several(undefined, undefined), options())).rejects.toThrow(
      'u0 is silent',
    )
  })
})

describe('an invalid upstream is refused with the reason:', () => {
  const cases: [string, (upstream: ChainUpstream) => void, RegExp][] = [
    ['no latest block', (one) => (one.change = () => null), /^one: it has no latest block$/],
    [
      'a missing block',
      (one) => (one.chain = long.toSpliced(200, 1)),
      /^one: it has no block 300$/,
    ],
    [
      'receipts of another block',
      (one) =>
        (one.change = ({ method }, result) =>
          method === 'eth_getBlockReceipts' ? [long[3]!.receipt] : result),
      /block 381: its receipts are not those of its header/,
    ],
    [
      'receipts with invalid logs',
      (one) =>
        (one.change = ({ method }, result) =>
          method === 'eth_getBlockReceipts' ? [{ logs: 7 }] : result),
      /^one: block 381: logs: expected an array, got 7$/,
    ],
    [
      'a header with a missing field',
      (one) =>
        (one.change = ({ method, params }, result) =>
          method === 'eth_getBlockByNumber' && params[0] === quantity(FIRST + 100)
            ? { ...(result as object), stateRoot: undefined }
            : result),
      /^one: stateRoot: expected 0x and 32 bytes, got nothing$/,
    ],
    [
      'a header with a changed field',
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

test('a start uses the request budget', async () => {
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
  /** Makes an upstream with state and proofs down to this many blocks below the head. */
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
    // The maximum depth reaches down to the first block.
    [1_000, 0, true, { state: 8_192, proofs: 0, takesHash: true }],
  ])('is found by queries: state %i, proofs %i', async (state, proofs, takesHash, expected) => {
    expect(await probeDepth(deep(state, proofs, takesHash), head)).toEqual(expected)
  })
  test('stays unknown when the upstream is silent', async () => {
    const silent = {
      batch: async (calls: readonly Call[]): Promise<readonly Settled[]> =>
        calls.map(() => ({ error: failure('silent', 'one is silent') })),
    }
    await expect(probeDepth(silent, head)).rejects.toThrow('one is silent')
  })

  const probed = (name: string, state: number | undefined, proofs: number | undefined) => ({
    name,
    depth: { state, proofs, takesHash: true },
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
  ])('decides how state is fetched: %j, trusted: %s', (list, isTrusted, expected) => {
    const mode = lazyMode(list, isTrusted)
    const text = 'refused' in mode ? `refused: ${mode.refused}` : `${mode.mode}: ${mode.summary}`
    expect(text).toMatch(new RegExp(`^${expected.replace(/[()]/g, '\\$&')}`))
  })
})

describe('a prestate trace of a block', () => {
  const hash = `0x${'22'.repeat(32)}` as const
  const tracing = (respond: () => unknown) => {
    const calls: unknown[] = []
    const tracer = createTracer({
      async call(...call) {
        calls.push(call)
        return respond()
      },
    })
    return { tracer, calls }
  }
  const address = `0x${'ab'.repeat(20)}`
  const trace = [
    { txHash: hash, result: { [address]: { balance: '0x1', storage: { '0x1': '0x2' } } } },
    { txHash: hash, result: { [address]: { nonce: 1 }, [`0x${'cd'.repeat(20)}`]: {} } },
  ]

  test('names each account and slot that the block touches once', async () => {
    const { tracer } = tracing(() => trace)
    const keys = await tracer.keysOf(hash, 10)
    expect(keys?.map(({ kind }) => kind)).toEqual(['account', 'slot', 'account'])
    expect(keys?.[1]).toMatchObject({ key: bigintToBytes(1n, 32) })
    expect(await tracer.keysOf(hash, 2)).toHaveLength(2)
  })
  test('is requested again for a missing block, but not where traces are refused', async () => {
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
    for (const [fault, isRequested] of faults) {
      const { tracer, calls } = tracing(() => {
        throw fault
      })
      for (let at = 0; at < 2; at++) expect(await tracer.keysOf(hash, 10)).toBeUndefined()
      expect(calls).toHaveLength(isRequested ? 2 : 1)
    }
  })
  test.each([
    null,
    [{}],
    [{ result: { xyz: {} } }],
    [{ result: { [address]: { storage: { z: 1 } } } }],
  ])('is ignored when it is malformed: %j', async (json) => {
    const { tracer, calls } = tracing(() => json)
    for (let at = 0; at < 2; at++) expect(await tracer.keysOf(hash, 10)).toBeUndefined()
    expect(calls).toHaveLength(1)
  })
})
