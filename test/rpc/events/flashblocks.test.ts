/**
 * Each kind of flashblock subscription emits its events once and in order, and refuses invalid
 * parameters.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChainReader, ChainView, LeasedView } from '../../../engine/chain/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Transaction } from '../../../engine/primitives/transaction.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { CONTRACT, filled, SENDER } from '../../fixtures/executed.ts'
import { FlashblockChain } from '../../fixtures/flashblock-chain.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { type Json, subscribed, testSubscriber } from '../../fixtures/subscriber.ts'

const RETAINED = { filterItems: 100_000 }
function start(options: Parameters<typeof testRpc>[0] = {}) {
  const rpc = testRpc(options)
  const chain = new FlashblockChain(rpc.memory)
  const one = testSubscriber()
  return { rpc, chain, one, subscribe: (...params: unknown[]) => subscribed(rpc, one, ...params) }
}
const hashOf = ({ hash }: Transaction) => bytesToHex(hash)
const events = (results: readonly unknown[]) => results as readonly Json[]
const hashesOf = (results: readonly unknown[]) =>
  events(results)
    .filter(({ type }) => type === 'transaction')
    .map(({ transaction }) => (transaction as Json)['txHash'])

describe('the flashblocks subscription of X Layer', () => {
  test('emits the header of each flashblock, then its transactions in order', async () => {
    const { chain, one, subscribe } = start()
    const id = await subscribe('flashblocks', { headerInfo: true })
    const [a, b, c] = chain.transactions(3)
    chain.payload([a!])
    chain.publish()
    chain.flashblock([b!, c!])
    chain.publish()
    const [first, emitted, second, ...rest] = events(one.of(id))
    expect(first).toMatchObject({ type: 'header', header: { number: '0x1', gasUsed: '0x5208' } })
    expect((first!['header'] as Json)['size']).toMatch(/^0x/)
    expect(emitted).toEqual({ type: 'transaction', transaction: { txHash: hashOf(a!) } })
    expect(second).toMatchObject({ type: 'header', header: { number: '0x1', gasUsed: '0xf618' } })
    expect(rest).toEqual([
      { type: 'transaction', transaction: { txHash: hashOf(b!) } },
      { type: 'transaction', transaction: { txHash: hashOf(c!) } },
    ])
  })
  test.each([
    [false, false],
    [true, false],
    [false, true],
    [true, true],
  ])('with txInfo %j and txReceipt %j emits only those parts', async (txInfo, txReceipt) => {
    const { rpc, chain, one, subscribe } = start()
    const id = await subscribe('flashblocks', { subTxFilter: { txInfo, txReceipt } })
    const [a] = chain.transactions(1)
    chain.payload([a!])
    chain.publish()
    const { transaction } = events(one.of(id))[0] as { transaction: Json }
    const txHash = hashOf(a!)
    const info = (await rpc.request('eth_getTransactionByHash', [txHash])).result
    const receipt = (await rpc.request('eth_getTransactionReceipt', [txHash])).result
    expect(transaction).toEqual({
      txHash,
      ...(txInfo ? { txData: info } : {}),
      ...(txReceipt ? { receipt } : {}),
    })
  })
  test('matches addresses of senders, recipients and logs, each transaction once', async () => {
    const { chain, one, subscribe } = start()
    const filter = (...addresses: string[]) => ({ subTxFilter: { subscribeAddresses: addresses } })
    const [sender, contract] = [bytesToHex(SENDER), bytesToHex(CONTRACT)]
    const ids = [
      await subscribe('flashblocks', filter(sender)),
      await subscribe('flashblocks', filter(`0x${contract.slice(2).toUpperCase()}`)),
      await subscribe('flashblocks', filter(sender, contract, sender)),
      await subscribe('flashblocks', filter(bytesToHex(filled(20, 7)))),
    ]
    const sent = chain.transactions(2)
    chain.payload(sent)
    chain.publish()
    const all = sent.map(hashOf)
    expect(ids.map((id) => hashesOf(one.of(id)))).toEqual([all, all, all, []])
  })
  const refused: [params: unknown[], message: string][] = [
    [[], 'flashblocks subscription requires filter params, no params specified'],
    [[null], 'flashblocks subscription requires filter params, no params specified'],
    [[{ since: '1:0' }], 'flashblocks subscription requires filter params, no params specified'],
    [[{ foo: true }], 'params[1]: unknown field "foo", expected one of headerInfo, subTxFilter'],
    [
      [{ subTxFilter: { foo: 1 } }],
      'params[1].subTxFilter: unknown field "foo", expected one of subscribeAddresses, txInfo, txReceipt',
    ],
    [[{ headerInfo: 'yes' }], 'params[1].headerInfo: expected true or false, got "yes"'],
    [[{ headerInfo: null }], 'params[1].headerInfo: expected true or false, got null'],
    [
      [{ subTxFilter: { txInfo: 1 } }],
      'params[1].subTxFilter.txInfo: expected true or false, got 1',
    ],
    [
      [{ subTxFilter: { subscribeAddresses: ['0x12'] } }],
      'params[1].subTxFilter.subscribeAddresses.0: expected hex encoded address, got "0x12"',
    ],
    [
      [{ subTxFilter: [] }],
      'params[1].subTxFilter: expected an object {subscribeAddresses, txInfo, txReceipt}, got an array',
    ],
    [[true], 'params[1]: expected an object {headerInfo, subTxFilter}, got true'],
    [[{}, {}], 'too many arguments, want at most 2'],
    [[{}, { since: '1:0', more: 1 }], 'params[2]: unknown field "more", expected only since'],
    [
      [{}, { since: '1' }],
      'params[2]: expected {"since":"number:index"} or {"since":"number:index:payload"}',
    ],
    [
      [{ subTxFilter: { subscribeAddresses: Array(1_001).fill(bytesToHex(CONTRACT)) } }],
      'too many subscribe addresses',
    ],
  ]
  test.each(refused)('refuses the parameters %j', async (params, message) => {
    const { rpc, one } = start()
    const reply = await rpc.request('eth_subscribe', ['flashblocks', ...params], one.client)
    expect(reply.error).toEqual({ code: -32602, message })
    expect(rpc.stats().subscriptions).toBe(0)
  })
})

describe('the flashblock subscriptions of Base', () => {
  test('newFlashblocks emits the block so far, with full transactions', async () => {
    const { rpc, chain, one, subscribe } = start()
    const id = await subscribe('newFlashblocks')
    const sent = chain.transactions(3)
    chain.payload(sent.slice(0, 1))
    chain.publish()
    chain.flashblock(sent.slice(1))
    chain.publish()
    const blocks = one.of(id)
    expect(blocks).toHaveLength(2)
    expect(blocks[1]).toEqual((await rpc.request('eth_getBlockByNumber', ['pending', true])).result)
    expect((blocks[0] as { transactions: unknown[] }).transactions).toHaveLength(1)
  })
  test('newFlashblockTransactions emits hashes, or transactions with their logs', async () => {
    const { rpc, chain, one, subscribe } = start()
    const hashes = await subscribe('newFlashblockTransactions')
    const full = await subscribe('newFlashblockTransactions', true)
    const sent = chain.transactions(2)
    chain.payload(sent)
    chain.publish()
    expect(one.of(hashes)).toEqual(sent.map(hashOf))
    const { result } = await rpc.request('eth_getTransactionByHash', [hashOf(sent[1]!)])
    const receipt = (await rpc.request('eth_getTransactionReceipt', [hashOf(sent[1]!)]))
      .result as Json
    expect(one.of(full)[1]).toEqual({ ...(result as Json), logs: receipt['logs'] })
  })
  test('pendingLogs emits matching logs, and removed ones of a replaced payload', async () => {
    const { chain, one, subscribe } = start()
    const id = await subscribe('pendingLogs', { address: bytesToHex(CONTRACT) })
    const none = await subscribe('pendingLogs', { address: bytesToHex(filled(20, 1)) })
    const all = await subscribe('pendingLogs')
    const [a, b, c] = chain.transactions(3)
    chain.payload([a!])
    chain.publish()
    chain.flashblock([b!])
    chain.publish()
    const emitted = one.of(id) as Json[]
    expect(emitted.map(({ removed }) => removed)).toEqual([false, false])
    // The first transaction of the block is the same, so its log keeps its position.
    chain.payload([a!, c!])
    chain.publish()
    const [, old, gone, fresh] = one.of(id) as Json[]
    expect(gone).toEqual({ ...old, removed: true })
    expect(fresh).toMatchObject({ transactionHash: hashOf(c!), logIndex: '0x1', removed: false })
    // The next block is entirely different.
    chain.payload([a!], 1)
    chain.publish()
    expect(one.of(id)).toHaveLength(7)
    expect(one.of(all)).toEqual(one.of(id))
    expect(one.of(none)).toEqual([])
  })
  test('pendingLogs with a block range emits logs within it, also removed ones', async () => {
    const { chain, one, subscribe } = start()
    const all = await subscribe('pendingLogs', { fromBlock: 'pending', toBlock: 'pending' })
    const [a, b] = chain.transactions(2)
    chain.payload([a!])
    chain.publish()
    const { blockNumber } = (one.of(all) as Json[])[0]!
    const past = await subscribe('pendingLogs', { fromBlock: '0x0', toBlock: '0x0' })
    const later = await subscribe('pendingLogs', { fromBlock: '0xffff' })
    const within = await subscribe('pendingLogs', { fromBlock: blockNumber, toBlock: blockNumber })
    chain.flashblock([b!])
    chain.publish()
    chain.payload([a!])
    chain.publish()
    expect((one.of(within) as Json[]).map(({ removed }) => removed)).toEqual([false, true])
    expect(one.of(all)).toHaveLength(3)
    expect([...one.of(past), ...one.of(later)]).toEqual([])
  })
  test.each([
    ['newFlashblocks', [{}], 'too many arguments, want at most 1'],
    ['pendingLogs', [{ adress: '0x' }], 'unknown field "adress"'],
    ['pendingLogs', [{ address: Array(1_001).fill(bytesToHex(CONTRACT)) }], 'exceed max addresses'],
    ['pendingLogs', [{ blockHash: `0x${'11'.repeat(32)}` }], 'unknown field "blockHash"'],
    ['pendingLogs', [{ fromBlock: '0x5', toBlock: '0x2' }], 'invalid block range params'],
    ['pendingLogs', [{ toBlock: '0x2' }], 'invalid block range params'],
    ['newFlashblockTransactions', ['yes'], 'params[1]: expected true or false, got "yes"'],
    ['newFlashblockTransactions', [true, true], 'too many arguments, want at most 2'],
    ['transactionReceipts', [{ hashes: [] }], 'unknown field "hashes"'],
    ['transactionReceipts', [{ transactionHashes: ['0x12'] }], 'hex string has length 2'],
    [
      'transactionReceipts',
      [{ transactionHashes: Array(201).fill(`0x${'11'.repeat(32)}`) }],
      'more than 200 items',
    ],
    ['newHeads', [{ since: '1:0' }], '"since" works only with flashblocks, newFlashblocks, '],
  ] as const)('%s with the parameters %j is refused', async (kind, params, message) => {
    const { rpc, one } = start()
    const { error } = await rpc.request('eth_subscribe', [kind, ...params], one.client)
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining(message) })
  })
  test('are refused on the standard endpoint', async () => {
    const { rpc } = start()
    const { client } = testSubscriber('standard')
    for (const params of [['flashblocks', {}], ['newFlashblocks'], ['pendingLogs']]) {
      const { error } = await rpc.request('eth_subscribe', params, client)
      expect(error?.code).toBe(-32602)
      expect(error?.message).toContain('flashblocks endpoint')
    }
  })
})

describe('the transactionReceipts subscription of go-ethereum', () => {
  test('emits preconfirmed receipts, or canonical ones on the standard endpoint', async () => {
    const { rpc, chain, one, subscribe } = start()
    const standard = testSubscriber('standard')
    const sent = chain.transactions(3)
    const all = await subscribe('transactionReceipts')
    const wanted = { transactionHashes: [hashOf(sent[1]!)] }
    const some = await subscribe('transactionReceipts', wanted)
    const sealed = await subscribed(rpc, standard, 'transactionReceipts', wanted)
    chain.payload(sent.slice(0, 1))
    chain.publish()
    chain.flashblock(sent.slice(1))
    chain.publish()
    const hashes = (lists: readonly unknown[]) =>
      lists.map((list) => (list as Json[]).map(({ transactionHash }) => transactionHash))
    expect(hashes(one.of(all))).toEqual([[hashOf(sent[0]!)], sent.slice(1).map(hashOf)])
    expect(hashes(one.of(some))).toEqual([[hashOf(sent[1]!)]])
    expect(standard.sent).toEqual([])
    chain.seal()
    chain.confirm()
    chain.publish()
    expect(hashes(standard.of(sealed))).toEqual([[hashOf(sent[1]!)]])
    const { result } = await rpc.request('eth_getTransactionReceipt', [hashOf(sent[1]!)])
    expect(standard.of(sealed)).toEqual([[result]])
    expect(one.of(all)).toHaveLength(2)
  })
})

describe('a subscription with since', () => {
  const grown = async (limits = {}) => {
    const world = start({ limits })
    const { rpc, chain } = world
    const before = testSubscriber()
    await subscribed(rpc, before, 'newFlashblocks')
    const sent = chain.transactions(6)
    for (const at of [0, 1, 2]) {
      if (at === 0) chain.payload([sent[at]!])
      else chain.flashblock([sent[at]!])
      chain.publish()
    }
    chain.seal()
    chain.publish()
    chain.payload([sent[3]!])
    chain.publish()
    before.close()
    // Nobody is subscribed meanwhile.
    chain.flashblock([sent[4]!])
    chain.publish()
    return { ...world, sent }
  }
  test('emits the events after that flashblock first, then new ones', async () => {
    const { chain, one, subscribe, sent } = await grown()
    const id = await subscribe('newFlashblockTransactions', { since: '1:1' })
    const last = await subscribe('flashblocks', {}, { since: '2:0' })
    expect(one.of(id)).toEqual(sent.slice(2, 5).map(hashOf))
    const asHeader = await subscribe('newFlashblockTransactions', { since: '1:1:' })
    expect(one.of(asHeader)).toEqual(one.of(id))
    expect(hashesOf(one.of(last))).toEqual([hashOf(sent[4]!)])
    chain.flashblock([sent[5]!])
    chain.publish()
    expect(one.of(id)).toEqual(sent.slice(2).map(hashOf))
  })
  test('to newFlashblocks emits only the newest state of each block', async () => {
    const { one, subscribe } = await grown()
    const id = await subscribe('newFlashblocks', { since: '1:0' })
    const counts = (one.of(id) as { transactions: unknown[] }[]).map((b) => b.transactions.length)
    expect(counts).toEqual([3, 2])
  })
  test('gets one gap event when that flashblock is no longer retained', async () => {
    const { one, subscribe, sent } = await grown({ replayFlashblocks: 2 })
    const id = await subscribe('newFlashblockTransactions', { since: '1:0' })
    const [gap, ...rest] = one.of(id)
    expect(gap).toEqual({
      type: 'gap',
      since: '1:0',
      next: expect.stringMatching(/^2:0:0x[0-9a-f]{16}$/),
    })
    expect(rest).toEqual(sent.slice(3, 5).map(hashOf))
    const newer = await subscribe('newFlashblockTransactions', { since: '9:0' })
    expect(one.of(newer)).toEqual([{ type: 'gap', since: '9:0', next: null }])
  })
  test('gets a gap for an unknown payload, and none for a known one', async () => {
    const { rpc, one, subscribe } = await grown()
    const { payloadId } = rpc.memory.heads.pending
    const gone = await subscribe('pendingLogs', { since: '2:0:0xffffffffffffffff' })
    expect((one.of(gone)[0] as Json)['type']).toBe('gap')
    const held = await subscribe('pendingLogs', { since: `2:0:${payloadId}` })
    expect((one.of(held) as Json[]).map(({ removed }) => removed)).toEqual([false])
  })
  test('emits logs of a replaced payload as removed', async () => {
    const { chain, one, subscribe, sent } = await grown()
    chain.payload([sent[5]!], 1)
    chain.publish()
    const id = await subscribe('pendingLogs', null, { since: '2:0' })
    const emitted = (one.of(id) as Json[]).map((log) => [log['transactionHash'], log['removed']])
    expect(emitted).toEqual([
      [hashOf(sent[4]!), false],
      [hashOf(sent[4]!), true],
      [hashOf(sent[3]!), true],
      [hashOf(sent[5]!), false],
    ])
  })
  test('gets a gap when its backlog exceeds the send queue', async () => {
    const { one, subscribe, sent } = await grown({ sendQueueBytes: 800 })
    const id = await subscribe('newFlashblockTransactions', { since: '1:0' })
    expect(one.of(id)[0]).toMatchObject({ type: 'gap', since: '1:0' })
    expect(one.of(id).slice(1)).toEqual(sent.slice(3, 5).map(hashOf))
  })
  test('emits flashblocks from memory when nobody subscribed for a minute', async () => {
    const { rpc, chain, one, subscribe, sent } = await grown()
    rpc.advance(60_001)
    chain.flashblock([sent[5]!])
    chain.publish()
    const id = await subscribe('newFlashblockTransactions', { since: '2:0' })
    expect(one.of(id)).toEqual(sent.slice(4).map(hashOf))
  })
})

describe('a chain that continues from a later block', () => {
  test('gives a gap for the missing blocks and removes nothing', async () => {
    const memory = memoryChain()
    let oldest = 0n
    const reader: ChainReader = { ...memory, lease: (at) => hiding(memory.lease(at), () => oldest) }
    const rpc = testRpc({ memory, source: { reader, onPublish: memory.onPublish } })
    const chain = new FlashblockChain(memory)
    const one = testSubscriber()
    const logs = await subscribed(rpc, one, 'pendingLogs')
    const hashes = await subscribed(rpc, one, 'newFlashblockTransactions')
    const sent = chain.transactions(9)
    const emitted: Transaction[] = []
    const next = (transaction: Transaction, isVisible: boolean) => {
      chain.payload([transaction])
      if (isVisible) chain.publish()
      if (isVisible) emitted.push(transaction)
      chain.seal()
      chain.confirm()
    }
    for (const transaction of sent.slice(0, 3)) next(transaction, true)
    for (const transaction of sent.slice(3, 6)) next(transaction, false)
    oldest = 6n
    for (const transaction of sent.slice(6)) next(transaction, true)
    const [a, b, c, gap, ...rest] = one.of(hashes)
    expect([a, b, c, ...rest]).toEqual(emitted.map(hashOf))
    expect(gap).toMatchObject({ type: 'gap', since: expect.stringMatching(/^3:0:0x/) })
    expect((gap as Json)['next']).toMatch(/^7:0:0x/)
    const removed = (one.of(logs) as Json[]).filter((log) => log['removed'] === true)
    expect(removed).toEqual([])
    const late = await subscribed(rpc, one, 'newFlashblockTransactions', { since: '2:0' })
    expect(one.of(late)).toEqual([hashOf(sent[2]!), gap, ...sent.slice(6).map(hashOf)])
    expect(rpc.bugs).toEqual([])
  })
})

/** Wraps a view that lacks all blocks below the oldest one. */
function hiding(leased: LeasedView, oldest: () => bigint): LeasedView {
  const { view } = leased
  const block: ChainView['block'] = (selector) => {
    const found = view.block(selector)
    if (found !== undefined && found.number < oldest())
      throw new ViewError('pruned', 'it is not here')
    return found
  }
  return { ...leased, release: () => leased.release(), view: { ...view, block } }
}

