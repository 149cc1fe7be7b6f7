/** Filling one flashblock after the other, with real execution and a clock that the test moves. */
import { expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { createFiller, TOO_LONG } from '../../../engine/sources/sequencer/fill.ts'
import { MAX_TRIES } from '../../../engine/sources/sequencer/stops.ts'
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
    const filling = filler.begin(execution, {
      gas: 30_000_000n,
      ms: 100,
      now: () => ms,
      cpuMs: () => ms,
    })
    await filling.offer([endless])
    return filling.finish()
  }
  expect(await fill()).toEqual({
    executed: 0,
    rejected: [],
    left: [endless.hash],
    isOutOfTime: true,
    long: { hash: bytesToHex(endless.hash), gasLimit: 3_000_000n, ms: 1_000 },
  })
  expect((await fill()).rejected).toEqual([{ hash: endless.hash, reason: TOO_LONG, isFinal: true }])
})

test('what has more data than a block takes is given up, what has more than is left waits', async () => {
  // Footprint 400 for an estimated byte: 40,000 for a transfer.
  const l1 = { 8: 400n << 96n }
  const fill = async (gasLimit: bigint) => {
    const { block: execution } = block({ l1, attributes: { gasLimit } })
    await execution.begin()
    const filling = createFiller().begin(execution, {
      ...{ gas: gasLimit, ms: 100, now: () => 0, cpuMs: () => 0 },
    })
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
    const filling = filler.begin(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
    await filling.offer([endless])
    return filling.finish()
  }
  expect(await fill()).toMatchObject({ executed: 0, isOutOfTime: true })
  expect(await fill()).toEqual({ executed: 1, rejected: [], left: [], isOutOfTime: false })
})
/** 3,000,000 gas of the loop are 800 looks, one each 1,024 steps. */
const LOOKS_PER_MS = 9

test('what comes before a slow one, as the chain went back, does not wait for it', async () => {
  const filler = createFiller()
  const slow = transaction({ to: address(7), gasLimit: 3_000_000n, nonce: 1n })
  let perLook = 10
  const fill = async (nonce: bigint, lists: readonly (readonly SignedTransaction[])[]) => {
    const { block: execution } = block({ accounts: ENDLESS, nonce })
    await execution.begin()
    let ms = 0
    const now = () => {
      ms += perLook
      return ms
    }
    const filling = filler.begin(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
    for (const list of lists) await filling.offer(list)
    return filling.finish()
  }
  expect(await fill(1n, [[slow]])).toMatchObject({ executed: 0, left: [slow.hash] })
  perLook = 0
  const [before, behind] = [0n, 2n].map((nonce) => transaction({ nonce }))
  expect(await fill(0n, [[before!, behind!], [slow]])).toMatchObject({
    ...{ executed: 3, rejected: [], left: [] },
  })
})

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
  const begin = () => filler.begin(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
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

test('what takes longer than a flashblock has the time that its gas is worth, once, and is included', async () => {
  const filler = createFiller()
  const { block: execution } = block({ accounts: ENDLESS })
  await execution.begin()
  let looks = 0
  const now = () => looks++ / 7
  const flashblock = async () => {
    const filling = filler.begin(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
    await filling.offer([endless])
    return filling.finish()
  }
  // 115 ms: the slices, then two tries of the whole.
  for (let tries = 0; tries < MAX_TRIES; tries++)
    expect(await flashblock()).toMatchObject({ executed: 0, rejected: [], isOutOfTime: true })
  const last = await flashblock()
  expect(last).toMatchObject({ executed: 1, rejected: [], left: [] })
  expect(last.long!.ms).toBeGreaterThan(100)
})

test('after a long try in vain others rest, and are not given up for it', async () => {
  const filler = createFiller()
  const { block: execution } = block({ accounts: ENDLESS })
  await execution.begin()
  let ms = 0
  const now = () => ms++
  const [first, second] = [endless, transaction({ to: address(7), gasLimit: 2_900_000n })]
  const flashblock = async (raw: Uint8Array) => {
    const filling = filler.begin(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
    await filling.offer([{ raw }])
    return filling.finish()
  }
  const given = async (one: typeof endless) => {
    for (let tries = 0; tries < MAX_TRIES; tries++)
      expect((await flashblock(one.raw)).rejected).toEqual([])
    return (await flashblock(one.raw)).rejected
  }
  expect(await given(first)).toEqual([{ hash: first.hash, reason: TOO_LONG, isFinal: true }])
  expect(await given(second)).toEqual([])
  // Twenty times as long as it was.
  ms += 20 * 120
  expect((await flashblock(second.raw)).rejected).toMatchObject([{ reason: TOO_LONG }])
})
