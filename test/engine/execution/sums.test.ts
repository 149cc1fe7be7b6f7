/** The sums of a block that grows and is cut must not depend on the parts that were cut. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSums } from '../../../engine/execution/block/sums.ts'
import type { ExecutedTransaction } from '../../../engine/execution/transaction/types.ts'
import { bloomOf } from '../../../engine/primitives/receipt-codec.ts'

/** Makes a transaction with its own log, or without logs. */
function executed(seed: number): ExecutedTransaction {
  const address = new Uint8Array(20).fill(seed)
  const logs = seed % 3 === 0 ? [] : [{ address, topics: [], data: Uint8Array.of(seed) }]
  const receipt = {
    type: 2,
    status: 1,
    cumulativeGasUsed: BigInt(seed),
    gasUsed: 1n,
    logs,
    logsBloom: bloomOf(logs),
    contractAddress: undefined,
    effectiveGasPrice: 1n,
  }
  return { transaction: { raw: Uint8Array.of(2, seed) }, receipt } as unknown as ExecutedTransaction
}
const gas = { gasUsed: 1n, blobGasUsed: 0n }

const step = fc.record({ retain: fc.nat(12), add: fc.array(fc.nat(250), { maxLength: 6 }) })

test('the sums of a block do not depend on how it grew and was cut', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 8 }), (steps) => {
      const sums = createSums()
      let all: ExecutedTransaction[] = []
      for (const { retain, add } of steps) {
        if (retain < all.length) {
          all = all.slice(0, retain)
          sums.truncate(retain)
        }
        all = [...all, ...add.map(executed)]
        expect(sums.of(all, gas)).toEqual(createSums().of(all, gas))
      }
    }),
  )
})
