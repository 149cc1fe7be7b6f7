/**
 * Blocks of Lagoon end with a post-exec transaction, on both engines: every balance and every sum
 * follows from the numbers here.
 */
import { describe, expect, test } from 'vitest'
import {
  attributesOfHeader,
  buildHeader,
  openBlock,
} from '../../../../engine/execution/block/block.ts'
import { allowSpeculation } from '../../../../engine/execution/block/speculative.ts'
import { traceTransactions } from '../../../../engine/execution/call/replay.ts'
import type {
  BlockAttributes,
  BlockExecution,
} from '../../../../engine/execution/transaction/types.ts'
import { orderedRoot } from '../../../../engine/primitives/ordered-root.ts'
import {
  decodeStoredReceipt,
  encodeReceipt,
  encodeStoredReceipt,
} from '../../../../engine/primitives/receipt-codec.ts'
import { encodeRlp, rlpUint } from '../../../../engine/primitives/rlp.ts'
import type { GasRefund, Transaction } from '../../../../engine/primitives/transaction.ts'
import { makePostExec } from '../../../../engine/primitives/transaction-codec.ts'
import { concatBytes, ZERO_32 } from '../../../../engine/primitives/words.ts'
import type { TracerChoice } from '../../../../engine/tracers/registry.ts'
import { describeEngines } from '../../../fixtures/engines.ts'
import { failingEngine } from '../../../fixtures/failing-engine.ts'
import {
  balanceIn,
  deposit,
  ETHER,
  opening,
  block as openTestBlock,
  SENDER,
  type TestFork,
  transaction,
  VAULTS,
} from '../../../fixtures/op-block.ts'
import { testOutput } from '../../../fixtures/trace-output.ts'
import { BLOCK } from '../../../fixtures/world.ts'

/**
 * The operator fee has scalar 400 and constant 11: 400 · 100 wei for each gas, and 11 (Jovian). L1
 * costs nothing.
 */
const L1 = { 8: (400n << 64n) | 11n }
const operatorFee = (gas: bigint) => gas * 40_000n + 11n
const [PRICE, BASE_FEE] = [9n, 7n]
const NUMBER = BLOCK.number
const EVM_GAS = 21_000n

const DEPOSIT = deposit({ gasLimit: 50_000n })
const TRANSFERS = [0n, 1n, 2n].map((nonce) => transaction({ nonce, gasLimit: 40_000n }))
const ORDINARY: readonly Transaction[] = [DEPOSIT, ...TRANSFERS]
const refunds = (...pairs: readonly (readonly [number, bigint])[]): readonly GasRefund[] =>
  pairs.map(([index, gasRefund]) => ({ index: BigInt(index), gasRefund }))
const REFUNDS = refunds([1, 5_000n], [3, EVM_GAS])
/** A trace has this address as from and to. */
const NOBODY = `0x${'00'.repeat(20)}`
const POST_EXEC = makePostExec(NUMBER, REFUNDS)