describe('delivery to a connection', () => {
  test('writes all events of one flashblock at once, over all subscriptions', async () => {
    const { chain, one, subscribe } = start()
    await subscribe('flashblocks', { headerInfo: true })
    await subscribe('pendingLogs')
    await subscribe('newFlashblockTransactions', true)
    chain.payload(chain.transactions(5))
    chain.publish()
    expect(one.writes.map((write) => write.length)).toEqual([1 + 5 + 5 + 5])
  })
  test('ends the subscriptions of a stalled client and of no other', async () => {
    const { rpc, chain, one, subscribe } = start()
    const id = await subscribe('newFlashblockTransactions')
    const slow = testSubscriber()
    for (let at = 0; at < 3; at++) await subscribed(rpc, slow, 'flashblocks', {})
    slow.stall()
    const sent = chain.transactions(3)
    for (const transaction of sent) {
      chain.flashblock([transaction])
      chain.publish()
    }
    expect(one.of(id)).toEqual(sent.map(hashOf))
    expect(rpc.stats()).toMatchObject({ subscriptions: 1, subscribersSlow: 1 })
  })
  test('emits every transaction, however few flashblocks are retained', async () => {
    const { chain, one, subscribe } = start({ limits: { replayFlashblocks: 1 } })
    const id = await subscribe('newFlashblockTransactions')
    const sent = chain.transactions(9)
    for (const [at, transaction] of sent.entries()) {
      if (at % 3 === 0) chain.seal()
      chain.flashblock([transaction])
      chain.publish()
    }
    expect(one.of(id)).toEqual(sent.map(hashOf))
  })
  test('emits every transaction once after failed reads of the chain', async () => {
    const { rpc, chain, one, subscribe } = start()
    const id = await subscribe('newFlashblockTransactions')
    const sent = chain.transactions(2)
    chain.payload(sent.slice(0, 1))
    rpc.memory.failNext(9)
    chain.publish()
    chain.flashblock(sent.slice(1))
    rpc.memory.failNext(0)
    chain.publish()
    expect(one.of(id)).toEqual(sent.map(hashOf))
    expect(rpc.bugs).toEqual([])
  })
})

