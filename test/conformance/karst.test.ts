/** The tests use the 31 deposits of Karst's first block on OP networks (CONFORMANCE_DIR, karst). */
import { describe, expect, test } from 'vitest'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'
import {
  decodeTransaction,
  makeDeposit,
  sourceHash,
} from '../../engine/primitives/transaction-codec.ts'
import { concatBytes } from '../../engine/primitives/words.ts'
import { describeEngines } from '../fixtures/engines.ts'
import {
  KARST_UPGRADE_GAS as GAS,
  KARST_RAWS as raws,
  KARST_UPGRADES as upgrades,
} from '../fixtures/karst-upgrade.ts'
import { block as openTestBlock, transaction } from '../fixtures/op-block.ts'
import { BLOCK } from '../fixtures/world.ts'

if (upgrades.length === 0)
  test('the tests of the Karst deposits need CONFORMANCE_DIR', ({ skip }) => skip())

describe.skipIf(upgrades.length === 0)('the decoder', () => {
  test.each(upgrades)(
    'reads and rebuilds the deposit $intent',
    ({ intent, gas, sourceHash: source, hash, raw }) => {
      const deposit = decodeTransaction(hexToBytes(raw))
      if (deposit.type !== 0x7e) throw new Error('no deposit')
      expect(bytesToHex(deposit.hash)).toBe(hash)
      expect(bytesToHex(deposit.sourceHash)).toBe(source)
      expect(sourceHash(2, new TextEncoder().encode(intent))).toEqual(deposit.sourceHash)
      expect(deposit).toMatchObject({ mint: 0n, value: 0n, isSystemTransaction: false })
      expect(deposit.gasLimit).toBe(BigInt(gas))
      const { from, to, mint, value, gasLimit, input, isSystemTransaction } = deposit
      const fields = { from, to, mint, value, gasLimit, input, isSystemTransaction }
      expect(bytesToHex(makeDeposit({ ...fields, sourceHash: deposit.sourceHash }).raw)).toBe(raw)
    },
  )
  test('has all deposits in order, with their total gas and their hash', () => {
    expect(upgrades.map(({ intent }) => intent.split(':')[0])).toEqual(
      upgrades.map((_, at) => `Karst ${at}`),
    )
    expect(upgrades.reduce((sum, { gas }) => sum + BigInt(gas), 0n)).toBe(GAS)
    expect(bytesToHex(keccak256(concatBytes(...raws)))).toMatch(/^0x2f47d1bd.*25cb$/)
  })
})

describeEngines((engine) => {
  const open = (changes: object = {}) =>
    openTestBlock({
      engine,
      fork: 'karst',
      attributes: { isDepositsOnly: true, gasLimit: 30_000_000n + GAS, ...changes },
    }).block

  test.skipIf(upgrades.length === 0)(
    'the deposits run in order within their gas, and a signed transaction is refused',
    async () => {
      const block = open()
      await block.start()
      for (const [at, raw] of raws.entries()) {
        const done = await block.execute(decodeTransaction(raw))
        if (done.status !== 'executed') throw new Error(`${at}: ${JSON.stringify(done)}`)
        const { receipt } = done.executed
        expect(receipt.gasUsed <= BigInt(upgrades[at]!.gas)).toBe(true)
        expect(receipt.gasUsed > 0n).toBe(true)
      }
      // Without the contracts of a network the later ones may fail, and the block stays valid.
      expect(block.executed[0]!.receipt.status).toBe(1)
      expect(block.executed).toHaveLength(31)
      expect(await block.execute(transaction())).toMatchObject({ status: 'invalid' })
    },
  )

  test.skipIf(upgrades.length === 0).each([
    ['Jovian', { isDepositsOnly: false, timestamp: BLOCK.timestamp - 1n }],
    ['the second Karst block', { isDepositsOnly: false }],
    ['the first block of another fork', { isDepositsOnly: true, timestamp: BLOCK.timestamp - 1n }],
  ])(
    'the first deposit is refused in %s, with the flag that would accept it',
    async (_, changes) => {
      const block = open(changes)
      const { timestamp } = block.attributes
      expect(await block.execute(decodeTransaction(raws[0]!))).toEqual({
        status: 'invalid',
        reason: {
          code: 'unscheduledFork',
          why: 'input',
          message: `the first deposit of karst in a block that does not start it here (--fork-time karst=${timestamp} would)`,
        },
      })
    },
  )
})
