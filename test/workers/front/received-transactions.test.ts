/**
 * Transactions from other replicas stay in the order of each sender, and no sender waits for the
 * state of another.
 */
import { describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { decodeTransaction, signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { MissingError } from '../../../engine/state/reader.ts'
import { createReceivedTransactions } from '../../../workers/front/received-transactions.ts'
import { transfer } from '../../fixtures/executed.ts'

const settled = () => new Promise((resolve) => setImmediate(resolve))
const raw = (account: number, nonce: number): Bytes =>
  signTransaction(
    { ...transfer(BigInt(nonce)) },
    hexToBytes(DEV_ACCOUNTS[account]!.privateKey as `0x${string}`),
  ).raw

/** Makes a txpool whose senders lack state until it is fetched, at a time that the test sets. */
function world(lacking: readonly number[]) {
  const missing = new Map(
    lacking.map((account) => [DEV_ACCOUNTS[account]!.address.toLowerCase(), Infinity]),
  )
  const taken: string[] = []
  const fetches: { readonly sender: string; done(failed?: string): void }[] = []
  const failures: unknown[] = []
  const received = createReceivedTransactions({
    transactions: {
      submit(bytes) {
        const { from, hash, ...rest } = decodeTransaction(bytes)
        const sender = bytesToHex(from)
        if (missing.has(sender)) throw new MissingError({ kind: 'account', address: from })
        taken.push(`${sender.slice(0, 6)} ${'nonce' in rest ? rest.nonce : ''}`)
        return { hash }
      },
    },
    lazy: {
      fetch: (keys) =>
        new Promise((resolve) => {
          const sender = bytesToHex(Reflect.get(keys[0]!, 'address') as Bytes)
          fetches.push({
            sender,
            done(failed) {
              if (failed === undefined) missing.delete(sender)
              resolve({ failed })
            },
          })
        }),
    },
    report: (_what, fields) => void failures.push(fields),
  })
  return { received, taken, fetches, failures }
}
const name = (account: number, nonce: number) =>
  `${DEV_ACCOUNTS[account]!.address.toLowerCase().slice(0, 6)} ${nonce}`

describe('transactions of other replicas', () => {
  test('without state delay only their own sender', async () => {
    const { received, taken, fetches, failures } = world([0])
    received.take(raw(0, 0))
    received.take(raw(1, 0))
    received.take(raw(0, 1))
    received.take(raw(2, 0))
    received.take(raw(1, 1))
    await settled()
    expect(taken).toEqual([name(1, 0), name(2, 0), name(1, 1)])
    expect(received.senders).toBe(1)
    expect(fetches).toHaveLength(1)
    fetches[0]!.done()
    await settled()
    expect(taken.slice(3)).toEqual([name(0, 0), name(0, 1)])
    expect(received.senders).toBe(0)
    expect(failures).toEqual([])
  })
  test('are dropped one by one when their state cannot be fetched', async () => {
    const { received, taken, fetches } = world([0])
    for (const nonce of [0, 1]) received.take(raw(0, nonce))
    fetches[0]!.done('nobody has it')
    await settled()
    fetches[1]!.done()
    await settled()
    expect(taken).toEqual([name(0, 1)])
    expect(received.senders).toBe(0)
  })
  test('are dropped when too many wait behind one of them', async () => {
    const { received, taken, fetches } = world([0])
    const repeated = raw(0, 1)
    received.take(raw(0, 0))
    for (let count = 0; count < 1_003; count++) received.take(repeated)
    expect(received.dropped).toBe(3)
    received.take(raw(1, 0))
    expect(taken).toEqual([name(1, 0)])
    fetches[0]!.done()
    await settled()
    expect(taken).toHaveLength(1 + 1 + 1_000)
  })
  test('that are malformed delay no other transaction', async () => {
    const { received, taken, failures } = world([0])
    received.take(raw(0, 0))
    received.take(Uint8Array.of(1, 2, 3))
    received.take(raw(1, 0))
    expect(taken).toEqual([name(1, 0)])
    expect(failures).toHaveLength(1)
  })
})