type Step =
  | {
      readonly op: 'flashblock' | 'payload' | 'again'
      readonly count: number
      readonly salt: number
    }
  | {
      readonly op: 'replace'
      readonly depth: number
      readonly count: number
      readonly salt: number
    }
  | { readonly op: 'rewind'; readonly depth: number }
  | { readonly op: 'seal' | 'flush' | 'confirm' | 'publish' }
const count = fc.nat(3)
const salt = fc.nat(2)
const stepOf: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ op: fc.constant('flashblock' as const), count, salt }) },
  fc.record({ op: fc.constantFrom('payload' as const, 'again' as const), count, salt }),
  fc.record({ op: fc.constant('replace' as const), depth: fc.nat(3), count, salt }),
  fc.record({ op: fc.constant('rewind' as const), depth: fc.nat(3) }),
  { weight: 2, arbitrary: fc.record({ op: fc.constantFrom('seal' as const, 'confirm' as const) }) },
  fc.record({ op: fc.constant('flush' as const) }),
  { weight: 6, arbitrary: fc.record({ op: fc.constant('publish' as const) }) },
)

function apply(chain: FlashblockChain, step: Step): void {
  if (step.op === 'flashblock') chain.flashblock(chain.transactions(step.count))
  else if (step.op === 'payload') chain.payload(chain.transactions(step.count), step.salt)
  else if (step.op === 'again') {
    // The new payload starts like the one before.
    const { transactions, header } = chain.pending
    const started = transactions.slice(0, step.count)
    chain.payload([...started, ...chain.transactions(step.salt)], header.mixHash[0])
  } else if (step.op === 'replace')
    chain.replace(step.depth, chain.transactions(step.count), step.salt)
  else if (step.op === 'rewind') chain.rewind(step.depth)
  else chain[step.op]()
}

