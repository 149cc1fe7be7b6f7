/**
 * The sequencer runs on its own clock with real execution: the tests check its messages, its seals,
 * delayed transactions, and restarts.
 */
import { describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { MESSAGE_PASSER } from '../../../engine/chainspec/genesis.ts'
import { decodeL1Attributes } from '../../../engine/chainspec/l1-attributes.ts'
import { NEWEST_AT_0 } from '../../../engine/chainspec/networks.ts'
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import type { Bytes, Hex } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { decodeTransaction, signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import { TOO_LONG } from '../../../engine/sources/sequencer/fill.ts'
import type { Deposited } from '../../../engine/sources/sequencer/first-transactions.ts'
import { SEAL_LEAD_MS } from '../../../engine/sources/sequencer/schedule.ts'
import { MAX_TRIES } from '../../../engine/sources/sequencer/stops.ts'
import type {
  FlashblockPosition,
  Offered,
  Rejected,
  Wanted,
} from '../../../engine/sources/sequencer/types.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { brokenRules } from '../../fixtures/feed-rules.ts'
import {
  GENESIS_TIME,
  type SequencedChain,
  sequencedChain,
  testChain,
} from '../../fixtures/sequenced-chain.ts'

const recipient = hexToBytes(`0x${'d0'.repeat(20)}`)
type Fields = {
  readonly nonce?: bigint
  readonly to?: Hex
  readonly value?: bigint
  readonly gasLimit?: bigint
  readonly fee?: bigint
}
function transfer(from: number, fields: Fields = {}): Bytes {
  const { nonce = 0n, to, value = 1n, gasLimit = 21_000n, fee = 1_000_000_000n } = fields
  return signTransaction(
    {
      type: 2,
      chainId: 196n,
      nonce,
      to: to ? hexToBytes(to) : recipient,
      value,
      gasLimit,
      input: new Uint8Array(0),
      maxFeePerGas: fee,
      maxPriorityFeePerGas: fee < 1_000_000n ? fee : 1_000_000n,
      accessList: [],
    },
    hexToBytes(DEV_ACCOUNTS[from]!.privateKey),
  ).raw
}
const transfers = (from: number, count: number) =>
  Array.from({ length: count }, (_, nonce) => transfer(from, { nonce: BigInt(nonce) }))
const sent = (raw: Bytes) => ({ raw })
const textOf = (list: readonly Bytes[]) => list.map(bytesToHex)
const rulesBroken = (chain: SequencedChain, from = 0n) =>
  brokenRules(
    chain.sent.map(({ message }) => message),
    from,
  )
/** Formats the transactions without the deposit. */
const pooled = (transactions: readonly Bytes[]) =>
  textOf(transactions.filter((raw) => raw[0] !== 0x7e))

/** PUSH1 1, PUSH0, SSTORE changes one slot. */
const STORE = '0x60015f55'
/** The code is JUMPDEST, PUSH0, JUMP. */
const LOOP = '0x5b5f56'
const looping = testChain(
  new Map([
    ['0x00000000000000000000000000000000000000aa', { balance: 0n, code: hexToBytes(LOOP) }],
  ]),
)
const LOOPER: Hex = '0x00000000000000000000000000000000000000aa'

/**
 * Makes a pool that offers transactions in the order of the list. Like the real pool it offers none
 * twice for a flashblock, and stays within its gas.
 */
function listPool(all: readonly Bytes[], rejected: readonly Rejected[]) {
  const selected = new Map<string, string>()
  return {
    best({ number, index, gas, excluded }: Wanted): Offered {
      const target = `${number} ${index}`
      const gone = textOf([...rejected.map(({ hash }) => hash), ...excluded])
      let left = gas
      const waits = all.filter((raw) => {
        const key = bytesToHex(decodeTransaction(raw).hash)
        return !gone.includes(key) && selected.get(key) !== target
      })
      const raw = waits.filter((one) => {
        const { hash, gasLimit } = decodeTransaction(one)
        if (gasLimit > left) return false
        selected.set(bytesToHex(hash), target)
        left -= gasLimit
        return true
      })
      return { transactions: raw.map(sent), hasMore: raw.length < waits.length }
    },
    takeBack(hashes: readonly Bytes[]) {
      for (const hash of hashes) selected.delete(bytesToHex(hash))
    },
  }
}

describe('the first block of Karst', () => {
  const schedule = { ...NEWEST_AT_0, karst: BigInt(GENESIS_TIME) + 2n }

  test('has deposits only, and leaves pool transactions to the next block', async () => {
    const chain = sequencedChain({ chain: testChain(new Map(), schedule) })
    chain.offer([transfer(0)])
    await chain.until(() => chain.sealed.length === 1)
    chain.offer([transfer(0, { nonce: 1n })])
    const requested = chain.wanted.length
    await chain.until(() => chain.sealed.length === 2)
    expect(chain.wanted).toHaveLength(requested)
    await chain.until(() => chain.sealed.length === 3)
    expect(chain.sealed.map(({ transactions }) => pooled(transactions))).toEqual([
      textOf([transfer(0)]),
      [],
      textOf([transfer(0, { nonce: 1n })]),
    ])
    expect(chain.rejected).toEqual([])
  })

  test('is the same after a restart in the middle of it', async () => {
    const chain = sequencedChain({ chain: testChain(new Map(), schedule) })
    await chain.until(() => chain.flashblocks(2n).length > 1)
    chain.offer([transfer(0)])
    chain.restart()
    await chain.until(() => chain.sealed.length === 3)
    expect(chain.sealed.map(({ transactions }) => pooled(transactions))).toEqual([
      [],
      [],
      textOf([transfer(0)]),
    ])
  })
})

describe('an idle chain', () => {
  test('keeps the rules of the feed', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 14)
    expect(rulesBroken(chain)).toEqual([])
    expect(chain.counts).toEqual([])
    expect(chain.leases).toBeLessThanOrEqual(1)
  })

  test('has a block each second, aligned with the clock', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 5)
    expect(chain.blocks.map(({ header }) => Number(header.timestamp) - GENESIS_TIME)).toEqual([
      0, 1, 2, 3, 4, 5,
    ])
    const ends = chain.sent.filter(({ message }) => message.type === 'end')
    expect(ends.map(({ atMs }) => atMs - GENESIS_TIME * 1000)).toEqual(
      [1, 2, 3, 4, 5].map((second) => second * 1000 - SEAL_LEAD_MS),
    )
  })

  test('sends index 0 at once and the others each 200 ms from the block’s start', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 3)
    const times = chain.sent
      .filter(({ message }) => message.type === 'flashblock' && message.blockNumber === 2n)
      .map(({ atMs }) => atMs - (GENESIS_TIME + 1) * 1000)
    expect(times[0]).toBeGreaterThanOrEqual(-SEAL_LEAD_MS)
    expect(times[0]).toBeLessThanOrEqual(0)
    expect(times.slice(1)).toEqual([0, 200, 400, 600, 800])
    expect(new Set(chain.late)).toEqual(new Set([0]))
    expect(chain.flashblocks(2n).map(({ targetIndex }) => targetIndex)).toEqual([0, 5, 5, 5, 5, 5])
  })

  test('links blocks by final hashes, with a state root at index 0 only', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 3)
    const [first, ...others] = chain.flashblocks(3n)
    expect(first!.base!.parentHash).toEqual(chain.blocks[2]!.hash)
    // Only the deposit ran, so the block's final root is that of index 0.
    expect(first!.delta.stateRoot).toEqual(chain.blocks[3]!.header.stateRoot)
    for (const other of others) expect(other.delta.stateRoot).toBeUndefined()
  })

  test('has an L1 block number that increases every 12 seconds', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 14)
    const attributes = chain.blocks.slice(1).map(({ transactions }) => {
      const deposit = decodeTransaction(transactions[0]!)
      return decodeL1Attributes(deposit.input)!.attributes
    })
    expect(attributes.map(({ sequenceNumber }) => Number(sequenceNumber))).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2,
    ])
    expect(attributes[11]!.number).toBe(attributes[10]!.number + 1n)
    expect(equalBytes(attributes[11]!.hash, attributes[10]!.hash)).toBe(false)
  })
})

