/** Calls that share a session answer what each would answer alone, in any order, whatever ended those before. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Session } from '../../../../engine/evm/engine.ts'
import { type CallOptions, call } from '../../../../engine/execution/call/call.ts'
import { estimateGas } from '../../../../engine/execution/call/estimate.ts'
import { keptSession } from '../../../../engine/execution/call/kept-session.ts'
import { createAddress } from '../../../../engine/primitives/transaction-codec.ts'
import { bigintToBytes, concatBytes } from '../../../../engine/primitives/words.ts'
import { type StateReader, ViewError } from '../../../../engine/state/reader.ts'
import { latin1, wordsOf } from '../../../../engine/state/words.ts'
import { describeEngines } from '../../../fixtures/engines.ts'
import { testChain } from '../../../fixtures/op-block.ts'
import { address, BLOCK, bytes, push, type WorldAccount, world } from '../../../fixtures/world.ts'

const RETURN_TOP = '5f5260205ff3'
const CHAIN = { ...testChain(), chainId: 196n }
/** What init code leaves: SSTORE(0, 7), then CALLER as the code's first byte. */
const INIT = '6007 5f55 6133ff 5f52 6002 601e f3'
const initBytes = bytes(INIT).length
/** MSTORE of the init code at 0, left-aligned: PUSH, PUSH0, MSTORE. */
const PUT_INIT = `${(0x60 + initBytes - 1).toString(16)}${INIT} 60${(8 * (32 - initBytes)).toString(16).padStart(2, '0')} 1b 5f52`
const CREATED = createAddress(address(10), 1n)

/** Each leaves a trace of another kind for whoever comes after it, if something is left. */
const CODES: readonly string[] = [
  // 2: counts in slot 0 and gives it.
  `5f54 6001 01 80 5f55 ${RETURN_TOP}`,
  // 3: the same in transient storage.
  `5f5c 6001 01 80 5f5d ${RETURN_TOP}`,
  // 4: gas before and after a balance: cold or warm.
  `5a ${push(2)} 31 50 5a 90 03 ${RETURN_TOP}`,
  // 5: gas of a slot, read twice.
  `5a 5f54 50 5a 90 03 5a 5f54 50 5a 90 03 60801b 01 ${RETURN_TOP}`,
  // 6: balance of the sender beside the own one.
  `33 31 47 60801b 01 ${RETURN_TOP}`,
  // 7: changes slot 0, clears slot 1, logs, and takes it back.
  `6009 5f55 5f 6001 55 5f5f a0 602a 5f52 60205ffd`,
  // 8: for ever; its deadline has passed.
  '5b 5f 56',
  // 9: all gas at once.
  'fe',
  // 10: creates a contract, and calls what it has made.
  `${PUT_INIT} 60${initBytes.toString(16).padStart(2, '0')} 5f 5f f0 80 3b 60a0 1b 17 ${RETURN_TOP}`,
  // 11: whether that contract is there.
  `73${Buffer.from(CREATED).toString('hex')} 3b ${RETURN_TOP}`,
  // 12: gives all it has to the caller, and goes.
  '33 ff',
  // 13: calls 2 and 12, and gives what 2 said.
  `60205f5f5f5f${push(2)}5af1 50 5f5f5f5f5f${push(12)}5af1 50 5f51 ${RETURN_TOP}`,
  // 14: the block, its base fee and the price.
  `43 60401b 48 01 60401b 3a 01 ${RETURN_TOP}`,
  // 15: what is missing.
  `${push(99)} 31 ${RETURN_TOP}`,
  // 16: what is gone.
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
  const whole = world(ACCOUNTS)
  const [missing, gone] = [99, 98].map((number) => latin1(wordsOf(address(number))))
  return {
    ...whole,
    account(words, out, at) {
      const name = latin1(words)
      if (name === missing) return 'missing'
      if (name === gone) throw new ViewError('gone', 'record 7 is gone')
      return whole.account(words, out, at)
    },
  }
}

const ENDLESS = 8

type Asked = {
  readonly to: number
  readonly request: CallOptions['request']
  readonly kind: 'call' | 'estimate' | 'overridden'
}
const asked: fc.Arbitrary<Asked> = fc.record({
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
    const kept = keptSession(state, (counting): Session => {
      onOpen()
      return engine.openSession(counting, BLOCK, CHAIN.rulesAt(BLOCK.number, BLOCK.timestamp).evm)
    })
    return { state, kept }
  }

  async function answer(one: Asked, given: Partial<CallOptions>): Promise<unknown> {
    const options: CallOptions = {
      ...{ engine, chain: CHAIN, env: BLOCK, reader: reader(), gasCap: 20_000_000n },
      request: {
        ...{ from: address(1), to: address(one.to) },
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

  test('property: in one session as alone', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(asked, { minLength: 2, maxLength: 12 }), async (all) => {
        const { state, kept } = shared()
        for (const one of all)
          expect(await answer(one, { reader: state, kept })).toEqual(await answer(one, {}))
        kept.close()
        expect(engine.open).toBe(0)
      }),
      { numRuns: 150 },
    )
  })

  describe('the session', () => {
    const one = (to: number): Asked => ({ to, request: {}, kind: 'call' })
    const opens = async (...all: readonly Asked[]) => {
      let opened = 0
      const { state, kept } = shared(() => opened++)
      for (const each of all) await answer(each, { reader: state, kept })
      kept.close()
      expect(engine.open).toBe(0)
      return opened
    }

    test('is opened once for calls that end by themselves, whatever they say', async () => {
      expect(await opens(one(2), one(7), one(9), one(3), { ...one(4), kind: 'estimate' })).toBe(1)
    })

    test('goes with a call that was stopped, lost its view or missed something', async () => {
      expect(await opens(one(2), one(ENDLESS), one(2))).toBe(2)
      expect(await opens(one(15), one(2))).toBe(2)
      expect(await opens(one(16), one(2), one(16))).toBe(2)
    })

    test('is not for calls with overrides, tracers or another state', async () => {
      expect(await opens({ ...one(2), kind: 'overridden' })).toBe(0)
      let opened = 0
      const { state, kept } = shared(() => opened++)
      await answer(one(2), { kept })
      await answer(one(2), { reader: state, kept, tracer: { sink: {} } })
      await answer(one(2), { reader: state, kept, blockOverrides: {} })
      expect(opened).toBe(0)
    })

    test('goes when it holds too much', async () => {
      // Reads each slot below 5,000.
      const code = '5f 5b 80 54 50 6001 01 80 611388 11 6001 57'
      const state = world({ 1: { balance: 1n }, 2: { code }, 3: { code: CODES[0]! } })
      let opened = 0
      const kept = keptSession(state, (counting) => {
        opened++
        return engine.openSession(counting, BLOCK, CHAIN.rulesAt(BLOCK.number, 1n).evm)
      })
      const given = { reader: state, kept, gasCap: 50_000_000n }
      for (const to of [3, 3, 2]) await answer(one(to), given)
      expect(opened).toBe(1)
      for (const to of [2, 3]) await answer(one(to), given)
      expect(opened).toBe(3)
      kept.close()
    })
  })
})
