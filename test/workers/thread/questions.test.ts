import { describe, expect, test, vi } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { createQuestions } from '../../../workers/thread/questions.ts'
import { createTxpoolQuestions } from '../../../workers/writer/txpool-questions.ts'

describe('questions to another thread', () => {
  test('each gets its own answer, in any order', async () => {
    const questions = createQuestions<string>(10_000)
    const sent: number[] = []
    const answers = [1, 2].map(() => questions.ask((request) => sent.push(request)))
    questions.answer(sent[1]!, 'second')
    questions.answer(sent[0]!, 'first')
    expect(await Promise.all(answers)).toEqual(['first', 'second'])
  })

  test('an answer may be nothing', async () => {
    const questions = createQuestions<string>(10_000)
    const answer = questions.ask((request) => questions.answer(request, undefined))
    expect(await answer).toBeUndefined()
  })

  test('given up when it takes too long; a late answer is no one else’s', async () => {
    const questions = createQuestions<string>(1)
    let late = 0
    expect(await questions.ask((request) => (late = request))).toBeUndefined()
    const next = questions.ask((request) => {
      expect(questions.answer(late, 'late')).toBe(false)
      expect(questions.answer(request, 'in time')).toBe(true)
    })
    expect(await next).toBe('in time')
  })
})

test('all that are open are given up where the other thread has ended', async () => {
  const questions = createQuestions<string>(10_000)
  const answers = [1, 2].map(() => questions.ask(() => {}))
  questions.close()
  expect(await Promise.all(answers)).toEqual([undefined, undefined])
})

describe('questions to the pool', () => {
  const NOTHING = { transactions: [], hasMore: true }
  const flashblock = {
    number: 7n,
    gas: 30_000_000n,
    blockGas: 30_000_000n,
    count: 10,
    baseFee: 1n,
    excluded: [],
    isGaslessWanted: true,
  }
  const wantedFor = (index: number) => ({ ...flashblock, index })
  const offered = (byte: number) => ({
    transactions: [{ raw: new Uint8Array([byte]) }],
    hasMore: false,
  })

  function start(patienceMs: number) {
    const sent: number[] = []
    const givenBack: string[] = []
    const pool = createTxpoolQuestions({
      patienceMs,
      send: (_, request) => sent.push(request),
      giveBack: (hashes) => givenBack.push(...hashes.map(bytesToHex)),
    })
    return { pool, sent, givenBack }
  }

  test('the answer of a pool that is there', async () => {
    const { pool, sent } = start(10_000)
    for (const index of [1, 2]) {
      const answer = pool.ask(wantedFor(index))
      pool.answer(sent[index - 1]!, offered(index))
      expect(await answer).toEqual(offered(index))
    }
    expect(sent.length).toBe(2)
  })

  test('news until the next question', async () => {
    const { pool, sent } = start(10_000)
    pool.news()
    expect(pool.hasNews()).toBe(true)
    const answer = pool.ask(wantedFor(1))
    expect(pool.hasNews()).toBe(false)
    pool.answer(sent[0]!, offered(1))
    await answer
  })

  test('a silent one is waited for once and asked once; what it had news of is not forgotten', async () => {
    const { pool, sent } = start(1)
    expect(await pool.ask(wantedFor(1))).toEqual(NOTHING)
    pool.news()
    for (const index of [1, 2, 3]) expect(await pool.ask(wantedFor(index))).toEqual(NOTHING)
    expect(sent.length).toBe(1)
    expect(pool.hasNews()).toBe(true)
  })

  test('a late answer is taken for the same flashblock, once', async () => {
    const { pool, sent } = start(1)
    await pool.ask(wantedFor(1))
    pool.answer(sent[0]!, offered(1))
    expect(await pool.ask(wantedFor(1))).toEqual(offered(1))
    expect(await pool.ask(wantedFor(1))).toEqual(NOTHING)
    expect(sent.length).toBe(2)
  })

  const hashOf = (byte: number) => bytesToHex(keccak256(new Uint8Array([byte])))

  test('and given back for a later one: the pool is asked again', async () => {
    const { pool, sent, givenBack } = start(1)
    await pool.ask(wantedFor(1))
    pool.answer(sent[0]!, offered(1))
    await pool.ask(wantedFor(2))
    expect(givenBack).toEqual([hashOf(1)])
    expect(sent.length).toBe(2)
    pool.answer(sent[1]!, offered(2))
    expect(await pool.ask(wantedFor(2))).toEqual(offered(2))
    expect(givenBack).toEqual([hashOf(1)])
  })

  test('whoever is patient waits for what was asked before, gives that back and asks again', async () => {
    const { pool, sent, givenBack } = start(1)
    expect(await pool.ask(wantedFor(1))).toEqual(NOTHING)
    const answer = pool.ask(wantedFor(1), true)
    expect(sent.length).toBe(1)
    pool.answer(sent[0]!, offered(1))
    while (sent.length === 1) await new Promise((resolve) => setImmediate(resolve))
    expect(givenBack).toEqual([hashOf(1)])
    pool.answer(sent[1]!, offered(2))
    expect(await answer).toEqual(offered(2))
  })

  test('whoever is patient waits longer than a flashblock lasts', async () => {
    vi.useFakeTimers()
    try {
      const { pool, sent } = start(25)
      const answer = pool.ask(wantedFor(1), true)
      await vi.advanceTimersByTimeAsync(10_000)
      pool.answer(sent[0]!, offered(1))
      expect(await answer).toEqual(offered(1))
    } finally {
      vi.useRealTimers()
    }
  })
})
