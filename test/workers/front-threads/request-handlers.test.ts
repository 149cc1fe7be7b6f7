import { describe, expect, test } from 'vitest'
import { MissingError, ViewError } from '../../../engine/state/reader.ts'
import type { Client } from '../../../rpc/core/client.ts'
import type { TransactionService } from '../../../rpc/core/ports.ts'
import { remoteTransactions } from '../../../workers/front-threads/ports.ts'
import {
  type HandlerPorts,
  requestHandlers,
} from '../../../workers/front-threads/request-handlers.ts'
import type { RequestClient } from '../../../workers/front-threads/requests.ts'

const HASH = new Uint8Array(32).fill(1)
const CLIENT = { address: '10.0.0.1', isGone: false }
const MISSING = { kind: 'account', address: new Uint8Array(20) } as const
const waiting = { nextNonce: () => 7n, isExpected: () => true }

/**
 * Makes a front thread's client of the main thread's txpool; each response is copied like between
 * threads.
 */
function remote(own: Partial<TransactionService>) {
  const responses = requestHandlers({ transactions: own } as unknown as HandlerPorts)
  const client: RequestClient = { isGone: false, signal: new AbortController().signal }
  const request = async ({ what, ...question }: { readonly what: keyof typeof responses }) => {
    const run = responses[what] as (query: object, client: RequestClient) => unknown
    return structuredClone(await run(structuredClone(question), client))
  }
  return remoteTransactions(request as never, waiting, () => {})
}

describe('the txpool as seen by a front thread', () => {
  test('returns its result for a transaction unchanged', async () => {
    const error = { code: -32_000, message: 'nonce too low' }
    const refused = remote({ submit: () => ({ error }) })
    expect(await refused.submit(HASH, CLIENT)).toEqual({ error })
    const taken = remote({ submit: async () => ({ hash: HASH }) })
    expect(await taken.submit(HASH, CLIENT)).toEqual({ hash: HASH })
  })

  test('learns the client and whether the sequencer has accepted the transaction', async () => {
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

  test('throws errors for missing state and lost views unchanged', async () => {
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
      name: 'ViewError',
      reason: 'gone',
      message: 'it is gone',
    })
  })

  test('gives pooled transactions and their standing, or nothing', async () => {
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

  test('notifies listeners only while there are some', () => {
    const posted: unknown[] = []
    const pool = remoteTransactions((async () => undefined) as never, waiting, (message) =>
      posted.push(message.toPending),
    )
    const received: unknown[] = []
    const stops = [1, 2].map((name) => pool.onPending((hash) => received.push([name, hash])))
    pool.pending(HASH, {} as never)
    stops[0]!()
    stops[0]!()
    pool.pending(HASH, {} as never)
    stops[1]!()
    expect(received).toEqual([
      [1, HASH],
      [2, HASH],
      [2, HASH],
    ])
    expect(posted).toEqual([true, false])
  })

  test('is busy when the main thread does not respond', async () => {
    const pool = remoteTransactions((async () => undefined) as never, waiting, () => {})
    expect(await pool.submit(HASH, CLIENT)).toMatchObject({
      error: { message: 'server busy: the txpool does not answer' },
    })
  })
})

describe('a call that a front thread passes on', () => {
  const client: RequestClient = { isGone: false, signal: new AbortController().signal }
  const call = { method: 'dev_thing', text: '[1]', endpoint: 'standard', address: 'a' } as const
  const respondWith = (text: string, seen: unknown[] = []) =>
    requestHandlers({
      respond(body: string, client: Client, prepaid: unknown) {
        seen.push(JSON.parse(body), client.address, client.endpoint, prepaid)
        return { text, status: 200, headers: {} }
      },
    } as unknown as HandlerPorts)

  test('runs for its client, and is not charged again', async () => {
    const seen: unknown[] = []
    const said = await respondWith('{"jsonrpc":"2.0","id":1,"result":{"a":[1]}}', seen).call(
      call,
      client,
    )
    expect(said).toEqual({ result: '{"a":[1]}' })
    expect(seen).toMatchObject([
      { jsonrpc: '2.0', id: 1, method: 'dev_thing', params: [1] },
      ...['a', 'standard'],
      { points: Number.MAX_SAFE_INTEGER, min: 0 },
    ])
  })

  test('returns its error with all fields', async () => {
    const error = { code: -32_602, message: 'no', data: { at: 0 } }
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, error })
    expect(await respondWith(text).call(call, client)).toEqual({ error })
  })

  test('to a filter of a missing front thread is not found', async () => {
    const responses = requestHandlers({ filter: async () => undefined } as unknown as HandlerPorts)
    const said = await responses.filter({ frontThread: 9, action: 'changes', id: '0x09' }, client)
    expect(said).toMatchObject({ error: { message: 'filter not found' } })
  })
})