describe('a chain with transactions', () => {
  test('includes those of the pool once, in the order of the pool', async () => {
    const chain = sequencedChain()
    const all = [...transfers(0, 3), ...transfers(1, 2)]
    chain.offer(all)
    await chain.until(() => chain.blocks.length > 2)
    expect(chain.blocks.flatMap(({ transactions }) => pooled(transactions))).toEqual(textOf(all))
    expect(rulesBroken(chain)).toEqual([])
    const [block] = chain.sealed
    const { header } = chain.blocks[1]!
    expect(header.gasUsed).toBe(block!.gasUsed)
    expect(header.receiptsRoot).toEqual(block!.receiptsRoot)
    expect(chain.rejected).toEqual([])
  })

  test('includes new arrivals in the next flashblock', async () => {
    const chain = sequencedChain()
    await chain.until(() =>
      chain.sent.some(({ message }) => 'index' in message && message.index === 2),
    )
    chain.offer(transfers(0, 1))
    await chain.until(() => chain.sent.length > 3)
    expect(chain.sent[3]!.message).toMatchObject({ index: 3 })
    expect(pooled(chain.flashblocks(1n)[3]!.delta.transactions)).toEqual(textOf(transfers(0, 1)))
  })

  test('requests them within a gas quota that grows to the whole block', async () => {
    const wanted: Wanted[] = []
    const over = {
      async transactions(request: Wanted) {
        wanted.push(request)
        return { transactions: [], hasMore: true }
      },
    }
    const chain = sequencedChain({ over })
    await chain.until(() => chain.blocks.length > 1)
    const gas = wanted.filter(({ number }) => number === 1n).map((request) => request.gas)
    const deposit = chain.flashblocks(1n)[0]!.delta.gasUsed
    const full = [1n, 2n, 3n, 4n, 5n].map((k) => k * 10_000_000n)
    // Half of a tick's gas is available before the tick, except for the first tick, which was due
    // at once.
    const prefetched = full.slice(1).map((limit) => (limit + deposit) / 2n)
    expect(gas).toEqual(
      full.flatMap((limit, at) =>
        [...prefetched.slice(at - 1, at), limit].map((all) => all - deposit),
      ),
    )
  })

  test('keeps those above the gas quota waiting, with the sender’s later nonces', async () => {
    const chain = sequencedChain()
    const large = transfer(0, { gasLimit: 15_000_000n })
    const small = transfer(0, { nonce: 1n })
    chain.offer([large, small, transfer(1)])
    await chain.until(() => chain.blocks.length > 1)
    const byIndex = chain.flashblocks(1n).map(({ delta }) => pooled(delta.transactions))
    expect(byIndex[1]).toEqual(textOf([transfer(1)]))
    expect(byIndex[2]).toEqual(textOf([large, small]))
  })

  test('rejects those that can never execute, with a reason, and includes others', async () => {
    const chain = sequencedChain()
    const poor = transfer(2, { value: 10n ** 30n })
    const old = transfer(3, { nonce: 0n, value: 2n })
    const early = transfer(4, { nonce: 7n })
    const cheap = transfer(5, { fee: 1n })
    chain.offer([transfer(3), poor, old, early, cheap, hexToBytes('0xdead'), transfer(1)])
    await chain.until(() => chain.blocks.length > 1)
    expect(pooled(chain.blocks[1]!.transactions)).toEqual(textOf([transfer(3), transfer(1)]))
    const reasons = new Map(chain.rejected.map(({ hash, reason }) => [bytesToHex(hash), reason]))
    expect(reasons.get(bytesToHex(decodeTransaction(poor).hash))).toMatch(/^insufficient funds/)
    expect(reasons.get(bytesToHex(decodeTransaction(old).hash))).toMatch(/^nonce too low/)
    // Too early and too cheap may change, so three kinds remain.
    expect(reasons.size).toBe(3)
  })

  test('retries those that run out of time, and then rejects them', async () => {
    const chain = sequencedChain({ chain: looping })
    const endless = transfer(0, { to: LOOPER, gasLimit: 9_000_000n })
    chain.offer([endless])
    await chain.until(() => chain.sent.length > 0)
    chain.clock.perRead = 0.5
    await chain.until(() => chain.rejected.length > 0)
    // The smaller slices share a flashblock.
    expect(chain.counts.filter((what) => what === 'time_quota')).toHaveLength(1 + MAX_TRIES)
    expect(chain.rejected).toEqual([
      { hash: decodeTransaction(endless).hash, reason: TOO_LONG, isFinal: true },
    ])
    chain.offer([endless, transfer(1)].slice(1))
    await chain.until(() => chain.blocks.length > 3)
    expect(chain.blocks.flatMap(({ transactions }) => pooled(transactions))).toEqual(
      textOf([transfer(1)]),
    )
    expect(rulesBroken(chain)).toEqual([])
  })

  test('loses little time to those that run out of time', async () => {
    const large = { to: LOOPER, gasLimit: 9_000_000n }
    const endless = [0, 1, 2, 3, 4, 5].map((from) => transfer(from, large))
    const later = transfer(0, { nonce: 1n })
    // These transactions have as high a gas limit, and use little of it.
    const quick = [0n, 1n, 2n].map((nonce) => transfer(8, { nonce, gasLimit: 9_000_000n }))
    const over = {
      transactions: async (wanted: Wanted) => pool.best(wanted),
      giveBack: (hashes: readonly Bytes[]) => pool.takeBack(hashes),
    }
    const chain = sequencedChain({ chain: looping, over })
    const pool = listPool([...endless, later, ...quick], chain.rejected)
    await chain.until(() => chain.sent.length > 0)
    chain.clock.perRead = 0.5
    // After the first rejection the other long ones pause.
    await chain.until(() => chain.rejected.some(({ reason }) => reason === TOO_LONG))
    const included = chain.sent.map(({ message }) =>
      message.type === 'flashblock' ? pooled(message.delta.transactions) : [],
    )
    expect(included.flat()).toEqual(textOf(quick))
    // A flashblock or two go to their first slices. The long ones had all the time of 18
    // flashblocks before anything else ran, and the gas too.
    expect(included.findIndex((texts) => texts.length > 0)).toBeLessThanOrEqual(3)
    expect(rulesBroken(chain)).toEqual([])
  })

  test('shortens only block 1 after a late start', async () => {
    const chain = sequencedChain()
    chain.clock.ms += 2_500
    await chain.until(() => chain.blocks.length > 3)
    const indexes = (number: bigint) => chain.flashblocks(number).map(({ index }) => index)
    expect(indexes(1n)).toEqual([0])
    expect(indexes(2n)).toEqual([0, 1, 2, 3, 4, 5])
    expect(rulesBroken(chain)).toEqual([])
  })

  test('has only index 0 and an End in a block without time for a tick', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 2)
    chain.offer(transfers(0, 1))
    chain.clock.ms += 4_000
    await chain.until(() => chain.blocks.length > 5)
    expect(chain.flashblocks(4n).map(({ index }) => index)).toEqual([0])
    await chain.until(() => chain.blocks.length > 8)
    expect(chain.blocks.flatMap(({ transactions }) => pooled(transactions))).toHaveLength(1)
    expect(rulesBroken(chain)).toEqual([])
  })
})