describeEngines((engine) => {
  const opened = (postExec: BlockAttributes['postExec'], fork: TestFork = 'lagoon') =>
    openTestBlock({ engine, fork, l1: L1, attributes: { postExec } }).block

  /** Executes in order, and gives the first reason of a failure. */
  async function run(block: BlockExecution, transactions: readonly Transaction[]) {
    await block.start()
    for (const [index, one] of transactions.entries()) {
      const done = await block.execute(one)
      if (done.status === 'invalid') return `${index}: ${done.reason.message}`
      if (done.status !== 'executed') throw new Error(done.status)
    }
    return undefined
  }
  const ran = (list: readonly Transaction[], last: BlockAttributes['postExec'], fork?: TestFork) =>
    run(opened(last, fork), list)

  describe('a block with refunds', () => {
    const executed = async () => {
      const block = opened(POST_EXEC)
      expect(await run(block, [...ORDINARY, POST_EXEC])).toBe(undefined)
      return block
    }
    const CANONICAL = [EVM_GAS - 5_000n, EVM_GAS, 0n]
    const GAS = CANONICAL.reduce((sum, gas) => sum + gas, 0n)

    test('has gas and receipts that are reduced by the refunds', async () => {
      const block = await executed()
      const receipts = block.executed.map(({ receipt }) => receipt)
      const used = receipts[0]!.gasUsed
      expect(receipts.map(({ gasUsed }) => gasUsed)).toEqual([used, ...CANONICAL, 0n])
      expect(receipts.map(({ cumulativeGasUsed }) => cumulativeGasUsed - used)).toEqual([
        ...[0n, 16_000n, 37_000n, 37_000n, 37_000n],
      ])
      expect(receipts.map(({ gasRefund }) => gasRefund)).toEqual([
        ...[undefined, 5_000n, 0n, EVM_GAS, undefined],
      ])
      expect(block.gasUsed).toBe(used + GAS)
      expect(block.sums().gasUsed).toBe(used + GAS)
    })

    test('has an empty receipt of its post-exec transaction, which is in the root', async () => {
      const block = await executed()
      const { receipt } = block.executed.at(-1)!
      const cumulativeGasUsed = block.executed.at(-2)!.receipt.cumulativeGasUsed
      expect(receipt).toEqual({
        type: 0x7d,
        status: 1,
        cumulativeGasUsed,
        gasUsed: 0n,
        logs: [],
        logsBloom: new Uint8Array(256),
        contractAddress: undefined,
        effectiveGasPrice: 0n,
        blobGasUsed: 0n,
      })
      // The receipt is encoded like one of type 2 (specs: Post-Execution Transactions, Receipt).
      const items = [rlpUint(1), rlpUint(cumulativeGasUsed), new Uint8Array(256), []]
      const leaf = concatBytes(Uint8Array.of(0x7d), encodeRlp(items))
      const others = block.executed.slice(0, -1).map(({ receipt: one }) => encodeReceipt(one))
      expect(block.sums().receiptsRoot).toEqual(orderedRoot([...others, leaf]))
      const raws = [...ORDINARY, POST_EXEC].map(({ raw }) => raw)
      expect(block.sums().transactionsRoot).toEqual(orderedRoot(raws))
    })

    test('has no data gas for its post-exec transaction', async () => {
      const without = opened(undefined)
      await run(without, ORDINARY)
      expect((await executed()).sums().blobGasUsed).toBe(without.sums().blobGasUsed)
    })

    test('gives every account the right balance', async () => {
      const diff = await (await executed()).diff()
      const fees = CANONICAL.reduce((sum, gas) => sum + operatorFee(gas), 0n)
      expect(fees).toBe(1_480_000_033n)
      expect(balanceIn(diff, SENDER)).toBe(10n * ETHER - GAS * PRICE - fees)
      expect(balanceIn(diff, VAULTS.baseFee)).toBe(GAS * BASE_FEE)
      expect(balanceIn(diff, VAULTS.operator)).toBe(fees)
      expect(balanceIn(diff, BLOCK.coinbase)).toBe(GAS * (PRICE - BASE_FEE))
    })

    test('changes the balances as specified', async () => {
      const without = opened(undefined)
      await run(without, ORDINARY)
      const [before, after] = [await without.diff(), await (await executed()).diff()]
      const delta = (of: Uint8Array) => balanceIn(after, of)! - balanceIn(before, of)!
      const r = 5_000n + EVM_GAS
      const fee =
        operatorFee(EVM_GAS) - operatorFee(16_000n) + (operatorFee(EVM_GAS) - operatorFee(0n))
      expect(delta(SENDER)).toBe(r * PRICE + fee)
      expect(delta(BLOCK.coinbase)).toBe(-r * (PRICE - BASE_FEE))
      expect(delta(VAULTS.baseFee)).toBe(-r * BASE_FEE)
      expect(delta(VAULTS.operator)).toBe(-fee)
    })

    test('has its refunded gas for later transactions', async () => {
      const list = [
        DEPOSIT,
        transaction({ gasLimit: 60_000n }),
        transaction({ nonce: 1n, gasLimit: 60_000n }),
      ]
      const used = await gasOfDeposit()
      const gasLimit = used + EVM_GAS - 10_000n + 60_000n
      const open = (postExec: BlockAttributes['postExec']) =>
        openTestBlock({ engine, fork: 'lagoon', attributes: { postExec, gasLimit } }).block
      const last = makePostExec(NUMBER, refunds([1, 10_000n]))
      expect(await run(open(last), [...list, last])).toBe(undefined)
      expect(await run(open(undefined), list)).toBe('2: exceeds block gas limit')
    })

    test('takes the refunds from its last transaction when it is opened again', async () => {
      const block = await executed()
      const { rules, attributes } = block
      const roots = { stateRoot: ZERO_32, withdrawalsRoot: undefined }
      const header = buildHeader({ rules, attributes, sums: block.sums(), ...roots })
      expect(attributesOfHeader(header, POST_EXEC.raw).postExec).toEqual(POST_EXEC)
      expect(attributesOfHeader(header, TRANSFERS[0]!.raw).postExec).toBe(undefined)
      // The execution will report its fault.
      expect(attributesOfHeader(header, Uint8Array.of(0x7d, 0xc0)).postExec).toBe(undefined)
      expect(attributesOfHeader(header, undefined).postExec).toBe(undefined)
    })

    test('has receipts that are stored without loss', async () => {
      for (const { receipt } of (await executed()).executed)
        expect(decodeStoredReceipt(encodeStoredReceipt(receipt))).toEqual(receipt)
    })

    const CALL = { type: 'CALL', from: NOBODY, to: NOBODY, gas: '0x0', gasUsed: '0x0' }
    const STEPS = { enableMemory: false, disableStack: false, disableStorage: false }
    test.each<[name: string, choice: TracerChoice, last: object]>([
      ['callTracer', { name: 'callTracer', config: undefined }, CALL],
      ['flatCallTracer', { name: 'flatCallTracer', config: undefined }, [{ type: 'call' }]],
      ['prestateTracer', { name: 'prestateTracer', config: { diffMode: true } }, {}],
      ['4byteTracer', { name: '4byteTracer', config: undefined }, {}],
      ['noopTracer', { name: 'noopTracer', config: undefined }, {}],
      [
        'the struct logger',
        { name: undefined, options: { ...STEPS, enableReturnData: false, limit: 0 } },
        { gas: 0, failed: false, structLogs: [] },
      ],
    ])('is completely traced by %s', async (name, choice, last) => {
      const block = await executed()
      const { rules, attributes } = block
      const roots = { stateRoot: ZERO_32, withdrawalsRoot: undefined }
      const header = buildHeader({ rules, attributes, sums: block.sums(), ...roots })
      const transactions = [...ORDINARY, POST_EXEC]
      const { output, budget, parsed } = testOutput()
      const { chain, reader } = opening({ engine, fork: 'lagoon', l1: L1 })
      let separator = '['
      await traceTransactions({
        engine,
        chain,
        reader,
        header,
        transactions,
        output,
        budget,
        choice,
        hash: ZERO_32,
        limits: {},
        first: 0,
        last: transactions.length - 1,
        open: () => output.write(separator),
        close(_, problem) {
          expect(problem).toBe(undefined)
          separator = ','
        },
      })
      output.write(']')
      const traces = parsed() as readonly unknown[]
      expect(traces).toHaveLength(5)
      expect(traces[4]).toMatchObject(last)
      expect(traces[4]).not.toHaveProperty('error')
      if (name === 'callTracer') expect(traces[1]).toMatchObject({ gasUsed: '0x3e80' })
    })
  })

  test('a trace without the post-exec transaction takes the refunds from receipts', async () => {
    const block = opened(POST_EXEC)
    await run(block, ORDINARY)
    const { rules, attributes } = block
    const roots = { stateRoot: ZERO_32, withdrawalsRoot: undefined }
    const header = buildHeader({ rules, attributes, sums: block.sums(), ...roots })
    const { chain, reader } = opening({ engine, fork: 'lagoon', l1: L1 })
    const { output, budget, parsed } = testOutput()
    await traceTransactions({
      engine,
      chain,
      reader,
      header,
      output,
      budget,
      transactions: ORDINARY,
      hash: ZERO_32,
      limits: {},
      first: 3,
      last: 3,
      open: () => {},
      close: () => {},
      choice: { name: 'callTracer', config: undefined },
      receipts: () => block.executed.map(({ receipt }) => receipt),
    })
    // All of its gas is refunded.
    expect(parsed()).toMatchObject({ gasUsed: '0x0' })
  })

  test.each<[what: string, list: readonly Transaction[], why: string, fork?: TestFork]>([
    ['before Lagoon', [...ORDINARY, POST_EXEC], '4: transaction type not supported', 'karst'],
    [
      'a post-exec transaction before the last transaction',
      [...ORDINARY.slice(0, 3), POST_EXEC, TRANSFERS[2]!],
      '3: a post-exec transaction that is not the last of its block',
    ],
    [
      'two post-exec transactions',
      [...ORDINARY, makePostExec(NUMBER, refunds([2, 1n])), POST_EXEC],
      '4: a post-exec transaction that is not the last of its block',
    ],
    [
      'the same post-exec transaction twice',
      [...ORDINARY, POST_EXEC, POST_EXEC],
      '5: a transaction after the post-exec transaction',
    ],
    [
      'a post-exec transaction of another block',
      [...ORDINARY, makePostExec(NUMBER + 1n, REFUNDS)],
      `4: a post-exec transaction of block ${NUMBER + 1n} in block ${NUMBER}`,
    ],
    [
      'a refund for a deposit',
      [...ORDINARY, makePostExec(NUMBER, refunds([0, 1n]))],
      '4: a gas refund for 0, no signed transaction',
    ],
    [
      'a refund for the post-exec transaction itself',
      [...ORDINARY, makePostExec(NUMBER, refunds([4, 1n]))],
      '4: a gas refund for 4, no signed transaction',
    ],
    [
      'a refund for an index without a transaction',
      [...ORDINARY, makePostExec(NUMBER, refunds([1, 1n], [2 ** 60, 1n]))],
      `4: a gas refund for ${2n ** 60n}, no signed transaction`,
    ],
    [
      'a refund above the used gas',
      [...ORDINARY, makePostExec(NUMBER, refunds([1, EVM_GAS + 1n]))],
      '1: a gas refund of 21001 for 21000 used',
    ],
  ])('a block with refunds is invalid: %s', async (_, list, why, fork) => {
    const last = list.at(-1)!
    expect(await ran(list, last.type === 0x7d ? last : undefined, fork)).toBe(why)
  })

  test('the first block of a fork has no post-exec transaction', async () => {
    const { block } = openTestBlock({
      engine,
      fork: 'lagoon',
      attributes: { isDepositsOnly: true, postExec: POST_EXEC },
    })
    expect(await run(block, [DEPOSIT, POST_EXEC])).toBe(
      '1: the first block of a fork takes deposits only',
    )
  })

  test('a transaction with a refund that is too large changes nothing', async () => {
    const block = opened(makePostExec(NUMBER, refunds([1, EVM_GAS + 1n])))
    await run(block, [DEPOSIT])
    const before = await block.diff()
    expect((await block.execute(TRANSFERS[0]!)).status).toBe('invalid')
    expect(await block.diff()).toEqual(before)
    expect(block.executed).toHaveLength(1)
  })

  test('a transaction that was undone is refunded again', async () => {
    const block = opened(POST_EXEC)
    await run(block, ORDINARY.slice(0, 1))
    const at = block.checkpoint()
    await block.execute(TRANSFERS[0]!)
    block.revert(at)
    for (const one of [...TRANSFERS, POST_EXEC]) await block.execute(one)
    const other = opened(POST_EXEC)
    await run(other, [...ORDINARY, POST_EXEC])
    expect(block.sums()).toEqual(other.sums())
  })

  test('later refunds apply to later transactions, and earlier refunds cannot change', async () => {
    const full = opened(POST_EXEC)
    await run(full, [...ORDINARY, POST_EXEC])
    const options = opening({ engine, fork: 'lagoon', l1: L1 })
    for (const block of [openBlock(options), allowSpeculation(openBlock(options))]) {
      await block.start()
      expect(block.refund(makePostExec(NUMBER, REFUNDS.slice(0, 1)))).toBe(true)
      for (const one of ORDINARY.slice(0, 2)) await block.execute(one)
      expect(block.refund(undefined)).toBe(false)
      expect(block.refund(makePostExec(NUMBER, refunds([1, 4_999n])))).toBe(false)
      expect(block.refund(POST_EXEC)).toBe(true)
      for (const one of [...ORDINARY.slice(2), POST_EXEC]) await block.execute(one)
      expect(block.sums()).toEqual(full.sums())
      expect(block.attributes.postExec).toEqual(POST_EXEC)
      block.close()
    }
  })

  test('a speculative execution is repeated when its refund comes', async () => {
    const block = allowSpeculation(opened(undefined))
    await run(block, ORDINARY.slice(0, 1))
    expect(await block.trySpeculatively(TRANSFERS[0]!, {})).toBe(true)
    expect(block.refund(POST_EXEC)).toBe(true)
    expect(block.take(TRANSFERS[0]!.raw)).toBe(undefined)
    const done = await block.execute(TRANSFERS[0]!)
    expect(done).toMatchObject({ executed: { receipt: { gasRefund: 5_000n } } })
    expect(block.refund(makePostExec(NUMBER, REFUNDS))).toBe(true)
  })

  async function gasOfDeposit(): Promise<bigint> {
    const block = opened(undefined)
    await run(block, [DEPOSIT])
    return block.gasUsed
  }
})

test('refunds survive the failure of an engine', async () => {
  const failing = failingEngine()
  const about = { engine: failing.engine, fork: 'lagoon', l1: L1 } as const
  const { block } = openTestBlock(about)
  const other = openTestBlock({ ...about, attributes: { postExec: POST_EXEC } }).block
  for (const one of [block, other]) await one.start()
  block.refund(POST_EXEC)
  for (const one of [...ORDINARY, POST_EXEC]) for (const on of [block, other]) await on.execute(one)
  failing.failIn('diff')
  expect(await block.diff()).toEqual(await other.diff())
  expect(failing.reported).toHaveLength(1)
  expect(block.sums()).toEqual(other.sums())
})
