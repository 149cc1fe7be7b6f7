import { describe, expect, test, vi } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { createQuestions } from '../../../workers/thread/questions.ts'
import { createTxpoolQuestions } from '../../../workers/writer/txpool-questions.ts'

describe('a request to another thread', () => {
  test('gets its own response, in any order', async () => {
    const questions = createQuestions<string>(10_000)
    const sent: number[] = []
    const responses = [1, 2].map(() => questions.request((request) => sent.push(request)))
    questions.respond(sent[1]!, 'second')
    questions.respond(sent[0]!, 'first')
    expect(await Promise.all(responses)).toEqual(['first', 'second'])
  })

  test('may get an empty response', async () => {
    const questions = createQuestions<string>(10_000)
    const response = questions.request((request) => questions.respond(request, undefined))
    expect(await response).toBeUndefined()
  })

  test('ends at its timeout, and a late response goes to no other request', async () => {
    const questions = createQuestions<string>(1)
    let late = 0
    expect(await questions.request((request) => (late = request))).toBeUndefined()
    const next = questions.request((request) => {
      expect(questions.respond(late, 'late')).toBe(false)
      expect(questions.respond(request, 'in time')).toBe(true)
    })
    expect(await next).toBe('in time')
  })
})

test('all open requests end when the other thread ends', async () => {
  const questions = createQuestions<string>(10_000)
  const responses = [1, 2].map(() => questions.request(() => {}))
  questions.close()
  expect(await Promise.all(responses)).toEqual([undefined, undefined])
})

describe('a request to the txpool thread', () => {
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

  function start(timeoutMs: number) {
    const sent: number[] = []
    const givenBack: string[] = []
    const pool = createTxpoolQuestions({
      timeoutMs,
      send: (_, request) => sent.push(request),
      giveBack: (hashes) => givenBack.push(...hashes.map(bytesToHex)),
    })
    return { pool, sent, givenBack }
  }

  test('gets the response of the txpool', async () => {
    const { pool, sent } = start(10_000)
    for (const index of [1, 2]) {
      const response = pool.request(wantedFor(index))
      pool.respond(sent[index - 1]!, offered(index))
      expect(await response).toEqual(offered(index))
    }
    expect(sent.length).toBe(2)
  })

  test('clears the news flag', async () => {
    const { pool, sent } = start(10_000)
    pool.news()
    expect(pool.hasNews()).toBe(true)
    const response = pool.request(wantedFor(1))
    expect(pool.hasNews()).toBe(false)
    pool.respond(sent[0]!, offered(1))
    await response
  })

  test('to a silent txpool is sent once and waited for once, and news is not lost', async () => {
    const { pool, sent } = start(1)
    expect(await pool.request(wantedFor(1))).toEqual(NOTHING)
    pool.news()
    for (const index of [1, 2, 3]) expect(await pool.request(wantedFor(index))).toEqual(NOTHING)
    expect(sent.length).toBe(1)
    expect(pool.hasNews()).toBe(true)
  })

  test('gets a late response to the same flashblock, once', async () => {
    const { pool, sent } = start(1)
    await pool.request(wantedFor(1))
    pool.respond(sent[0]!, offered(1))
    expect(await pool.request(wantedFor(1))).toEqual(offered(1))
    expect(await pool.request(wantedFor(1))).toEqual(NOTHING)
    expect(sent.length).toBe(2)
  })

  const hashOf = (byte: number) => bytesToHex(keccak256(new Uint8Array([byte])))

  test('gives back the transactions of a late response to an earlier flashblock', async () => {
    const { pool, sent, givenBack } = start(1)
    await pool.request(wantedFor(1))
    pool.respond(sent[0]!, offered(1))
    await pool.request(wantedFor(2))
    expect(givenBack).toEqual([hashOf(1)])
    expect(sent.length).toBe(2)
    pool.respond(sent[1]!, offered(2))
    expect(await pool.request(wantedFor(2))).toEqual(offered(2))
    expect(givenBack).toEqual([hashOf(1)])
  })

  test('that may wait awaits the previous response, gives it back and asks again', async () => {
    const { pool, sent, givenBack } = start(1)
    expect(await pool.request(wantedFor(1))).toEqual(NOTHING)
    const response = pool.request(wantedFor(1), true)
    expect(sent.length).toBe(1)
    pool.respond(sent[0]!, offered(1))
    while (sent.length === 1) await new Promise((resolve) => setImmediate(resolve))
    expect(givenBack).toEqual([hashOf(1)])
    pool.respond(sent[1]!, offered(2))
    expect(await response).toEqual(offered(2))
  })

  test('that may wait does so for longer than a flashblock takes', async () => {
    vi.useFakeTimers()
    try {
      const { pool, sent } = start(25)
      const response = pool.request(wantedFor(1), true)
      await vi.advanceTimersByTimeAsync(10_000)
      pool.respond(sent[0]!, offered(1))
      expect(await response).toEqual(offered(1))
    } finally {
      vi.useRealTimers()
    }
  })
})