describe('roots', () => {
  test('of withdrawals follow the storage of the message passer', async () => {
    const code = hexToBytes(STORE)
    const chain = sequencedChain({
      chain: testChain(new Map([[MESSAGE_PASSER, { balance: 0n, code }]])),
    })
    chain.offer([transfer(0, { to: MESSAGE_PASSER, gasLimit: 100_000n })])
    await chain.until(() => chain.blocks.length > 2)
    const [zero, one] = chain.flashblocks(1n)
    expect(zero!.delta.withdrawalsRoot).toEqual(chain.chain.genesisHeader.withdrawalsRoot)
    expect(one!.delta.withdrawalsRoot).not.toEqual(zero!.delta.withdrawalsRoot)
    const after = chain.blocks[1]!.header.withdrawalsRoot
    for (const { delta } of chain.flashblocks(1n).slice(1))
      expect(delta.withdrawalsRoot).toEqual(after)
    expect(chain.flashblocks(2n)[0]!.delta.withdrawalsRoot).toEqual(after)
    expect(rulesBroken(chain)).toEqual([])
  })

  test('of the state are zero at index 0 without a response, and the chain continues', async () => {
    const chain = sequencedChain({ over: { roots: async () => undefined } })
    await chain.until(() => chain.blocks.length > 2)
    expect(chain.flashblocks(1n)[0]!.delta.stateRoot).toBeUndefined()
    expect(chain.counts).toContain('root_missing')
    expect(rulesBroken(chain)).toEqual([])
  })
})

