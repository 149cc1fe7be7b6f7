/**
 * Edits of state are part of the chain. Rules with edits apply them; other rules give the same
 * receipts and another state.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ChainSpec } from '../../../../engine/chainspec/types.ts'
import type { Engine } from '../../../../engine/evm/engine.ts'
import { openBlock } from '../../../../engine/execution/block/block.ts'
import {
  type AccountEdit,
  decodeEdits,
  editDeposit,
  encodeEdits,
  isEdit,
} from '../../../../engine/execution/transaction/edits.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../../engine/primitives/keccak.ts'
import { decodeTransaction, makeDeposit } from '../../../../engine/primitives/transaction-codec.ts'
import { describeEngines } from '../../../fixtures/engines.ts'
import { testChain } from '../../../fixtures/sequenced-chain.ts'
import { address, bytes, word, world } from '../../../fixtures/world.ts'

const chain = testChain()
const plain: Pick<ChainSpec, 'rulesAt'> = {
  rulesAt: (number, timestamp) => ({ ...chain.rulesAt(number, timestamp), hasEdits: false }),
}
const PARENT = word(7n)
const ACCOUNT = address(5)

async function run(engine: Engine, edits: readonly AccountEdit[], of = chain as typeof plain) {
  const { header } = { header: chain.genesisHeader }
  const attributes = {
    parentHash: PARENT,
    parentBeaconBlockRoot: PARENT,
    coinbase: address(9),
    prevRandao: PARENT,
    number: 1n,
    gasLimit: header.gasLimit,
    timestamp: header.timestamp + 1n,
    extraData: header.extraData,
    baseFee: 7n,
  }
  const reader = world({ 5: { balance: 3n, storage: { 1: 8n } } })
  const execution = openBlock({ engine, chain: of, reader, attributes })
  const done = await execution.execute(editDeposit(PARENT, edits))
  if (done.status !== 'executed') throw new Error(done.status)
  const diff = await execution.diff()
  const { gasUsed, receiptsRoot } = execution.sums()
  execution.close()
  const { status } = done.executed.receipt
  const change = diff.find((one) => bytesToHex(one.address) === bytesToHex(ACCOUNT))
  return { status, gasUsed, receiptsRoot, change }
}

const EDIT: AccountEdit = {
  address: ACCOUNT,
  balance: 100n,
  nonce: 9n,
  code: bytes('6001'),
  slots: [
    [word(1n), word(0n)],
    [word(2n), word(6n)],
  ],
}

describeEngines((engine) => {
  test('an edit sets all fields that it names', async () => {
    const { status, change } = await run(engine, [EDIT])
    expect(status).toBe(1)
    expect(change).toMatchObject({
      after: { nonce: 9n, balance: 100n, codeHash: keccak256(bytes('6001')) },
      code: bytes('6001'),
    })
    const slots = change!.slots.map(({ key, after }) => [bytesToHex(key), bytesToHex(after)])
    expect(slots.toSorted()).toEqual(EDIT.slots!.map((slot) => slot.map(bytesToHex)).toSorted())
  })

  test('an edit leaves the other fields as they are', async () => {
    const { change } = await run(engine, [{ address: ACCOUNT, nonce: 9n }])
    expect(change).toMatchObject({ after: { nonce: 9n, balance: 3n }, slots: [] })
  })

  test('without edit rules an edit is a deposit with the same receipt', async () => {
    const [local, there] = [await run(engine, [EDIT]), await run(engine, [EDIT], plain)]
    expect(there.change).toBe(undefined)
    expect(there.receiptsRoot).toEqual(local.receiptsRoot)
    expect(there.gasUsed).toBe(local.gasUsed)
  })

  test('an edit with slots of an absent account changes nothing', async () => {
    const none = { address: address(6), slots: [[word(1n), word(1n)] as const] }
    const { status, change } = await run(engine, [EDIT, none])
    expect(status).toBe(0)
    expect(change).toBe(undefined)
  })
})

test('only a deposit from and to the editor is an edit', () => {
  const deposit = editDeposit(PARENT, [EDIT])
  expect(isEdit(decodeTransaction(deposit.raw))).toBe(true)
  const { type: _, raw: __, hash: ___, ...fields } = deposit
  expect(isEdit(makeDeposit({ ...fields, from: address(1) }))).toBe(false)
  expect(isEdit(makeDeposit({ ...fields, to: address(1) }))).toBe(false)
  expect(isEdit(makeDeposit({ ...fields, to: undefined }))).toBe(false)
})

const fixed = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
const edit = fc.record({
  address: fixed(20),
  balance: fc.option(fc.bigInt(0n, 2n ** 256n - 1n), { nil: undefined }),
  nonce: fc.option(fc.bigInt(0n, 2n ** 64n - 1n), { nil: undefined }),
  code: fc.option(fc.uint8Array({ maxLength: 100 }), { nil: undefined }),
  slots: fc.array(fc.tuple(fixed(32), fixed(32)), { maxLength: 5 }),
})
test('edits decode to what was encoded, and other bytes to equal edits or nothing', () => {
  fc.assert(
    fc.property(fc.array(edit, { maxLength: 5 }), (edits) => {
      expect(decodeEdits(encodeEdits(edits))).toEqual(edits)
    }),
  )
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (data) => {
      const edits = decodeEdits(data)
      if (edits !== undefined) expect(encodeEdits(edits)).toEqual(data)
    }),
  )
})
