/**
 * A node fetches state as it is read. Its responses must be those of a node with all state, in few
 * rounds, on every engine.
 */
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import type { GenesisAccount } from '../../../engine/chainspec/types.ts'
import type { Engine } from '../../../engine/evm/engine.ts'
import { ENGINE_NAMES } from '../../../engine/evm/engines/names.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import type { Hex } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import type { Client } from '../../../rpc/core/client.ts'
import type { Limits } from '../../../rpc/core/limits.ts'
import type { LazyState } from '../../../rpc/core/ports.ts'
import { Rounds } from '../../../rpc/dispatch/rounds.ts'
import { genesisDiff } from '../../fixtures/genesis-diff.ts'
import { type LazyChain, lazyChain } from '../../fixtures/lazy-state.ts'
import { type MemoryChain, memoryChain } from '../../fixtures/memory-chain.ts'
import { type Reply, type TestRpc, testRpc } from '../../fixtures/rpc.ts'

const CONTRACTS = 4
const SLOTS = 4
const addressOf = (at: number): Hex => `0x${(0xa0 + at).toString(16).padStart(40, '0')}`
const SENDER = addressOf(0x40)
const byte = (value: number) => value.toString(16).padStart(2, '0')
const word = (value: number) => hexToBytes(`0x${value.toString(16).padStart(64, '0')}`)

/** Each step of a program adds the value that it reads to a sum on the stack. */
type Step =
  | { readonly is: 'slot' | 'write' | 'balance' | 'size' | 'hash'; readonly of: number }
  | { readonly is: 'call' | 'delegate' | 'static'; readonly of: number }
  | { readonly is: 'sumSlot' | 'blockHash' | 'create' | 'gas' }
const step = fc.oneof(
  fc.record({
    is: fc.constantFrom('slot', 'write', 'balance', 'size', 'hash', 'call', 'delegate', 'static'),
    of: fc.integer({ min: 0, max: SLOTS - 1 }),
  }),
  fc.record({ is: fc.constantFrom('sumSlot', 'blockHash', 'create', 'gas') }),
) as fc.Arbitrary<Step>

const SIMPLE = {
  sumSlot: `8060${byte(SLOTS)}90065401`,
  blockHash: '600143034001',
  create: '5f5f5ff001',
  gas: '5a01',
} as const

function codeOf(own: number, steps: readonly Step[], isReverted: boolean): string {
  const call = (opcode: string, of: number, value: string) => {
    // A program calls only later contracts, so that every call ends.
    const to = addressOf(own + 1 + of).slice(2)
    return `60205f5f5f${value}73${to}5a${opcode}01`
  }
  const text = steps.map((one): string => {
    switch (one.is) {
      case 'slot':
        return `60${byte(one.of)}5401`
      case 'write':
        return `8060${byte(one.of)}55`
      case 'balance':
        return `73${addressOf(one.of).slice(2)}3101`
      case 'size':
        return `73${addressOf(one.of).slice(2)}3b01`
      case 'hash':
        return `73${addressOf(one.of).slice(2)}3f01`
      case 'call':
        return `${call('f1', one.of, '5f')}5f5101`
      case 'delegate':
        return `${call('f4', one.of, '')}5f5101`
      case 'static':
        return `${call('fa', one.of, '')}5f5101`
      default:
        return SIMPLE[one.is]
    }
  })
  return `5f${text.join('')}5f5260205f${isReverted ? 'fd' : 'f3'}`
}

type World = readonly { readonly steps: readonly Step[]; readonly isReverted: boolean }[]
const world: fc.Arbitrary<World> = fc.array(
  fc.record({
    steps: fc.array(step, { minLength: 1, maxLength: 6 }),
    isReverted: fc.nat(9).map((at) => at === 0),
  }),
  { minLength: CONTRACTS, maxLength: CONTRACTS },
)

function chainOf(contracts: World): MemoryChain {
  const alloc = new Map<Hex, GenesisAccount>()
  alloc.set(SENDER, { nonce: 3n, balance: 10n ** 20n })
  for (const [at, { steps, isReverted }] of contracts.entries()) {
    const storage = Array.from({ length: SLOTS }, (_, key) => ({
      key: word(key),
      value: word(at * 7 + key * 3 + 1),
    }))
    const code = hexToBytes(`0x${codeOf(at, steps, isReverted)}`)
    alloc.set(addressOf(at), { nonce: 1n, balance: BigInt(at + 1), code, storage })
  }
  const memory = memoryChain(genesisDiff(alloc))
  // A block without a root gets no requests for a root.
  memory.publish({ canonical: memory.genesis, pending: memory.make(memory.genesis, { index: 1 }) })
  return memory
}