describe('a clock jump', () => {
  test('of a few seconds forward is caught up block by block', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 2)
    chain.clock.ms += 5_000
    await chain.until(() => chain.blocks.length > 10)
    const times = chain.blocks.map(({ header }) => Number(header.timestamp))
    expect(times).toEqual(times.map((_, index) => GENESIS_TIME + index))
    expect(chain.clock.ms / 1000 - times.at(-1)!).toBeLessThan(1)
  })

  test('of an hour forward skips the missed timestamps', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 2)
    chain.clock.ms += 3_600_000
    await chain.until(() => chain.blocks.length > 5)
    const times = chain.blocks.map(({ header }) => Number(header.timestamp))
    expect(Math.abs(chain.clock.ms / 1000 - times.at(-1)!)).toBeLessThan(1)
    expect(times[5]! - times[4]!).toBe(1)
  })

  test('back leaves timestamps ahead, one block time apart, until it is corrected', async () => {
    const chain = sequencedChain()
    const seconds = () => chain.blocks.map(({ header }) => Number(header.timestamp))
    const lead = () => seconds().at(-1)! - chain.clock.ms / 1_000
    await chain.until(() => chain.blocks.length > 3)
    chain.clock.ms -= 3_600_000
    await chain.until(() => chain.blocks.length > 14)
    // The lead does not change by itself.
    expect(Math.round(lead())).toBe(3_600)
    chain.clock.ms += 1_800_000
    await chain.until(() => chain.blocks.length > 18)
    expect(Math.round(lead())).toBe(1_800)
    chain.clock.ms += 1_800_000
    await chain.until(() => chain.blocks.length > 22)
    expect(Math.round(lead())).toBe(0)
    const first = seconds()[0]!
    expect(seconds()).toEqual(seconds().map((_, index) => first + index))
    expect(rulesBroken(chain)).toEqual([])
  })

  test('back does not stop the chain', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 2)
    chain.clock.ms -= 3_600_000
    const before = chain.clock.ms
    await chain.until(() => chain.blocks.length > 6)
    expect(chain.clock.ms - before).toBeLessThan(6_000)
    expect(rulesBroken(chain)).toEqual([])
  })
})

