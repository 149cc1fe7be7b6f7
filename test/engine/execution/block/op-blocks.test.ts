/** Recorded OP blocks executed on a witness of their parent's state: what a witness lacks is told from what the state lacks. */
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

  describe.skipIf(isAbsent(path(26_207_960)))('recorded blocks of OP Sepolia', () => {
    test.each([26_207_960, 26_207_961, 26_207_962, 26_207_963])('%s', async (number) => {
      const { expected, one } = read(number)
      expect((await executePayload(one, engine)).hash).toBe(expected)
    })

    test('an incomplete witness is an error, never another root', async () => {
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

    test('a changed transaction gives another block, an invalid one an error', async () => {
      const { expected, one } = read(26_207_963)
      const { executing_payload: payload } = one
      const fewer = { ...payload, transactions: payload.transactions.slice(0, -1) }
      expect((await executePayload({ ...one, executing_payload: fewer }, engine)).hash).not.toBe(
        expected,
      )
      const twice = [...payload.transactions, payload.transactions.at(-1)!]
      const again = { ...one, executing_payload: { ...payload, transactions: twice } }
      expect(hexToBytes(twice.at(-1)!)[0]).not.toBe(0x7e)
      await expect(executePayload(again, engine)).rejects.toThrow('nonce too low')
    })
  })
})