const message = { from: SENDER, to: addressOf(0), gas: '0x493e0' }
const CALLS: readonly (readonly [method: string, ...params: unknown[]])[] = [
  ['eth_call', message, 'pending'],
  ['eth_call', { ...message, gasPrice: '0x3b9aca00', value: '0x1' }, 'pending'],
  [
    'eth_call',
    { to: addressOf(0), gas: '0x493e0' },
    'latest',
    { [addressOf(1)]: { balance: '0x5' } },
  ],
  ['eth_estimateGas', message, 'pending'],
  ['eth_createAccessList', message, 'pending'],
  ['debug_traceCall', message, 'pending', { tracer: 'prestateTracer' }],
  ['debug_traceCall', message, 'pending', { tracer: 'callTracer' }],
  ['debug_traceCall', message, 'pending'],
  [
    'eth_simulateV1',
    {
      blockStateCalls: [
        { calls: [message, { ...message, to: addressOf(1) }] },
        { calls: [message] },
      ],
    },
    'pending',
  ],
  ['eth_getBalance', addressOf(1), 'pending'],
  ['eth_getCode', addressOf(1), 'pending'],
  ['eth_getTransactionCount', SENDER, 'pending'],
  ['eth_getStorageAt', addressOf(0), '0x1', 'pending'],
  [
    'eth_getStorageValues',
    { [addressOf(0)]: [0, 1, 2].map((at) => bytesToHex(word(at))) },
    'pending',
  ],
]

type Node = { readonly rpc: TestRpc; readonly chain: LazyChain }
function lazyNode(
  memory: MemoryChain,
  options: {
    readonly chain?: LazyChain
    readonly engine?: Engine
    readonly limits?: Partial<Limits>
  } = {},
): Node {
  const { chain = lazyChain(memory), engine = engineByName('fast'), limits = {} } = options
  const source = { reader: chain.reader, onPublish: memory.onPublish }
  return { rpc: testRpc({ source, memory, engine, lazy: chain.lazy, limits }), chain }
}

const outcomeOf = ({ result, error }: Reply) => ({ result, error })

describe.each(ENGINE_NAMES)('the %s engine', (name) => {
  const engine = engineByName(name)

  test('gives the same results as on full state, and fetches no key twice', async () => {
    const runs = fc.record({
      contracts: world,
      salt: fc.nat(),
      share: fc.constantFrom(0.3, 0.7, 1),
    })
    await fc.assert(
      fc.asyncProperty(runs, async ({ contracts, salt, share }) => {
        const memory = chainOf(contracts)
        const full = testRpc({ memory, engine })
        const isMissing = (key: string) => chance(`${salt} ${key}`) < share
        for (const [method, ...params] of CALLS) {
          const chain = lazyChain(memory, { isMissing })
          const { rpc } = lazyNode(memory, { engine, chain, limits: { fetchRounds: 100 } })
          const response = await rpc.request(method, params)
          expect(rpc.bugs).toEqual([])
          const keys = chain.fetches.flatMap((fetch) => fetch.keys)
          expect(new Set(keys).size).toBe(keys.length)
          expect(outcomeOf(response)).toEqual(outcomeOf(await full.request(method, params)))
        }
        expect(memory.leaks()).toBe(0)
      }),
      { numRuns: 25 },
    )
  })
})

/**
 * The program reads 30 slots. Each slot names the next one, so only one missing slot is known at a
 * time.
 */
const CHAINED = `5f${'54'.repeat(30)}5f5260205ff3`
/** The program reads slots 0 to 255. */
const MANY = '5f5b8054506001018061010011600157005b'
const TARGET = addressOf(9)

function chainWith(code: string): MemoryChain {
  const storage = Array.from({ length: 40 }, (_, key) => ({ key: word(key), value: word(key + 1) }))
  const account = { nonce: 1n, balance: 7n, code: hexToBytes(`0x${code}`), storage }
  return memoryChain(genesisDiff(new Map([[TARGET, account]])))
}
/** Each program has its own code, because engines cache code. */
let salt = 0
const salted = (code: string) => `${code}61${(salt++).toString(16).padStart(4, '0')}`
const CALL_TARGET = ['eth_call', [{ to: TARGET }, 'latest']] as const