describe('after a kill', () => {
  const indexOf = (message: FeedMessage) => ('index' in message ? message.index : undefined)

  test.each([0, 1, 3, 5])(
    'with index %i sent, the same payload continues with the same prefix',
    async (index) => {
      const chain = sequencedChain()
      chain.offer(transfers(0, 4))
      await chain.until(() => chain.blocks.length > 1)
      chain.offer([transfer(1), transfer(1, { nonce: 1n }), ...transfers(2, 1)])
      await chain.until(() =>
        chain.sent.some(
          ({ message }) =>
            'index' in message && message.blockNumber === 2n && message.index === index,
        ),
      )
      const before = chain.sent.filter(
        ({ message }) => 'index' in message && message.blockNumber === 2n,
      )
      chain.sent.length = 0
      chain.restart()
      await chain.until(() => chain.blocks.length > 3)
      expect(chain.sent.slice(0, index + 1).map(({ packet }) => packet)).toEqual(
        before.map(({ packet }) => packet),
      )
      expect(rulesBroken(chain, 1n)).toEqual([])
      expect(chain.counts).toEqual([])
      const all = chain.blocks.flatMap(({ transactions }) => pooled(transactions))
      expect(all).toHaveLength(7)
      expect(new Set(all).size).toBe(7)
    },
  )

  test('a sealed block that is not durable is sealed again with the same result', async () => {
    const chain = sequencedChain()
    chain.offer(transfers(0, 2))
    await chain.until(() => chain.sealed.length > 0)
    const [first] = chain.sealed
    const packets = chain.sent.map(({ packet }) => packet)
    chain.sent.length = 0
    chain.restart()
    expect(chain.replayed).toEqual({ isReplayed: false, newest: undefined })
    await chain.until(() => chain.replayed.isReplayed)
    expect(chain.replayed.newest).toEqual({ number: 1, index: 5 })
    await chain.until(() => chain.blocks.length > 1)
    expect(chain.sealed[1]).toEqual(first)
    expect(chain.sent.slice(0, packets.length).map(({ packet }) => packet)).toEqual(packets)
  })

  test('a block is sealed once its flashblocks are visible again, or after a timeout', async () => {
    const requested: FlashblockPosition[] = []
    const visible = { from: Number.POSITIVE_INFINITY }
    const chain = sequencedChain({
      over: {
        isVisible(position) {
          requested.push(position)
          return requested.length >= visible.from
        },
      },
    })
    chain.offer(transfers(0, 2))
    await chain.until(() => chain.sealed.length > 0)
    expect(requested).toEqual([])
    chain.restart()
    await chain.until(() => requested.length > 3)
    expect(chain.sealed).toHaveLength(1)
    expect(requested[0]).toEqual({ number: 1, index: 5 })
    visible.from = requested.length + 1
    await chain.until(() => chain.sealed.length > 1)
    expect(requested).toHaveLength(visible.from)

    visible.from = Number.POSITIVE_INFINITY
    chain.restart()
    const restartedAt = chain.clock.ms
    await chain.until(() => chain.sealed.length > 2)
    expect(chain.clock.ms - restartedAt).toBeGreaterThanOrEqual(3_000)
  })

  test('a flashblock that was journalled but not sent is sent first', async () => {
    const chain = sequencedChain({
      over: {
        send() {
          throw new Error('killed')
        },
      },
    })
    await expect(chain.step()).rejects.toThrow('killed')
    expect(chain.journal.packets).toHaveLength(1)
    const next = sequencedChain()
    next.restart(chain.journal.packets)
    await next.step()
    expect(next.sent.map(({ packet }) => packet)).toEqual(chain.journal.packets)
    expect(indexOf(next.sent[0]!.message)).toBe(0)
  })

  test('a journal of another chain is counted and dropped', async () => {
    const other = sequencedChain({ chain: looping })
    await other.until(() => other.sent.length > 3)
    const chain = sequencedChain()
    chain.restart(other.journal.packets)
    await chain.until(() => chain.blocks.length > 2)
    expect(chain.counts).toEqual(['journal_mismatch'])
    expect(rulesBroken(chain)).toEqual([])
  })

  test('the journal forgets durable blocks', async () => {
    const chain = sequencedChain()
    await chain.until(() => chain.blocks.length > 60)
    expect(chain.journal.packets.length).toBeLessThan(300)
  })
})

