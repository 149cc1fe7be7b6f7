import { describe, expect, test } from 'vitest'
import { BEACON_ROOTS, BLOCK_HASHES } from '../../../../engine/chainspec/genesis.ts'
import { rulesOf } from '../../../../engine/chainspec/rules.ts'
import { buildHeader, openBlock } from '../../../../engine/execution/block/block.ts'
import { checkForm } from '../../../../engine/execution/transaction/validation.ts'
import { encodeHeader } from '../../../../engine/primitives/header.ts'
import { bytesToHex, hexToBytes } from '../../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../../engine/primitives/keccak.ts'
import { orderedRoot } from '../../../../engine/primitives/ordered-root.ts'
import { encodeReceipt } from '../../../../engine/primitives/receipt-codec.ts'
import { describeEngines } from '../../../fixtures/engines.ts'
import { memoryReader } from '../../../fixtures/memory-reader.ts'
import {
  ATTRIBUTES,
  type BlockOptions,
  balanceIn,
  deposit,
  ETHER,
  ETHEREUM,
  block as openTestBlock,
  SENDER,
  testChain,
  transaction,
  VAULTS,
} from '../../../fixtures/op-block.ts'
import { address, bytes, word, worldDiff } from '../../../fixtures/world.ts'

describeEngines((engine) => {
  const block = (options: BlockOptions = {}) => openTestBlock({ engine, ...options })

  /**
   * baseFeeScalar 2, blobBaseFeeScalar 3; operator fee scalar 4, constant 5, DA footprint scalar
   * 400.
   */
  const L1 = {
    1: 1_000_000_000n,
    3: (2n << 96n) | (3n << 64n),
    7: 2_000_000_000n,
    8: (400n << 96n) | (4n << 64n) | 5n,
  }
  /** The smallest estimate is 100 bytes: 100 × (2 × 16 × 10^9 + 3 × 2 × 10^9) / 10^6. */
  const L1_FEE = 3_800_000n

  describe('a paying transaction', () => {
    test('on Jovian pays the tip and the three fees, each to its own account', async () => {
      const { block: open } = block({ l1: L1 })
      const result = await open.execute(transaction({ value: 3n }))
      expect(result.status).toBe('executed')
      const diff = await open.diff()
      const gas = 21_000n
      const operator = gas * 4n * 100n + 5n
      expect(balanceIn(diff, ATTRIBUTES.coinbase)).toBe(2n * gas)
      expect(balanceIn(diff, VAULTS.baseFee)).toBe(7n * gas)
      expect(balanceIn(diff, VAULTS.l1Fee)).toBe(L1_FEE)
      expect(balanceIn(diff, VAULTS.operator)).toBe(operator)
      expect(balanceIn(diff, SENDER)).toBe(10n * ETHER - 3n - 9n * gas - L1_FEE - operator)
      expect(open.sums().blobGasUsed).toBe(100n * 400n)
      expect(result.status === 'executed' && result.executed.receipt).toMatchObject({
        status: 1,
        gasUsed: gas,
        cumulativeGasUsed: gas,
        effectiveGasPrice: 9n,
        l1: {
          l1Fee: L1_FEE,
          l1GasUsed: 1600n,
          daFootprintGasScalar: 400n,
          blobGasUsed: 40_000n,
          operatorFeeScalar: 4n,
        },
      })
    })

    test('on Isthmus pays the operator scalar in millionths, and no DA is metered', async () => {
      const { block: open } = block({ l1: { ...L1, 8: (4_000_000n << 64n) | 5n }, fork: 'isthmus' })
      await open.execute(transaction())
      expect(balanceIn(await open.diff(), VAULTS.operator)).toBe(21_000n * 4n + 5n)
      expect(open.sums().blobGasUsed).toBe(0n)
    })

    test('on Ethereum burns the base fee', async () => {
      const { block: open } = block({ fork: 'ethereum' })
      await open.execute(transaction({ value: 1n }))
      const diff = await open.diff()
      expect(balanceIn(diff, SENDER)).toBe(10n * ETHER - 1n - 9n * 21_000n)
      expect(balanceIn(diff, ATTRIBUTES.coinbase)).toBe(42_000n)
      expect(diff).toHaveLength(3)
    })
  })

  describe('a block', () => {
    test('writes the parent hash and the beacon root by system calls', async () => {
      const store = { code: '5f355f55', nonce: 1n } // SSTORE(0, CALLDATALOAD(0))
      const { block: bare } = block()
      await bare.start()
      expect(await bare.diff()).toEqual([])
      const [contract] = worldDiff({ 1: store })
      const reader = memoryReader({
        diff: [BEACON_ROOTS, BLOCK_HASHES].map((at) => ({ ...contract!, address: hexToBytes(at) })),
      })
      const open = openBlock({
        engine,
        chain: testChain(),
        reader,
        attributes: ATTRIBUTES,
      })
      await open.start()
      expect((await open.diff()).map((change) => [change.address, change.slots[0]!.after])).toEqual(
        [
          [hexToBytes(BEACON_ROOTS), ATTRIBUTES.parentBeaconBlockRoot],
          [hexToBytes(BLOCK_HASHES), ATTRIBUTES.parentHash],
        ],
      )
      expect(open.gasUsed).toBe(0n)
    })

    test('has the sums, receipts root and header of its transactions', async () => {
      const { block: open } = block({ l1: L1, accounts: { 3: { code: '602a5f5260205fa0' } } })
      await open.execute(deposit())
      await open.execute(transaction({ to: address(3) }))
      const sums = open.sums()
      expect(sums.gasUsed).toBe(open.executed[1]!.receipt.cumulativeGasUsed)
      expect(sums.receiptsRoot).toEqual(
        orderedRoot(open.executed.map(({ receipt }) => encodeReceipt(receipt))),
      )
      expect(sums.logsBloom.some((byte) => byte !== 0)).toBe(true)
      const header = buildHeader({
        rules: open.rules,
        attributes: open.attributes,
        sums,
        stateRoot: word(1n),
        withdrawalsRoot: word(2n),
      })
      expect(header).toMatchObject({
        withdrawalsRoot: word(2n),
        blobGasUsed: 40_000n,
        excessBlobGas: 0n,
      })
      expect(encodeHeader(header).length).toBeGreaterThan(600)
    })

    test('can be reverted to a checkpoint, and then gives the same sums again', async () => {
      const { block: open } = block({ l1: L1 })
      const empty = open.checkpoint()
      await open.execute(transaction())
      const one = open.checkpoint()
      const sums = open.sums()
      await open.execute(transaction({ nonce: 1n }))
      expect((await open.diff(one)).length).toBeGreaterThan(0)
      open.revert(one)
      expect(open.sums()).toEqual(sums)
      expect(await open.diff(one)).toEqual([])
      open.revert(empty)
      expect(await open.diff()).toEqual([])
      await open.execute(transaction())
      expect(open.sums()).toEqual(sums)
    })

    test('is unchanged by a transaction that was stopped', async () => {
      const { block: open } = block({ accounts: { 3: { code: '5b5f56' } } })
      const spin = transaction({ to: address(3), input: bytes('01') })
      expect(await open.execute(spin, { isExpired: () => true })).toEqual({
        status: 'stopped',
        why: 'deadline',
      })
      expect(await open.diff()).toEqual([])
      expect(await open.execute(spin)).toMatchObject({
        status: 'executed',
        executed: { receipt: { status: 0, gasUsed: 100_000n } },
      })
    })
  })

  describe('a contract in an OP block reads', () => {
    const { prevRandao, coinbase, gasLimit, baseFee, number, timestamp } = ATTRIBUTES
    const cases: [name: string, opcode: string, value: bigint][] = [
      ['COINBASE', '41', BigInt(bytesToHex(coinbase))],
      ['TIMESTAMP', '42', timestamp],
      ['NUMBER', '43', number],
      ['PREVRANDAO', '44', BigInt(bytesToHex(prevRandao))],
      ['GASLIMIT', '45', gasLimit],
      ['CHAINID', '46', 196n],
      ['BASEFEE', '48', baseFee],
      ['BLOBBASEFEE, which is 1 without blobs', '4a', 1n],
      ['BLOBHASH', '5f49', 0n],
      ['GASPRICE', '3a', 9n],
    ]
    test.each(cases)('%s', async (_, code, value) => {
      // The code stores the value plus 1, because a slot that stays 0 is no change.
      const { block: open } = block({ l1: L1, accounts: { 3: { code: `${code}6001015f55` } } })
      expect((await open.execute(transaction({ to: address(3) }))).status).toBe('executed')
      const change = (await open.diff()).find(
        (each) => Buffer.compare(each.address, address(3)) === 0,
      )
      expect(change!.slots[0]!.after).toEqual(word(value + 1n))
    })
  })

  describe('a deposit', () => {
    const DEPOSITOR = address(0xd0)
    const accounts = {
      3: { code: '00' },
      4: { code: '60015f55 5f5ffd' },
      5: { code: '60015f55 fe' },
      208: { balance: 10n, nonce: 6n },
    }
    const cases: [
      name: string,
      changes: Parameters<typeof deposit>[0],
      expected: { status: 0 | 1; gasUsed: bigint; balance: bigint },
    ][] = [
      ['success', { to: address(3) }, { status: 1, gasUsed: 21_000n, balance: 10n }],
      [
        'mint',
        { to: address(3), mint: 5n, value: 12n },
        { status: 1, gasUsed: 21_000n, balance: 3n },
      ],
      [
        'a revert keeps the mint',
        { to: address(4), mint: 5n, value: 1n },
        { status: 0, gasUsed: 43_109n, balance: 15n },
      ],
      [
        'a halt uses all gas',
        { to: address(5), mint: 5n },
        { status: 0, gasUsed: 100_000n, balance: 15n },
      ],
      [
        'a value above the balance',
        { to: address(3), mint: 5n, value: 16n },
        { status: 0, gasUsed: 100_000n, balance: 15n },
      ],
      [
        'less than the intrinsic gas',
        { to: address(3), mint: 5n, gasLimit: 20_000n },
        { status: 0, gasUsed: 20_000n, balance: 15n },
      ],
      [
        'creation',
        { to: undefined, input: bytes('00') },
        { status: 1, gasUsed: 53_006n, balance: 10n },
      ],
    ]
    test.each(cases)('is executed: %s', async (_, changes, { status, gasUsed, balance }) => {
      const { block: open } = block({ l1: L1, accounts })
      const result = await open.execute(deposit(changes))
      expect(result).toMatchObject({
        status: 'executed',
        executed: {
          receipt: {
            status,
            gasUsed,
            effectiveGasPrice: 0n,
            depositNonce: 6n,
            depositReceiptVersion: 1n,
            l1: { l1Fee: 0n },
          },
        },
      })
      const diff = await open.diff()
      const sender = diff.find((change) => Buffer.compare(change.address, DEPOSITOR) === 0)
      expect(sender!.after).toMatchObject({ nonce: 7n, balance })
      expect(open.sums().blobGasUsed).toBe(0n)
      // Neither the coinbase nor a vault changes.
      expect(diff.length).toBeLessThanOrEqual(2)
    })

    const LAST = 2n ** 64n - 1n
    test.each([
      // The creation does not start, like in op-geth: its gas is returned, and the nonce stays.
      ['a creation', { to: undefined, input: bytes('00') }, 0, 53_006n, LAST],
      ['a transfer', { to: address(3) }, 1, 21_000n, 0n],
      ['a deposit that fails', { to: address(3), gasLimit: 20_000n }, 0, 20_000n, 0n],
    ])(
      'at the last nonce is executed as in op-geth: %s',
      async (_, changes, status, gasUsed, nonce) => {
        const own = { ...accounts, 208: { balance: 10n, nonce: LAST } }
        const { block: open } = block({ l1: L1, accounts: own })
        const result = await open.execute(deposit({ mint: 5n, ...changes }))
        expect(result).toMatchObject({
          status: 'executed',
          executed: { receipt: { status, gasUsed, depositNonce: LAST } },
        })
        const diff = await open.diff()
        const sender = diff.find((change) => Buffer.compare(change.address, DEPOSITOR) === 0)
        expect(sender!.after).toMatchObject({ nonce, balance: 15n })
      },
    )

    test('of the system is refused after Regolith', async () => {
      const { block: open } = block()
      expect(await open.execute(deposit({ isSystemTransaction: true }))).toEqual({
        status: 'invalid',
        reason: {
          code: 'systemTransaction',
          why: 'rejected',
          message: 'no system transactions allowed after regolith',
        },
      })
      expect(await open.diff()).toEqual([])
    })
  })

  describe('a transaction is invalid with', () => {
    const cases: [changes: Record<string, unknown>, why: string, message: string][] = [
      [{ nonce: 4n }, 'input', 'nonce too low: next nonce 5, tx nonce 4'],
      [{ nonce: 6n }, 'input', 'nonce too high'],
      [{ chainId: 1n }, 'input', 'invalid chain ID'],
      [{ gasLimit: 20_999n }, 'input', 'intrinsic gas too low'],
      [{ gasLimit: 21_100n, input: bytes('01'.repeat(4)) }, 'input', 'intrinsic gas too low'],
      [{ gasLimit: 30_000_001n }, 'input', 'exceeds block gas limit'],
      [
        { maxFeePerGas: 6n, maxPriorityFeePerGas: 0n },
        'input',
        'max fee per gas less than block base fee',
      ],
      [
        { maxFeePerGas: 8n, maxPriorityFeePerGas: 9n },
        'rejected',
        'max priority fee per gas higher than max fee per gas',
      ],
      [
        { to: undefined, input: new Uint8Array(49_153), gasLimit: 3_000_000n },
        'input',
        'max initcode size exceeded',
      ],
      [
        { value: 10n * ETHER },
        'rejected',
        `insufficient funds for gas * price + value: have ${10n * ETHER} want ${10n * ETHER + 2_000_000n + L1_FEE + 40_000_005n}`,
      ],
      [
        { type: 4, to: address(2), authorizationList: [] },
        'rejected',
        'EIP-7702 transaction with empty auth list',
      ],
    ]
    test.each(cases.map(([changes, why, text]) => [text, why, changes] as const))(
      '%s',
      async (message, why, changes) => {
        const { block: open } = block({ nonce: 5n, l1: L1 })
        const result = await open.execute(transaction({ nonce: 5n, ...changes }))
        expect(result).toEqual({
          status: 'invalid',
          reason: { code: expect.any(String), why, message },
        })
        expect(await open.diff()).toEqual([])
        expect(open.executed).toEqual([])
      },
    )

    test('more gas or data than its block has left', async () => {
      const { block: open } = block({ l1: L1, attributes: { gasLimit: 110_000n } })
      await open.execute(transaction())
      expect(await open.execute(transaction({ nonce: 1n }))).toMatchObject({
        reason: { message: 'exceeds block gas limit' },
      })
      const small = { nonce: 1n, gasLimit: 21_000n }
      expect((await open.execute(transaction(small))).status).toBe('executed')
      expect(await open.execute(transaction({ ...small, nonce: 2n }))).toMatchObject({
        reason: { message: 'exceeds block DA footprint limit' },
      })
      const { block: tiny } = block({ l1: L1, attributes: { gasLimit: 39_999n } })
      expect(await tiny.execute(transaction({ gasLimit: 21_000n }))).toMatchObject({
        reason: {
          message: 'DA footprint exceeds block gas limit: footprint 40000, limit 39999',
        },
      })
    })

    test('a contract as its sender, but not with a delegated account', async () => {
      const sender = (code: string) => {
        const opened = block()
        opened.reader.apply([
          {
            address: SENDER,
            before: undefined,
            after: { nonce: 0n, balance: ETHER, codeHash: keccak256(bytes(code)) },
            slots: [],
            code: bytes(code),
          },
        ])
        return opened.block.execute(transaction())
      }
      expect(await sender('00')).toMatchObject({
        reason: { code: 'senderIsContract', why: 'rejected', message: 'sender is not an EOA' },
      })
      expect((await sender(`ef0100${'00'.repeat(20)}`)).status).toBe('executed')
    })
  })

  test('from Osaka on a transaction has at most six blobs, whatever the block takes', () => {
    const rulesAt = rulesOf({
      chainId: 196n,
      schedule: { ...ETHEREUM, osaka: ATTRIBUTES.timestamp },
      elasticity: 2n,
      denominator: 8n,
      blobSchedule: { prague: { target: 6n, max: 9n, updateFraction: 5_007_716n } },
    })
    const reason = (blobs: number, timestamp: bigint) => {
      const hashes = Array.from({ length: blobs }, () => new Uint8Array(32).fill(1))
      const blob = { type: 3, maxFeePerBlobGas: 1n, blobVersionedHashes: hashes }
      return checkForm(transaction(blob), rulesAt(1n, timestamp))?.message
    }
    const osaka = ATTRIBUTES.timestamp
    expect([reason(6, osaka), reason(7, osaka), reason(7, osaka - 1n)]).toEqual([
      undefined,
      'blob transaction has too many blobs',
      undefined,
    ])
  })

  describe('a gasless transaction', () => {
    /** The contract always returns (1, 50000). */
    const ALLOWS = { code: '60015f52 61c350602052 60405ff3' }
    const free = { maxFeePerGas: 0n, maxPriorityFeePerGas: 0n, gasLimit: 50_000n }
    /** The contract stores BASEFEE + 1. */
    const target = { code: '6001 48 01 5f55' }

    test('that is allowed pays nothing, reads BASEFEE as 0, and uses gas and data', async () => {
      const { block: open } = block({ l1: L1, accounts: { 106: ALLOWS, 3: target } })
      const result = await open.execute(transaction({ ...free, to: address(3), value: 1n }))
      expect(result).toMatchObject({ executed: { receipt: { status: 1, effectiveGasPrice: 0n } } })
      const diff = await open.diff()
      expect(diff.map((change) => change.address)).toEqual([SENDER, address(3)])
      expect(diff[1]!.slots[0]!.after).toEqual(word(1n))
      expect(balanceIn(diff, SENDER)).toBe(10n * ETHER - 1n)
      expect(open.gasUsed).toBeGreaterThan(40_000n)
      expect(open.sums().blobGasUsed).toBe(40_000n)
    })

    test('leaves the base fee for the next transaction, which has to pay it', async () => {
      const { block: open } = block({ l1: L1, accounts: { 106: ALLOWS, 3: target, 4: target } })
      const run = (nonce: bigint, changes: object) =>
        open.execute(transaction({ nonce, gasLimit: 50_000n, ...changes }))
      expect(await run(0n, { ...free, to: address(3) })).toMatchObject({ status: 'executed' })
      expect(await run(1n, { to: address(4) })).toMatchObject({ status: 'executed' })
      const stored = (await open.diff()).flatMap(({ slots }) => slots.map(({ after }) => after))
      expect(stored).toEqual(expect.arrayContaining([word(1n), word(ATTRIBUTES.baseFee + 1n)]))
      expect(await run(2n, { ...free, to: address(3), gasLimit: 50_001n })).toMatchObject({
        reason: { message: 'max fee per gas less than block base fee' },
      })
    })

    const refused: [name: string, accounts: Record<number, { code: string }>, changes: object][] = [
      ['no allowlist contract', {}, {}],
      ['gas above the allowance', { 106: ALLOWS }, { gasLimit: 50_001n }],
      [
        'the contract returns 2 instead of true',
        { 106: { code: '60025f52 61c350602052 60405ff3' } },
        {},
      ],
      ['the contract returns too few bytes', { 106: { code: '60015f52 60205ff3' } }, {}],
      ['the contract reverts', { 106: { code: '5f5ffd' } }, {}],
      ['creation', { 106: ALLOWS }, { to: undefined, gasLimit: 60_000n }],
    ]
    test.each(refused)('is refused: %s', async (_, accounts, changes) => {
      const { block: open } = block({ accounts })
      expect(await open.execute(transaction({ ...free, ...changes }))).toMatchObject({
        status: 'invalid',
        reason: { message: 'max fee per gas less than block base fee' },
      })
      expect(await open.diff()).toEqual([])
    })
  })

  test('a transaction can create a contract', async () => {
    const { block: open } = block({ nonce: 3n })
    const result = await open.execute(
      transaction({ nonce: 3n, to: undefined, input: bytes('60015ff3') }),
    )
    const created =
      result.status === 'executed' ? result.executed.receipt.contractAddress! : undefined
    const change = (await open.diff()).find((each) => Buffer.compare(each.address, created!) === 0)
    expect(change!.code).toEqual(bytes('00'))
    expect(change!.after!.nonce).toBe(1n)
  })
})
