/** eth_createAccessList lists what a message touches, and is stable under its own list. */
import { describe, expect, test } from 'vitest'
import { createAccessList } from '../../../../engine/execution/call/access-list.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { addressOfKey, authorizationHash, sign } from '../../../../engine/primitives/signature.ts'
import { describeEngines } from '../../../fixtures/engines.ts'
import { CHAIN } from '../../../fixtures/producer.ts'
import { address, BLOCK, push, type WorldAccount, word, world } from '../../../fixtures/world.ts'

describeEngines((engine) => {
  async function touched(accounts: Record<number, WorldAccount>, changes: object = {}) {
    const result = await createAccessList({
      engine,
      chain: CHAIN,
      env: BLOCK,
      reader: world({ 1: { balance: 10n ** 18n }, ...accounts }),
      request: { from: address(1), to: address(2), ...changes },
      nonce: 0n,
      gasCap: 1_000_000n,
      limits: {},
    })
    if (result.status !== 'success') return result
    const list = result.accessList.map(({ address: of, storageKeys }) => [
      Buffer.from(of).readUInt16BE(0),
      storageKeys.map((key) => Number(bytesToHex(key))),
    ])
    return { list, error: result.error, gasUsed: result.gasUsed }
  }
  const at = (number: number) => Buffer.from(address(number)).readUInt16BE(0)

  describe('an access list', () => {
    test('is empty for a transfer', async () => {
      expect(await touched({}, { value: 1n })).toEqual({
        list: [],
        error: undefined,
        gasUsed: 21_000n,
      })
    })
    test('has touched slots and contracts, and neither the sender nor precompiles', async () => {
      // SLOAD 5, SSTORE 6, BALANCE of 1 and 4, STATICCALL 3 and the identity contract.
      const code = `600554 50 60016006 55 ${push(1)}31 50 ${push(4)}31 50 5f5f5f5f${push(3)}5afa 5f5f5f5f60045afa 00`
      const found = await touched({ 2: { code }, 3: { code: '60075400' } })
      expect(found).toMatchObject({ error: undefined })
      expect('list' in found && found.list).toEqual([
        [at(2), [5, 6]],
        [at(3), [7]],
        [at(4), []],
      ])
    })
    test('of a message that fails has its error and everything touched before', async () => {
      const found = await touched({ 2: { code: '6009545f5ffd' } })
      expect(found).toMatchObject({ list: [[at(2), [9]]], error: 'execution reverted' })
      expect(await touched({ 2: { code: '600954fe' } })).toMatchObject({
        list: [[at(2), [9]]],
        error: 'invalid opcode: INVALID',
      })
    })
    test('includes a call that ran out of gas, and no created contract', async () => {
      // SLOAD 3, then a creation, then a call of 5 that cannot pay for its memory.
      const code = `600354 50 5f5f5ff0 50 5f5f 63ffffffff 5f5f ${push(5)} 5af1`
      expect(await touched({ 2: { code } })).toMatchObject({
        list: [
          [at(2), [3]],
          [at(5), []],
        ],
        error: 'out of gas: out of gas',
      })
    })
    test('includes the target of a call from five words on the stack on', async () => {
      const call = (words: number) => `${'5f'.repeat(words - 2)}${push(5)}5ff1`
      expect(await touched({ 2: { code: call(4) } })).toMatchObject({
        list: [],
        error: 'stack underflow (4 <=> 7)',
      })
      expect(await touched({ 2: { code: call(5) } })).toMatchObject({ list: [[at(5), []]] })
    })
    test('that is given is retained and extended', async () => {
      const accessList = [{ address: address(7), storageKeys: [word(1n)] }]
      expect(await touched({ 2: { code: '60055400' } }, { accessList })).toMatchObject({
        list: [
          [at(2), [5]],
          [at(7), [1]],
        ],
      })
    })
    describe('with an authority', () => {
      const key = new Uint8Array(32).fill(9)
      const authority = addressOfKey(key)
      const signed = (fields: { readonly chainId: bigint; readonly nonce: bigint }) => {
        const unsigned = { ...fields, address: address(7) }
        const { r, s, yParity } = sign(authorizationHash(unsigned), key)
        return [{ ...unsigned, r, s, yParity: BigInt(yParity) }]
      }
      const balanceOf = `73${bytesToHex(authority).slice(2)}31 00`
      const isListed = async (chainId: bigint, nonce: bigint) => {
        const authorizationList = signed({ chainId, nonce })
        const found = await touched({ 2: { code: balanceOf } }, { authorizationList })
        return 'list' in found ? found.list.length === 1 : found
      }
      test('leaves it out once its signature is recovered, whatever its nonce', async () => {
        expect(await isListed(CHAIN.chainId, 0n)).toBe(false)
        expect(await isListed(0n, 0n)).toBe(false)
        expect(await isListed(0n, 5n)).toBe(false)
      })
      test('includes it for another chain or at the last nonce', async () => {
        expect(await isListed(CHAIN.chainId + 1n, 0n)).toBe(true)
        expect(await isListed(0n, 2n ** 64n - 1n)).toBe(true)
      })
      test('is refused together with a gas price', async () => {
        const authorizationList = signed({ chainId: 0n, nonce: 0n })
        expect(await touched({}, { authorizationList, gasPrice: 10n })).toEqual({
          status: 'refused',
          message: 'both gasPrice and authorizationList specified',
        })
      })
      test('is refused when the gas does not pay for the authorizations', async () => {
        const authorizationList = signed({ chainId: 0n, nonce: 0n }).concat(
          Array.from({ length: 40 }, () => signed({ chainId: 0n, nonce: 0n })[0]!),
        )
        expect(await touched({}, { authorizationList })).toMatchObject({
          status: 'refused',
          message: `err: intrinsic gas too low: have 1000000, want ${21_000 + 41 * 25_000} (supplied gas 1000000)`,
        })
      })
    })
    test('of a message that cannot be applied is refused', async () => {
      expect(await touched({}, { value: 10n ** 19n })).toMatchObject({
        status: 'refused',
        message: expect.stringContaining('insufficient funds'),
      })
    })
  })
})