describe('a view that is gone', () => {
  test('restarts the block with the same prefix and sends nothing twice', async () => {
    let isGone = false
    const chain = sequencedChain({
      over: {
        async transactions() {
          if (!isGone) return { transactions: transfers(0, 1).map(sent), hasMore: true }
          isGone = false
          throw new ViewError('gone', 'snapshot 7 is gone')
        },
      },
    })
    await chain.until(() => chain.sent.length > 3)
    isGone = true
    await chain.until(() => chain.blocks.length > 2)
    expect(chain.counts).toEqual(['view_gone'])
    expect(rulesBroken(chain)).toEqual([])
    expect(chain.flashblocks(1n).map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5])
    expect(chain.leases).toBeLessThanOrEqual(1)
  })
})

test('deposits of users lead the next block and survive a restart', async () => {
  const [from, to] = [new Uint8Array(20).fill(0xd1), new Uint8Array(20).fill(0xd2)]
  const depositFields = { mint: 7n, value: 5n, gasLimit: 50_000n, input: new Uint8Array(0) }
  const waiting = [1, 2].map((request) => ({ request, from, to, ...depositFields }))
  const done: Deposited[] = []
  const deposits = {
    take: () => [...waiting],
    done(deposited: Deposited) {
      waiting.shift()
      done.push(deposited)
    },
  }
  const chain = sequencedChain({ over: { deposits } })
  await chain.until(() => chain.flashblocks(1n).length === 2)
  const { transactions } = chain.flashblocks(1n)[0]!.delta
  expect(transactions).toHaveLength(3)
  expect(done).toEqual(
    [1, 2].map((request) => ({ request, hash: keccak256(transactions[request]!) })),
  )
  chain.restart()
  await chain.until(() => chain.sealed.length === 2)
  expect(chain.sealed.map((block) => block.transactions.length)).toEqual([3, 1])
  expect(chain.sealed[0]!.transactions).toEqual(transactions)
  expect(done).toHaveLength(2)
  expect(chain.counts).toEqual([])
})
