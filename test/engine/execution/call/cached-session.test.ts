/**
 * Calls that share a session give the result that each would give alone, in any order, however
 * earlier ones ended.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Session } from '../../../../engine/evm/engine.ts'
import { createCachedSession } from '../../../../engine/execution/call/cached-session.ts'
import { type CallOptions, call } from '../../../../engine/execution/call/call.ts'
import { estimateGas } from '../../../../engine/execution/call/estimate.ts'
import { createAddress } from '../../../../engine/primitives/transaction-codec.ts'
import { bigintToBytes, concatBytes } from '../../../../engine/primitives/words.ts'
import { type StateReader, ViewError } from '../../../../engine/state/reader.ts'
import { latin1, wordsOf } from '../../../../engine/state/words.ts'
import { describeEngines } from '../../../fixtures/engines.ts'
import { testChain } from '../../../fixtures/op-block.ts'
import { address, BLOCK, bytes, push, type WorldAccount, world } from '../../../fixtures/world.ts'

const RETURN_TOP = '5f5260205ff3'
const CHAIN = { ...testChain(), chainId: 196n }
/** The init code runs SSTORE(0, 7), and leaves CALLER as the code's first byte. */
const INIT = '6007 5f55 6133ff 5f52 6002 601e f3'
const initBytes = bytes(INIT).length
/** Stores the init code at 0, left-aligned: PUSH, PUSH0, MSTORE. */
const PUT_INIT = `${(0x60 + initBytes - 1).toString(16)}${INIT} 60${(8 * (32 - initBytes)).toString(16).padStart(2, '0')} 1b 5f52`
const CREATED = createAddress(address(10), 1n)

/** Each contract would affect later calls in another way if its changes were not reverted. */
const CODES: readonly string[] = [
  // 2: counts in slot 0 and returns the count.
  `5f54 6001 01 80 5f55 ${RETURN_TOP}`,
  // 3: counts in transient storage.
  `5f5c 6001 01 80 5f5d ${RETURN_TOP}`,
  // 4: gas before and after a balance, which is cold or warm.
  `5a ${push(2)} 31 50 5a 90 03 ${RETURN_TOP}`,
  // 5: gas of a slot that is read twice.
  `5a 5f54 50 5a 90 03 5a 5f54 50 5a 90 03 60801b 01 ${RETURN_TOP}`,
  // 6: the sender's balance beside its own.
  `33 31 47 60801b 01 ${RETURN_TOP}`,
  // 7: changes slot 0, clears slot 1, logs, and reverts.
  `6009 5f55 5f 6001 55 5f5f a0 602a 5f52 60205ffd`,
  // 8: loops for ever; its deadline has passed.
  '5b 5f 56',
  // 9: uses all gas at once.
  'fe',
  // 10: creates a contract, and calls it.
  `${PUT_INIT} 60${initBytes.toString(16).padStart(2, '0')} 5f 5f f0 80 3b 60a0 1b 17 ${RETURN_TOP}`,
  // 11: whether that contract exists.
  `73${Buffer.from(CREATED).toString('hex')} 3b ${RETURN_TOP}`,
  // 12: gives its balance to the caller, and destroys itself.
  '33 ff',
  // 13: calls 2 and 12, and returns the result of 2.
  `60205f5f5f5f${push(2)}5af1 50 5f5f5f5f5f${push(12)}5af1 50 5f51 ${RETURN_TOP}`,
  // 14: the block, its base fee and the price.
  `43 60401b 48 01 60401b 3a 01 ${RETURN_TOP}`,
  // 15: reads missing state.
  `${push(99)} 31 ${RETURN_TOP}`,
  // 16: reads state that is gone.
  `${push(98)} 31 ${RETURN_TOP}`,
]
const ACCOUNTS: Readonly<Record<number, WorldAccount>> = {
  1: { balance: 10n ** 18n, nonce: 3n },
  ...Object.fromEntries(
    CODES.map((code, index) => [
      index + 2,
      { code, balance: 5n, nonce: 1n, storage: { 0: 7n, 1: 8n } },
    ]),
  ),
}

function reader(): StateReader {
  const full = world(ACCOUNTS)
  const [missing, gone] = [99, 98].map((number) => latin1(wordsOf(address(number))))
  return {
    ...full,
    account(words, out, at) {
      const name = latin1(words)
      if (name === missing) return 'missing'
      if (name === gone) throw new ViewError('gone', 'snapshot 7 is gone')
      return full.account(words, out, at)
    },
  }
}

const ENDLESS = 8

