/**
 * Recorded OP blocks are executed on a witness of their parent's state. Data that the witness lacks
 * differs from data that the state lacks.
 */
import { describe, expect, test } from 'vitest'
import { hexToBytes } from '../../../../engine/primitives/hex.ts'
import { isAbsent, readWitness } from '../../../fixtures/blocks.ts'
import { describeEngines } from '../../../fixtures/engines.ts'
import { type ExecuteCase, executePayload } from '../../../fixtures/op-replay.ts'

describeEngines((engine) => {
  const path = (number: number) => `op-blocks/op-sepolia-${number}.json.gz`
  const read = (number: number) => {
    const { expected_block_hash: expected, ...one } = readWitness(path(number))
    return { expected, one: one as unknown as ExecuteCase }
  }

  describe.skipIf(isAbsent(path(26_207_960)))('a recorded block of OP Sepolia', () => {
    test.each([26_207_960, 26_207_961, 26_207_962, 26_207_963])(
      'has its recorded hash: %s',
      async (number) => {
        const { expected, one } = read(number)
        expect((await executePayload(one, engine)).hash).toBe(expected)
      },
    )

    test('on an incomplete witness gives an error and never another root', async () => {
      const { expected, one } = read(26_207_963)
      const { length } = one.preimages
      const found = { errors: 0, same: 0 }
      for (let left = 0; left < length; left += Math.ceil(length / 12)) {
        const preimages = one.preimages.filter((_, index) => index !== left)
        const hash = await executePayload({ ...one, preimages }, engine).then(
          (block) => block.hash,
          () => undefined,
        )
        if (hash === undefined) found.errors++
        else {
          expect(hash).toBe(expected)
          found.same++
        }
      }
      expect(found.errors).toBeGreaterThan(0)
    })

    test('has another hash with a changed transaction, and fails with an invalid one', async () => {
      const { expected, one } = read(26_207_963)
      const { executing_payload: payload } = one
      const fewer = { ...payload, transactions: payload.transactions.slice(0, -1) }
      expect((await executePayload({ ...one, executing_payload: fewer }, engine)).hash).not.toBe(
        expected,
      )
      const twice = [...payload.transactions, payload.transactions.at(-1)!]
      const repeated = { ...one, executing_payload: { ...payload, transactions: twice } }
      expect(hexToBytes(twice.at(-1)!)[0]).not.toBe(0x7e)
      await expect(executePayload(repeated, engine)).rejects.toThrow('nonce too low')
    })
  })
})
