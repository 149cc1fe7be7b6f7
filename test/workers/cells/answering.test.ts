import { describe, expect, test } from 'vitest'
import { MissingError, ViewError } from '../../../engine/state/reader.ts'
import type { Client } from '../../../rpc/seam/client.ts'
import type { TransactionService } from '../../../rpc/seam/ports.ts'
import { type Answering, answersOf } from '../../../workers/cells/answering.ts'
import type { AskedFor } from '../../../workers/cells/asking.ts'
import { remoteTransactions } from '../../../workers/cells/ports.ts'

const HASH = new Uint8Array(32).fill(1)
const CLIENT = { address: '10.0.0.1', isGone: false }
const MISSING = { kind: 'account', address: new Uint8Array(20) } as const
const waiting = { nextNonce: () => 7n, isExpected: () => true }

/** The txpool of the main thread as a cell has it, each answer copied as between threads. */
function remote(own: Partial<TransactionService>) {
  const answers = answersOf({ transactions: own } as unknown as Answering)
  const asked: AskedFor = { isGone: false, signal: new AbortController().signal }
  const ask = async ({ what, ...question }: { readonly what: keyof typeof answers }) => {
    const run = answers[what] as (ask: object, client: AskedFor) => unknown
    return structuredClone(await run(structuredClone(question), asked))
  }
  return remoteTransactions(ask as never, waiting, () => {})
}

describe('the txpool, asked from a cell', () => {
  test('what it says of a transaction is what is said', async () => {
    const error = { code: -32_000, message: 'nonce too low' }
    const refused = remote({ submit: () => ({ error }) })
    expect(await refused.submit(HASH, CLIENT)).toEqual({ error })
    const taken = remote({ submit: async () => ({ hash: HASH }) })
    expect(await taken.submit(HASH, CLIENT)).toEqual({ hash: HASH })
  })

  test('who sends, and whether the sequencer has it, is told', async () => {
    const seen: unknown[] = []
    const pool = remote({
      submit(raw, { address, isGone }, isTaken) {
        seen.push(raw, address, isGone, isTaken)
        return { hash: HASH }
      },
    })
    await pool.submit(HASH, CLIENT, true)
    expect(seen).toEqual([HASH, '10.0.0.1', false, true])
  })

  test('state that has to be fetched first, and a view that has gone, are thrown as they were', async () => {
    const lazy = remote({
      submit() {
        throw new MissingError(MISSING)
      },
    })
    await expect(lazy.submit(HASH, CLIENT)).rejects.toMatchObject({ missing: [MISSING] })
    const gone = remote({
      submit() {
        throw new ViewError('gone', 'it is gone')
      },
    })
    await expect(gone.submit(HASH, CLIENT)).rejects.toMatchObject({
      ...{ name: 'ViewError', reason: 'gone', message: 'it is gone' },
    })
  })

  test('one that waits and its standing, or nothing', async () => {
    const transaction = { raw: HASH, nonce: 3n } as never
    const pool = remote({
      get: (hash) => (hash[0] === 1 ? transaction : undefined),
      standingOf: (hash) => (hash[0] === 1 ? { why: 'waits', ms: 5 } : undefined),
      counts: () => ({ pending: 2, queued: 1 }),
    })
    const other = new Uint8Array(32)
    expect([await pool.get(HASH), await pool.get(other)]).toEqual([transaction, undefined])
    expect(await pool.standingOf(HASH)).toEqual({ why: 'waits', ms: 5 })
    expect(await pool.standingOf(other)).toBeUndefined()
    expect(await pool.counts()).toEqual({ pending: 2, queued: 1 })
    expect([pool.nextNonce(HASH, 1n), pool.isExpected(HASH)]).toEqual([7n, true])
  })

  test('listeners are told while there are some', () => {
    const posted: unknown[] = []
    const pool = remoteTransactions((async () => undefined) as never, waiting, (message) =>
      posted.push(message.toPending),
    )
    const heard: unknown[] = []
    const stops = [1, 2].map((name) => pool.onPending((hash) => heard.push([name, hash])))
    pool.pending(HASH, {} as never)
    stops[0]!()
    stops[0]!()
    pool.pending(HASH, {} as never)
    stops[1]!()
    expect(heard).toEqual([
      [1, HASH],
      [2, HASH],
      [2, HASH],
    ])
    expect(posted).toEqual([true, false])
  })

  test('a main thread that does not answer is busy', async () => {
    const pool = remoteTransactions((async () => undefined) as never, waiting, () => {})
    expect(await pool.submit(HASH, CLIENT)).toMatchObject({
      error: { message: 'server busy: the txpool does not answer' },
    })
  })
})

describe('a call that a cell passes on', () => {
  const asked: AskedFor = { isGone: false, signal: new AbortController().signal }
  const call = { method: 'dev_thing', text: '[1]', endpoint: 'standard', address: 'a' } as const
  const answering = (text: string, seen: unknown[] = []) =>
    answersOf({
      answer(body: string, client: Client, paid: unknown) {
        seen.push(JSON.parse(body), client.address, client.endpoint, paid)
        return { text, status: 200, headers: {} }
      },
    } as unknown as Answering)

  test('runs as that client, and is not charged again', async () => {
    const seen: unknown[] = []
    const said = await answering('{"jsonrpc":"2.0","id":1,"result":{"a":[1]}}', seen).call(
      call,
      asked,
    )
    expect(said).toEqual({ result: '{"a":[1]}' })
    expect(seen).toMatchObject([
      { jsonrpc: '2.0', id: 1, method: 'dev_thing', params: [1] },
      ...['a', 'standard'],
      { points: Number.MAX_SAFE_INTEGER, least: 0 },
    ])
  })

  test('gives its error with all that it says', async () => {
    const error = { code: -32_602, message: 'no', data: { at: 0 } }
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, error })
    expect(await answering(text).call(call, asked)).toEqual({ error })
  })

  test('a filter of a cell that is not there is not found', async () => {
    const answers = answersOf({ filter: async () => undefined } as unknown as Answering)
    const said = await answers.filter({ cell: 9, action: 'changes', id: '0x09' }, asked)
    expect(said).toMatchObject({ error: { message: 'filter not found' } })
  })
})