type CallCase = {
  readonly to: number
  readonly request: CallOptions['request']
  readonly kind: 'call' | 'estimate' | 'overridden'
}
const requested: fc.Arbitrary<CallCase> = fc.record({
  to: fc.integer({ min: 1, max: CODES.length + 1 }),
  request: fc.record(
    {
      from: fc.constantFrom(address(1), address(2), address(0x77)),
      value: fc.constantFrom(1n, 4n, 10n ** 19n),
      gas: fc.constantFrom(21_000n, 30_000n, 100_000n),
      gasPrice: fc.constantFrom(3n, 9n),
      maxFeePerBlobGas: fc.constant(0n),
      input: fc.uint8Array({ maxLength: 40 }).map((data) => concatBytes(data)),
      accessList: fc.constant([{ address: address(2), storageKeys: [bigintToBytes(0n, 32)] }]),
    },
    { requiredKeys: [] },
  ),
  kind: fc.constantFrom('call', 'call', 'call', 'estimate', 'overridden'),
})

describeEngines((engine) => {
  const shared = (onOpen = () => {}) => {
    const state = reader()
    const cached = createCachedSession(state, (counting): Session => {
      onOpen()
      return engine.openSession(counting, BLOCK, CHAIN.rulesAt(BLOCK.number, BLOCK.timestamp).evm)
    })
    return { state, cached }
  }

  async function respond(one: CallCase, given: Partial<CallOptions>): Promise<unknown> {
    const options: CallOptions = {
      engine,
      chain: CHAIN,
      env: BLOCK,
      reader: reader(),
      gasCap: 20_000_000n,
      request: {
        from: address(1),
        to: address(one.to),
        ...one.request,
        ...(one.to === ENDLESS ? { gas: 10_000_000n } : {}),
      },
      limits: { isExpired: () => one.to === ENDLESS },
      ...(one.kind === 'overridden'
        ? { stateOverrides: [{ address: address(2), nonce: 9n }] }
        : {}),
      ...given,
    }
    try {
      return await (one.kind === 'estimate' ? estimateGas(options) : call(options))
    } catch (error) {
      return String(error)
    }
  }

  test('calls in one shared session have the results of calls alone', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(requested, { minLength: 2, maxLength: 12 }), async (all) => {
        const { state, cached } = shared()
        for (const one of all)
          expect(await respond(one, { reader: state, cached })).toEqual(await respond(one, {}))
        cached.close()
        expect(engine.open).toBe(0)
      }),
      { numRuns: 150 },
    )
  })

  describe('the shared session', () => {
    const one = (to: number): CallCase => ({ to, request: {}, kind: 'call' })
    const opens = async (...all: readonly CallCase[]) => {
      let opened = 0
      const { state, cached } = shared(() => opened++)
      for (const each of all) await respond(each, { reader: state, cached })
      cached.close()
      expect(engine.open).toBe(0)
      return opened
    }

    test('is opened once for calls that end by themselves, whatever their result', async () => {
      expect(await opens(one(2), one(7), one(9), one(3), { ...one(4), kind: 'estimate' })).toBe(1)
    })

    test('is closed after a call that was stopped, lost its view or missed state', async () => {
      expect(await opens(one(2), one(ENDLESS), one(2))).toBe(2)
      expect(await opens(one(15), one(2))).toBe(2)
      expect(await opens(one(16), one(2), one(16))).toBe(2)
    })

    test('is not used for overrides, tracers or another state', async () => {
      expect(await opens({ ...one(2), kind: 'overridden' })).toBe(0)
      let opened = 0
      const { state, cached } = shared(() => opened++)
      await respond(one(2), { cached })
      await respond(one(2), { reader: state, cached, tracer: { sink: {} } })
      await respond(one(2), { reader: state, cached, blockOverrides: {} })
      expect(opened).toBe(0)
    })

    test('is closed when it holds too much', async () => {
      // The code reads each slot below 5,000.
      const code = '5f 5b 80 54 50 6001 01 80 611388 11 6001 57'
      const state = world({ 1: { balance: 1n }, 2: { code }, 3: { code: CODES[0]! } })
      let opened = 0
      const cached = createCachedSession(state, (counting) => {
        opened++
        return engine.openSession(counting, BLOCK, CHAIN.rulesAt(BLOCK.number, 1n).evm)
      })
      const given = { reader: state, cached, gasCap: 50_000_000n }
      for (const to of [3, 3, 2]) await respond(one(to), given)
      expect(opened).toBe(1)
      for (const to of [2, 3]) await respond(one(to), given)
      expect(opened).toBe(3)
      cached.close()
    })
  })
})
