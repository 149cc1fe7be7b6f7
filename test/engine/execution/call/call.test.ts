import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { revertReason } from '../../../../engine/evm/revert-reason.ts'
import {
  type CallOptions,
  type CallRequest,
  type CallResult,
  call,
} from '../../../../engine/execution/call/call.ts'
import { estimateGas } from '../../../../engine/execution/call/estimate.ts'
import { bytesToHex, hexToBytes } from '../../../../engine/primitives/hex.ts'
import { checksumAddress, EMPTY_HASH } from '../../../../engine/primitives/keccak.ts'
import { addressOfKey, authorizationHash, sign } from '../../../../engine/primitives/signature.ts'
import { bytesToBigint } from '../../../../engine/primitives/words.ts'
import { overlayReader } from '../../../../engine/state/overlay.ts'
import { ViewError } from '../../../../engine/state/reader.ts'
import { describeEngines } from '../../../fixtures/engines.ts'
import { ETHER, testChain } from '../../../fixtures/op-block.ts'
import {
  address,
  BLOCK,
  bytes,
  push,
  type WorldAccount,
  word,
  world,
} from '../../../fixtures/world.ts'

describeEngines((engine) => {
  const RETURN_TOP = '5f5260205ff3'
  const who = checksumAddress(address(1))

  function options(
    request: CallRequest,
    accounts: Record<number, WorldAccount> = {},
    changes: Partial<CallOptions> = {},
  ): CallOptions {
    return {
      engine,
      chain: { ...testChain(), chainId: 196n },
      env: BLOCK,
      reader: world({ 1: { balance: ETHER }, ...accounts }),
      request: { from: address(1), to: address(2), ...request },
      gasCap: 50_000_000n,
      limits: {},
      ...changes,
    }
  }
  const run = async (...given: Parameters<typeof options>): Promise<CallResult> =>
    call(options(...given))
  const returned = async (...given: Parameters<typeof options>): Promise<bigint> => {
    const result = await run(...given)
    if (result.status !== 'success') throw new Error(JSON.stringify(result))
    return bytesToBigint(result.output)
  }

  describe('a call', () => {
    test('has the gas cap by default, and never more', async () => {
      const gas = { 2: { code: `5a${RETURN_TOP}` } }
      const cost = 21_000n + 2n
      expect(await returned({}, gas)).toBe(50_000_000n - cost)
      expect(await returned({ gas: 60_000_000n }, gas)).toBe(50_000_000n - cost)
      expect(await returned({ gas: 100_000n }, gas)).toBe(100_000n - cost)
      expect(await returned({ gasPrice: 10n }, gas)).toBe(50_000_000n - cost)
      // With a fee as without one, a caller that cannot pay for the cap gets an error.
      for (const balance of [0n, 1_000_000n, 499_999_999n])
        expect(await run({ gasPrice: 10n }, { ...gas, 1: { balance } })).toEqual({
          status: 'refused',
          message: `err: insufficient funds for gas * price + value: address ${who} have ${balance} want 500000000 (supplied gas 50000000)`,
        })
      const just = { ...gas, 1: { balance: 500_000_000n } }
      expect(await returned({ gasPrice: 10n }, just)).toBe(50_000_000n - cost)
    })

    test('without a price reads BASEFEE and price as 0, and with one as they are', async () => {
      const both = { 2: { code: `48 60801b 3a 01 ${RETURN_TOP}` } }
      expect(await returned({}, both)).toBe(0n)
      expect(await returned({ gasPrice: 9n }, both)).toBe((7n << 128n) + 9n)
      expect(await returned({ maxFeePerGas: 20n, maxPriorityFeePerGas: 2n }, both)).toBe(
        (7n << 128n) + 9n,
      )
      expect(await returned({ maxFeePerGas: 8n, maxPriorityFeePerGas: 2n }, both)).toBe(
        (7n << 128n) + 8n,
      )
    })

    const refusals: [request: CallRequest, message: string][] = [
      [
        { gasPrice: 1n, maxFeePerGas: 1n },
        'both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified',
      ],
      [{ chainId: 5n }, "chainId does not match node's (have=5, want=196)"],
      [{ gas: 20_480n }, 'err: intrinsic gas too low: have 20480, want 21000 (supplied gas 20480)'],
      [
        { value: 2n * ETHER },
        `err: insufficient funds for gas * price + value: address ${who} have ${ETHER} want ${2n * ETHER} (supplied gas 50000000)`,
      ],
      [
        { gas: 30_000n, maxFeePerGas: 8n, maxPriorityFeePerGas: 9n },
        `err: max priority fee per gas higher than max fee per gas: address ${who}, maxPriorityFeePerGas: 9, maxFeePerGas: 8 (supplied gas 30000)`,
      ],
      [
        { gas: 30_000n, gasPrice: 6n },
        `err: max fee per gas less than block base fee: address ${who}, maxFeePerGas: 6, baseFee: 7 (supplied gas 30000)`,
      ],
      [
        { gas: 30_000n, gasPrice: 2n ** 255n },
        `err: insufficient funds for gas * price + value: address ${who} required balance exceeds 256 bits (supplied gas 30000)`,
      ],
      [
        { gas: 30_000n, authorizationList: [] },
        `err: EIP-7702 transaction with empty auth list (sender ${who}) (supplied gas 30000)`,
      ],
      [
        { gas: 30_000n, blobVersionedHashes: [] },
        'err: blob transaction missing blob hashes (supplied gas 30000)',
      ],
      [
        { gas: 30_000n, blobVersionedHashes: [word(1n << 248n), word(2n << 248n)] },
        'err: blob 1 has invalid hash version (supplied gas 30000)',
      ],
    ]
    test.each(refusals.map(([request, message]) => [message, request] as const))(
      '%s',
      async (message, request) => {
        expect(await run(request)).toEqual({ status: 'refused', message })
      },
    )

    const one = { chainId: 0n, address: address(7), nonce: 0n, yParity: 0n, r: 1n, s: 1n }
    const blob = word(1n << 248n)
    test.each<[CallRequest, string]>([
      [
        { authorizationList: [one] },
        `err: EIP-7702 transaction cannot be used to create contract (sender ${who}) (supplied gas 50000000)`,
      ],
      [
        { blobVersionedHashes: [blob] },
        'err: blob transaction of type create (supplied gas 50000000)',
      ],
    ])('with a list that is not allowed creates no contract: %#', async (list, message) => {
      const { to: _, ...request } = options({ input: bytes('00'), ...list }).request
      expect(await call({ ...options({}), request })).toEqual({ status: 'refused', message })
    })

    test('pays for blobs at the price of the block only when it names a price', async () => {
      const read = { 2: { code: `4a${RETURN_TOP}` } }
      const env = { ...BLOCK, blobBaseFee: 5n }
      const blobs = { blobVersionedHashes: [blob] }
      expect(await returned(blobs, read, { env })).toBe(0n)
      expect(await returned({ ...blobs, maxFeePerBlobGas: 0n }, read, { env })).toBe(0n)
      expect(await returned({ ...blobs, maxFeePerBlobGas: 5n }, read, { env })).toBe(5n)
      expect(await returned({}, read, { env })).toBe(5n)
      expect(await run({ ...blobs, maxFeePerBlobGas: 4n }, read, { env })).toEqual({
        status: 'refused',
        message: `err: max fee per blob gas less than block blob gas fee: address ${who} blobGasFeeCap: 4, blobBaseFee: 5 (supplied gas 50000000)`,
      })
    })

    test('that creates fails at the last nonce, and another call succeeds', async () => {
      const last = { 1: { balance: ETHER, nonce: 2n ** 64n - 1n } }
      const { to: _, ...creation } = options({ input: bytes('00') }).request
      const failed = { status: 'refused', message: 'nonce uint64 overflow' }
      expect(await call({ ...options({}, last), request: creation })).toEqual(failed)
      expect(await estimateGas({ ...options({}, last), request: creation })).toEqual(failed)
      expect(await run({}, last)).toMatchObject({ status: 'success' })
    })

    test('can have a contract as its sender, with any nonce', async () => {
      expect(await run({ from: address(2) }, { 2: { code: '00', nonce: 9n } })).toMatchObject({
        status: 'success',
      })
    })

    test('that halts is refused in geth’s words, and a revert has data and reason', async () => {
      expect(await run({}, { 2: { code: 'fe' } })).toEqual({
        status: 'refused',
        message: 'invalid opcode: INVALID',
      })
      expect(await run({}, { 2: { code: '602a5f52 60205ffd' } })).toEqual({
        status: 'revert',
        output: word(42n),
        reason: undefined,
      })
    })

    test('is stopped at its deadline, and fails with a view that is gone', async () => {
      const spin = { 2: { code: '5b5f56' } }
      expect(await run({}, spin, { limits: { isExpired: () => true } })).toEqual({
        status: 'stopped',
        why: 'deadline',
      })
      const reader = {
        ...world({}),
        account: () => {
          throw new ViewError('gone', 'recycled')
        },
      }
      await expect(async () => run({}, {}, { reader })).rejects.toThrow(ViewError)
    })
  })

  describe('an override', () => {
    const store = { code: `5f54 600154 01 ${RETURN_TOP}`, storage: { 0: 1n, 1: 2n } }
    const over = (changes: object) => ({ stateOverrides: [{ address: address(2), ...changes }] })

    test('of stateDiff replaces slots, and one of state replaces the whole storage', async () => {
      expect(await returned({}, { 2: store })).toBe(3n)
      expect(await returned({}, { 2: store }, over({ stateDiff: [[word(0n), word(10n)]] }))).toBe(
        12n,
      )
      expect(await returned({}, { 2: store }, over({ state: [[word(0n), word(10n)]] }))).toBe(10n)
      expect(await returned({}, { 2: store }, over({ state: [] }))).toBe(0n)
    })

    test('gives an absent account a balance, a nonce and code', async () => {
      const code = bytes(`4700${RETURN_TOP}`.replace('00', ''))
      expect(await returned({}, {}, over({ balance: 77n, code }))).toBe(77n)
      const create = bytes(`5f5f5ff0${RETURN_TOP}`)
      const created = await returned({}, {}, over({ nonce: 5n, code: create }))
      expect(created).not.toBe(await returned({}, {}, over({ nonce: 6n, code: create })))
    })

    test('of both state and stateDiff is refused', async () => {
      expect(await run({}, {}, over({ state: [], stateDiff: [] }))).toEqual({
        status: 'refused',
        message: `account ${checksumAddress(address(2))} has both 'state' and 'stateDiff'`,
      })
    })

    test('moves a precompiled contract, whose address can be replaced', async () => {
      const identity = hexToBytes(`0x${'00'.repeat(19)}04`)
      const move = {
        address: identity,
        movePrecompileToAddress: address(9),
        code: bytes(`602a${RETURN_TOP}`),
      }
      const stateOverrides = [move]
      const input = word(5n)
      expect(await returned({ to: address(9), input }, {}, { stateOverrides })).toBe(5n)
      expect(await returned({ to: identity, input }, {}, { stateOverrides })).toBe(42n)
      expect(
        await run({}, {}, { stateOverrides: [{ ...move, address: address(3) }] }),
      ).toMatchObject({
        message: `account ${checksumAddress(address(3))} is not a precompile`,
      })
      expect(await run({}, {}, { stateOverrides: [move, { address: address(9) }] })).toMatchObject({
        message: `account ${checksumAddress(address(9))} is already overridden`,
      })
    })

    describe('makes an account exist as in geth, for the refund of an authorization:', () => {
      const key = hexToBytes(`0x${'11'.repeat(32)}`)
      const authority = addressOfKey(key)
      const fields = { chainId: 196n, address: address(7), nonce: 0n }
      const { r, s, yParity } = sign(authorizationHash(fields), key)
      const authorizationList = [{ ...fields, r, s, yParity: BigInt(yParity) }]
      const cases: [override: string, changes: object | undefined, isThere: boolean][] = [
        ['no override', undefined, false],
        ['an empty override', {}, false],
        ['nonce 0', { nonce: 0n }, true],
        ['balance 0', { balance: 0n }, true],
        ['no code', { code: bytes('') }, true],
        ['an empty state', { state: [] }, true],
        ['a state of zeros', { state: [[word(1n), word(0n)]] }, true],
        ['a state', { state: [[word(1n), word(1n)]] }, true],
        ['an empty stateDiff', { stateDiff: [] }, false],
        ['a stateDiff of zeros', { stateDiff: [[word(1n), word(0n)]] }, true],
        ['a stateDiff', { stateDiff: [[word(1n), word(1n)]] }, true],
      ]
      // At most a fifth of the gas is refunded.
      const [full, refunded] = [46_000n, 36_800n]
      test.each(cases)('%s', async (_, changes, isThere) => {
        const stateOverrides = changes === undefined ? [] : [{ address: authority, ...changes }]
        const gasUsed = isThere ? refunded : full
        expect(await run({ authorizationList }, {}, { stateOverrides })).toMatchObject({ gasUsed })
        // EXTCODEHASH and the price of a sent value treat an empty account as empty (EIP-161).
        const target = bytesToHex(authority).slice(2)
        const hash = { 2: { code: `73${target}3f${RETURN_TOP}` } }
        expect(await returned({}, hash, { stateOverrides })).toBe(0n)
        const pay = { 2: { code: `5f5f5f5f600173${target}5a f1 00`, balance: 1n } }
        expect(await run({}, pay, { stateOverrides })).toEqual(await run({}, pay))
      })

      test('an existing account without an override', async () => {
        const reader = overlayReader(
          [
            {
              address: authority,
              before: undefined,
              after: { nonce: 0n, balance: 1n, codeHash: EMPTY_HASH },
              slots: [],
              code: undefined,
            },
          ],
          world({ 1: { balance: ETHER } }),
        )
        expect(await run({ authorizationList }, {}, { reader })).toMatchObject({
          gasUsed: refunded,
        })
      })
    })

    const block: [opcode: string, overrides: CallOptions['blockOverrides'], value: bigint][] = [
      ['43', { number: 5n }, 5n],
      ['42', { time: 6n }, 6n],
      ['45', { gasLimit: 7n }, 7n],
      ['41', { feeRecipient: address(8) }, bytesToBigint(address(8))],
      ['44', { prevRandao: word(9n) }, 9n],
      ['4a', { blobBaseFee: 11n }, 11n],
      ['6063 40', { blockHash: [[99n, word(12n)]] }, 12n],
    ]
    test.each(block)('of the block is read by opcode %s', async (opcode, blockOverrides, value) => {
      const chain = {
        ...testChain(),
        chainId: 196n,
        rulesAt: () => testChain().rulesAt(BLOCK.number, BLOCK.timestamp),
      }
      expect(
        await returned(
          {},
          { 2: { code: opcode + RETURN_TOP } },
          { blockOverrides: blockOverrides!, chain },
        ),
      ).toBe(value)
    })

    test('of the base fee counts only for a call with a price', async () => {
      const blockOverrides = { baseFeePerGas: 10n }
      expect(await run({ gas: 30_000n, gasPrice: 9n }, {}, { blockOverrides })).toMatchObject({
        status: 'refused',
      })
      expect(
        await returned({ gasPrice: 11n }, { 2: { code: `48${RETURN_TOP}` } }, { blockOverrides }),
      ).toBe(10n)
    })
  })

  describe('a revert reason', () => {
    const error = '08c379a0'
    const text = (value: string) => Buffer.from(value).toString('hex')
    const cases: [name: string, data: string, reason: string | undefined][] = [
      [
        'Error(string)',
        `${error}${'20'.padStart(64, '0')}${'3'.padStart(64, '0')}${text('bad')}`,
        'bad',
      ],
      [
        'an Error that is cut short',
        `${error}${'20'.padStart(64, '0')}${'4'.padStart(64, '0')}${text('bad')}`,
        undefined,
      ],
      ['an Error with an offset out of range', `${error}${'ff'.repeat(32)}`, undefined],
      ['Panic 1', `4e487b71${'1'.padStart(64, '0')}`, 'assert(false)'],
      ['Panic 0x12', `4e487b71${'12'.padStart(64, '0')}`, 'division or modulo by zero'],
      ['Panic 0x99', `4e487b71${'99'.padStart(64, '0')}`, 'unknown panic code: 0x99'],
      ['custom', 'deadbeef', undefined],
      ['nothing', '', undefined],
    ]
    test.each(cases)('is read from %s', (_, data, reason) => {
      expect(revertReason(bytes(data))).toBe(reason)
    })
  })

  describe('an estimate', () => {
    const estimate = async (...given: Parameters<typeof options>) => estimateGas(options(...given))

    test('is right for a transfer, for failures and for allowances', async () => {
      expect(await estimate({ value: 1n })).toEqual({ status: 'success', gas: 21_000n })
      expect(await estimate({}, { 2: { code: 'fe' } })).toMatchObject({
        status: 'refused',
        message: 'invalid opcode: INVALID',
      })
      expect(await estimate({}, { 2: { code: '5b5f56' } })).toMatchObject({
        message: 'gas required exceeds allowance (30000000)',
      })
      expect(await estimate({ gas: 22_000n }, { 2: { code: '60015f55' } })).toMatchObject({
        message: 'gas required exceeds allowance (22000)',
      })
      expect(
        await estimate({ gasPrice: 10n }, { 1: { balance: 300_000n }, 2: { code: '60015f55' } }),
      ).toMatchObject({
        message: 'gas required exceeds allowance (30000)',
      })
      expect(await estimate({ value: 5n, gasPrice: 10n }, { 1: { balance: 5n } })).toMatchObject({
        message: 'insufficient funds for transfer',
      })
      expect(await estimate({}, { 2: { code: '5f5ffd' } })).toMatchObject({ status: 'revert' })
    })

    test('has one deadline for its whole search', async () => {
      // The call succeeds only with more gas than it uses, so that the search runs many times.
      const code = '62989680 5a 11 600c 57 5f5ffd 5b00'
      let checks = 0
      const isExpired = () => ++checks > 2
      const result = await estimate({}, { 2: { code } }, { limits: { isExpired } })
      expect(result).toEqual({ status: 'stopped', why: 'deadline' })
    })

    test('suffices, and 2 % less gas does not', async () => {
      const slots = fc.array(fc.tuple(fc.nat(5), fc.nat(2)), { maxLength: 6 })
      await fc.assert(
        fc.asyncProperty(
          slots,
          fc.nat(3),
          fc.uint8Array({ maxLength: 40 }),
          async (writes, depth, input) => {
            const stores = writes.map(([key, value]) => `60${hex(value)}60${hex(key)}55`).join('')
            // The code reverts when the inner call fails; otherwise less gas would suffice.
            const calls = depth > 0 ? `5f5f5f5f5f${push(3)}5af1 602257 5f5ffd 5b` : ''
            const accounts = {
              2: { code: calls + stores, storage: { 0: 1n, 1: 1n } },
              3: { code: stores, storage: { 2: 2n } },
            }
            const result = await estimate({ input }, accounts)
            if (result.status !== 'success') throw new Error(JSON.stringify(result))
            const succeeds = async (gas: bigint) =>
              (await run({ input, gas }, accounts)).status === 'success'
            expect(await succeeds(result.gas)).toBe(true)
            expect(await succeeds((result.gas * 98n) / 100n)).toBe(false)
          },
        ),
        { numRuns: 40 },
      )
    })
  })

  const hex = (byte: number) => byte.toString(16).padStart(2, '0')
})
