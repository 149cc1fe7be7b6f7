/**
 * Flashblocks are filled one after the other, with real execution and a clock that the test moves.
 */
import { expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { createFiller, TOO_LONG } from '../../../engine/sources/sequencer/fill.ts'
import { MAX_TRIES } from '../../../engine/sources/sequencer/stops.ts'
import { block, transaction } from '../../fixtures/op-block.ts'
import { address } from '../../fixtures/world.ts'

/** The code is JUMPDEST, PUSH0, JUMP. */
const ENDLESS = { 7: { code: '5b5f56' } }
const endless = transaction({ to: address(7), gasLimit: 3_000_000n })

test('a transaction that exceeds its time twice is rejected', async () => {
  const filler = createFiller()
  const fill = async () => {
    const { block: execution } = block({ accounts: ENDLESS })
    await execution.start()
    let ms = 0
    const execute = execution.execute.bind(execution)
    // A second passes before the first check of the clock.
    execution.execute = (...given) => {
      ms += 1_000
      return execute(...given)
    }
    const filling = filler.start(execution, {
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

test('too much data for any block is rejected, and too much for this block waits', async () => {
  // The footprint of 400 for an estimated byte gives 40,000 for a transfer.
  const l1 = { 8: 400n << 96n }
  const fill = async (gasLimit: bigint) => {
    const { block: execution } = block({ l1, attributes: { gasLimit } })
    await execution.start()
    const filling = createFiller().start(execution, {
      gas: gasLimit,
      ms: 100,
      now: () => 0,
      cpuMs: () => 0,
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

test('a slow transaction gets most of the time when no other one waits', async () => {
  const filler = createFiller()
  const { block: execution } = block({ accounts: ENDLESS })
  await execution.start()
  let ms = 0
  // The transaction runs for as long as ninety checks of the clock.
  const now = () => ms++ / CHECKS_PER_MS
  const fill = async () => {
    const filling = filler.start(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
    await filling.offer([endless])
    return filling.finish()
  }
  expect(await fill()).toMatchObject({ executed: 0, isOutOfTime: true })
  expect(await fill()).toEqual({ executed: 1, rejected: [], left: [], isOutOfTime: false })
})
/** 3,000,000 gas of the loop are 800 checks, one each 1,024 steps. */
const CHECKS_PER_MS = 9

test('a transaction with an earlier nonce does not wait for a slow one after a reorg', async () => {
  const filler = createFiller()
  const slow = transaction({ to: address(7), gasLimit: 3_000_000n, nonce: 1n })
  let perCheck = 10
  const fill = async (nonce: bigint, lists: readonly (readonly SignedTransaction[])[]) => {
    const { block: execution } = block({ accounts: ENDLESS, nonce })
    await execution.start()
    let ms = 0
    const now = () => {
      ms += perCheck
      return ms
    }
    const filling = filler.start(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
    for (const list of lists) await filling.offer(list)
    return filling.finish()
  }
  expect(await fill(1n, [[slow]])).toMatchObject({ executed: 0, left: [slow.hash] })
  perCheck = 0
  const [before, lag] = [0n, 2n].map((nonce) => transaction({ nonce }))
  expect(await fill(0n, [[before!, lag!], [slow]])).toMatchObject({
    executed: 3,
    rejected: [],
    left: [],
  })
})

test('a replacement of a slow transaction does not wait for it', async () => {
  const filler = createFiller()
  const { block: execution } = block({ accounts: ENDLESS })
  await execution.start()
  let ms = 0
  let perCheck = 1
  const now = () => {
    ms += perCheck
    return ms
  }
  const start = () => filler.start(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
  const slow = start()
  await slow.offer([endless])
  expect(await slow.finish()).toMatchObject({ executed: 0, left: [endless.hash] })
  perCheck = 0
  const filling = start()
  // The remaining time is not enough for another try of the slow one.
  const spent = filling.offer([])
  ms += 80
  await spent
  const other = transaction({ maxFeePerGas: 40n })
  await filling.offer([other])
  expect(await filling.finish()).toMatchObject({ executed: 1, rejected: [], left: [] })
  expect(filler.stopped()).toEqual([])
})

test('a transaction that exceeds one flashblock’s time gets a last try by its gas', async () => {
  const filler = createFiller()
  const { block: execution } = block({ accounts: ENDLESS })
  await execution.start()
  let checks = 0
  const now = () => checks++ / 7
  const flashblock = async () => {
    const filling = filler.start(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
    await filling.offer([endless])
    return filling.finish()
  }
  // The slices and two tries of the whole take 115 ms.
  for (let tries = 0; tries < MAX_TRIES; tries++)
    expect(await flashblock()).toMatchObject({ executed: 0, rejected: [], isOutOfTime: true })
  const last = await flashblock()
  expect(last).toMatchObject({ executed: 1, rejected: [], left: [] })
  expect(last.long!.ms).toBeGreaterThan(100)
})

test('after a long failed try, other slow transactions wait and are not rejected', async () => {
  const filler = createFiller()
  const { block: execution } = block({ accounts: ENDLESS })
  await execution.start()
  let ms = 0
  const now = () => ms++
  const [first, second] = [endless, transaction({ to: address(7), gasLimit: 2_900_000n })]
  const flashblock = async (raw: Uint8Array) => {
    const filling = filler.start(execution, { gas: 30_000_000n, ms: 100, now, cpuMs: now })
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
  // The pause is twenty times the earlier time.
  ms += 20 * 120
  expect((await flashblock(second.raw)).rejected).toMatchObject([{ reason: TOO_LONG }])
})