/** Lists the transactions of the chain as `number/hash`, oldest first. */
function onChain(chain: FlashblockChain): string[] {
  const all: string[] = []
  for (let at: typeof chain.pending | undefined = chain.pending; at; at = at.parent) {
    const { number } = at.header
    all.unshift(...at.transactions.map((one) => `0x${number.toString(16)}/${hashOf(one)}`))
  }
  return all
}

describe('random histories of flashblocks, second payloads, flushes and reorgs', () => {
  test('give logs and transactions that match the chain in every subscription', async () => {
    const seen = { removed: 0, emitted: 0 }
    await fc.assert(
      fc.asyncProperty(fc.array(stepOf, { maxLength: 60, size: 'max' }), async (steps) => {
        const { rpc, chain, one, subscribe } = start({ limits: RETAINED })
        const logs = await subscribe('pendingLogs')
        const hashes = await subscribe('newFlashblockTransactions')
        const xlayer = await subscribe('flashblocks', { headerInfo: true })
        const receipts = await subscribe('transactionReceipts')
        const blocks = await subscribe('newFlashblocks')
        const late: { id: string; from: number }[] = []
        for (const [at, step] of steps.entries()) {
          apply(chain, step)
          if (step.op !== 'publish' || at % 7 !== 0) continue
          const id = await subscribe('pendingLogs')
          late.push({ id, from: one.of(logs).length })
        }
        chain.publish()
        const known: string[] = []
        const added: unknown[] = []
        for (const log of one.of(logs) as Json[]) {
          const key = `${log['blockNumber']}/${log['transactionHash']}`
          if (log['removed'] === true) {
            expect(known.pop()).toBe(key)
            seen.removed++
          } else {
            known.push(key)
            added.push(log['transactionHash'])
          }
        }
        seen.emitted += added.length
        expect(known).toEqual(onChain(chain))
        expect(one.of(hashes)).toEqual(added)
        expect(hashesOf(one.of(xlayer))).toEqual(added)
        const lists = one.of(receipts) as Json[][]
        expect(lists.flat().map(({ transactionHash }) => transactionHash)).toEqual(added)
        // Each flashblock gives a header and a partial block.
        const headers = events(one.of(xlayer)).filter(({ type }) => type === 'header')
        const emitted = one.of(blocks) as { hash: string; transactions: Json[] }[]
        expect(emitted.map(({ hash }) => hash)).toEqual(
          headers.map(({ header }) => (header as Json)['hash']),
        )
        // A later subscriber gets the rest, without removals of events that it did not get.
        for (const { id, from } of late) checkLate(one.of(id) as Json[], one.of(logs).slice(from))
        expect(rpc.bugs).toEqual([])
        one.close()
      }),
      { numRuns: 150 },
    )
    expect(seen.removed).toBeGreaterThan(100)
    expect(seen.emitted).toBeGreaterThan(500)
  })
})

function checkLate(emitted: readonly Json[], all: readonly unknown[]): void {
  const known = new Set<string>()
  const expected = (all as Json[]).filter((log) => {
    const key = `${log['blockHash']}/${log['logIndex']}`
    if (log['removed'] === true) return known.has(key)
    known.add(key)
    return true
  })
  expect(emitted).toEqual(expected)
}
