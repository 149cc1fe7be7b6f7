/** Filling one flashblock after the other, with real execution and a clock that the test moves. */
import { expect, test } from 'vitest'
import { createFiller, TOO_LONG } from '../../../engine/sources/sequencer/fill.ts'
import { block, transaction } from '../../fixtures/op-block.ts'
import { address } from '../../fixtures/world.ts'

/** JUMPDEST, PUSH0, JUMP. */
const ENDLESS = { 7: { code: '5b5f56' } }
const endless = transaction({ to: address(7), gasLimit: 3_000_000n })

test('what cannot be stopped in time is given up at the second try', async () => {
  const filler = createFiller()
  const fill = async () => {
    const { block: execution } = block({ accounts: ENDLESS })
    await execution.begin()
    let ms = 0
    const execute = execution.execute.bind(execution)
    // A second passes before it first looks at the clock.
    execution.execute = (...given) => {
      ms += 1_000
      return execute(...given)
    }
    const filling = filler.begin(execution, { gas: 30_000_000n, ms: 100, now: () => ms })
    await filling.offer([endless])
    return filling.finish()
  }
  expect(await fill()).toEqual({
    executed: 0,
    rejected: [],
    left: [endless.hash],
    isOutOfTime: true,
  })
  expect((await fill()).rejected).toEqual([{ hash: endless.hash, reason: TOO_LONG, isFinal: true }])
})

test('what has more data than a block takes is given up, what has more than is left waits', async () => {
  // Footprint 400 for an estimated byte: 40,000 for a transfer.
  const l1 = { 8: 400n << 96n }
  const fill = async (gasLimit: bigint) => {
    const { block: execution } = block({ l1, attributes: { gasLimit } })
    await execution.begin()
    const filling = createFiller().begin(execution, { gas: gasLimit, ms: 100, now: () => 0 })
    await filling.offer([0n, 1n].map((nonce) => transaction({ nonce, gasLimit: 21_000n })))
    return filling.finish()
  }
  const [first, second] = [0n, 1n].map((nonce) => transaction({ nonce, gasLimit: 21_000n }).hash)
  expect(await fill(79_999n)).toMatchObject({ executed: 1, rejected: [], left: [second] })
  expect(await fill(39_999n)).toMatchObject({
    executed: 0,
    rejected: [
      {
        hash: first,
        reason: 'DA footprint exceeds block gas limit: footprint 40000, limit 39999',
      },
    ],
  })
})

test('what needs most of the time has it when nobody else wants it', async () => {
  const filler = createFiller()
  const { block: execution } = block({ accounts: ENDLESS })
  await execution.begin()
  let ms = 0
  // It runs for as long as ninety looks at the clock.
  const now = () => ms++ / LOOKS_PER_MS
  const fill = async () => {
    const filling = filler.begin(execution, { gas: 30_000_000n, ms: 100, now })
    await filling.offer([endless])
    return filling.finish()
  }
  expect(await fill()).toMatchObject({ executed: 0, isOutOfTime: true })
  expect(await fill()).toEqual({ executed: 1, rejected: [], left: [], isOutOfTime: false })
})
/** 3,000,000 gas of the loop are 800 looks, one each 1,024 steps. */
const LOOKS_PER_MS = 9

test('what takes the place of a slow one does not wait for it', async () => {
  const filler = createFiller()
  const { block: execution } = block({ accounts: ENDLESS })
  await execution.begin()
  let ms = 0
  let perLook = 1
  const now = () => {
    ms += perLook
    return ms
  }
  const begin = () => filler.begin(execution, { gas: 30_000_000n, ms: 100, now })
  const slow = begin()
  await slow.offer([endless])
  expect(await slow.finish()).toMatchObject({ executed: 0, left: [endless.hash] })
  perLook = 0
  const filling = begin()
  // Little time is left: not enough for another try of the slow one.
  const spent = filling.offer([])
  ms += 80
  await spent
  const other = transaction({ maxFeePerGas: 40n })
  await filling.offer([other])
  expect(await filling.finish()).toMatchObject({ executed: 1, rejected: [], left: [] })
  expect(filler.stopped()).toEqual([])
})