describe('a call on a lazy node', () => {
  test('that reads 30 chained slots ends after 16 rounds with the missing slot', async () => {
    const { rpc, chain } = lazyNode(chainWith(salted(CHAINED)))
    const { error } = await rpc.request(...CALL_TARGET)
    expect(chain.fetches).toHaveLength(16)
    expect(error).toEqual({
      code: -32002,
      message: expect.stringMatching(
        /^state could not be fetched: slot 0x0+e of 0x0+a9 \(after 16 rounds\)$/,
      ),
      data: { rounds: 16, keys: 17 },
    })
    // The fetched slots stay available.
    expect((await rpc.request(...CALL_TARGET)).result).toBe(bytesToHex(word(30)))
  })

  test('that reads 256 slots takes one round for all of them', async () => {
    const { rpc, chain } = lazyNode(chainWith(salted(MANY)))
    expect((await rpc.request(...CALL_TARGET)).result).toBe('0x')
    expect(chain.fetches.map(({ keys }) => keys.length)).toEqual([2, 1, 256])
  })

  test.each(ENGINE_NAMES)('ends soon if it would loop forever on empty state: %s', async (name) => {
    // The loop ends where slot 0 is not zero.
    const memory = chainWith(salted('5f546009575b6005565b00'))
    const { rpc, chain } = lazyNode(memory, {
      engine: engineByName(name),
      limits: { callMs: 2_000 },
    })
    expect((await rpc.request(...CALL_TARGET)).result).toBe('0x')
    expect(chain.fetches).toHaveLength(3)
  })

  test('that simulates blocks gets zero state roots, because there is no trie', async () => {
    const { rpc } = lazyNode(chainWith(salted('00')))
    const payload = { blockStateCalls: [{ calls: [{ to: TARGET }] }] }
    const { result } = await rpc.request('eth_simulateV1', [payload, 'latest'])
    expect(rpc.bugs).toEqual([])
    expect(result).toMatchObject([
      { stateRoot: `0x${'00'.repeat(32)}`, calls: [{ status: '0x1' }] },
    ])
  })

  test('above the maximum of keys ends with the first missing key and a count', async () => {
    const { rpc, chain } = lazyNode(chainWith(salted(MANY)), { limits: { fetchKeys: 100 } })
    const { error } = await rpc.request(...CALL_TARGET)
    expect(chain.fetches.map(({ keys }) => keys.length)).toEqual([2, 1])
    expect(error).toMatchObject({
      code: -32002,
      message: expect.stringMatching(
        /^state could not be fetched: slot .*; 99 more \(more than 100 keys\)$/,
      ),
      data: { rounds: 2, keys: 3 },
    })
  })

  test('whose state cannot be fetched ends with the reason', async () => {
    const memory = chainWith(salted(MANY))
    const chain = lazyChain(memory, { fetch: async () => ({ failed: 'no upstream answers' }) })
    const { rpc } = lazyNode(memory, { chain })
    for (const [method, params, first] of [
      ['eth_call', [{ to: TARGET }, 'latest'], `account 0x${'00'.repeat(20)}; 1 more`],
      ['eth_getBalance', [TARGET, 'latest'], `account ${TARGET}`],
    ] as const)
      expect((await rpc.request(method, params)).error).toEqual({
        code: -32002,
        message: `state could not be fetched: ${first} (no upstream answers)`,
        data: { rounds: 1, keys: first.includes('more') ? 2 : 1 },
      })
    expect(rpc.stats().cache.items).toBe(0)
  })

  test('ends at its timeout, and has no lease while it waits', async () => {
    const memory = chainWith(salted(MANY))
    const chain = lazyChain(memory, { fetch: () => new Promise(() => {}) })
    const { rpc } = lazyNode(memory, { chain, limits: { callMs: 500 } })
    const responses = Promise.all([
      rpc.request(...CALL_TARGET),
      rpc.request('eth_getBalance', [TARGET, 'latest']),
      rpc.send(`[${requestText(...CALL_TARGET)}]`),
    ])
    await expect.poll(() => chain.fetches.length).toBe(3)
    expect(memory.leaks()).toBe(0)
    // With a clock that stands still the calls would restart each time.
    rpc.advance(500)
    const [single, read, batch] = await responses
    expect(chain.fetches).toHaveLength(3)
    const message = /^state could not be fetched: account 0x0+(; 1 more)?$/
    for (const { error } of [single, JSON.parse(batch.text!)[0]])
      expect(error).toMatchObject({ code: -32002, message: expect.stringMatching(message) })
    expect(read.error).toMatchObject({
      code: -32002,
      message: `state could not be fetched: account ${TARGET}`,
    })
  })

  test('whose client disconnects ends its fetch, and other clients wait on', async () => {
    const memory = chainWith(salted(MANY))
    const blocker = Promise.withResolvers<void>()
    const first = new AbortController()
    const chain = lazyChain(memory, {
      async fetch(_keys, { client, signal }) {
        if (client !== A) return undefined
        blocker.resolve()
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve({ failed: 'nobody waits' }))
        })
      },
    })
    const { rpc } = lazyNode(memory, { chain })
    const left = rpc.request(...CALL_TARGET, { address: A, signal: first.signal })
    const staying = rpc.request(...CALL_TARGET, { address: B })
    await blocker.promise
    first.abort()
    expect((await staying).result).toBe('0x')
    expect((await left).error?.code).toBe(-32002)
  })
})

describe('a fetch', () => {
  const MISSING = [{ kind: 'account' as const, address: new Uint8Array(20) }]
  const limits = { fetchRounds: 16, fetchKeys: 1_000 }
  const client = (address: string): Client => {
    const { signal } = new AbortController()
    return { address, isGone: false, signal, endpoint: 'flashblocks', notify: undefined }
  }
  /** The first fetch ends with its client, and the others give everything. */
  function slowThenQuick() {
    const requested: string[] = []
    const lazy: LazyState = {
      fetch: (_keys, { client: address, signal }) =>
        new Promise((resolve) => {
          requested.push(address)
          if (requested.length > 1) resolve({})
          else signal.addEventListener('abort', () => resolve({ failed: 'nobody waits' }))
        }),
    }
    return { requested, lazy }
  }

  test('has a timeout in running time of the process', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const { requested, lazy } = slowThenQuick()
      let ran = 0
      const rounds = new Rounds({ lazy, limits, now: () => ran })
      const waiting = { client: client(A), deadline: 50, for: 'caller' } as const
      const ended = vi.fn()
      const fetched = rounds.fetch(MISSING, waiting).finally(ended)
      await vi.advanceTimersByTimeAsync(5_000)
      expect(ended).toHaveBeenCalledTimes(0)
      ran = 50
      await vi.advanceTimersByTimeAsync(50)
      expect(await fetched).toEqual({ why: undefined })
      expect(requested).toEqual([A])
      // A later request does not wait for a fetch that has ended.
      const later = { client: client(B), deadline: 100, for: 'caller' } as const
      expect(await rounds.fetch(MISSING, later)).toBeUndefined()
      expect(requested).toEqual([A, B])
    } finally {
      vi.useRealTimers()
    }
  })

  test('that ends with the shorter timeout restarts for the longer one', async () => {
    const { requested, lazy } = slowThenQuick()
    const now = () => performance.now()
    const rounds = new Rounds({ lazy, limits, now })
    const wait = (address: string, ms: number) =>
      rounds.fetch(MISSING, { client: client(address), deadline: now() + ms, for: 'caller' })
    expect(await Promise.all([wait(A, 50), wait(B, 60_000)])).toEqual([
      { why: undefined },
      undefined,
    ])
    expect(requested).toEqual([A, B])
  })
})

describe('equal calls on a lazy node', () => {
  test('run once in each round, and wait for one fetch', async () => {
    const { rpc, chain } = lazyNode(chainWith(salted(MANY)))
    const clients = Array.from({ length: 20 }, (_, at) => ({ address: `10.0.1.${at}` }))
    const responses = await Promise.all(
      clients.map((client) => rpc.request(...CALL_TARGET, client)),
    )
    expect(responses.map(({ result }) => result)).toEqual(clients.map(() => '0x'))
    expect(chain.fetches).toHaveLength(3)
    expect(rpc.poolCalls).toHaveLength(4)
  })
})

describe('a batch on a lazy node', () => {
  test('fetches what all of its calls miss at once, and reads one view', async () => {
    const memory = chainWith(salted(MANY))
    const { rpc, chain } = lazyNode(memory)
    const body = [
      requestText(...CALL_TARGET),
      requestText('eth_getBalance', [TARGET, 'latest']),
      requestText('eth_getBalance', [SENDER, 'latest']),
      requestText('eth_blockNumber', []),
    ]
    const replies = JSON.parse((await rpc.send(`[${body}]`)).text!) as Reply[]
    expect(replies.map(({ result }) => result)).toEqual(['0x', '0x7', '0x0', '0x0'])
    expect(chain.fetches.map(({ keys }) => keys.length)).toEqual([3, 1, 256])
    expect(memory.leaks()).toBe(0)
  })

  test('fails only the calls whose state cannot be fetched', async () => {
    const memory = chainWith(salted(CHAINED))
    const { rpc } = lazyNode(memory)
    const body = [requestText(...CALL_TARGET), requestText('eth_getBalance', [SENDER, 'latest'])]
    const replies = JSON.parse((await rpc.send(`[${body}]`)).text!) as Reply[]
    expect(replies.map(({ result, error }) => result ?? error?.code)).toEqual([-32002, '0x0'])
  })
})

const requestText = (method: string, params: readonly unknown[]) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
const A = '10.0.0.1'
const B = '10.0.0.2'
const chance = (text: string) => keccak256(new TextEncoder().encode(text))[0]! / 256
