/** Transactions that other replicas have told: in the order of each sender, and no sender waits for the state of another. */
import { describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { decodeTransaction, signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { MissingError } from '../../../engine/state/reader.ts'
import { createHeardTransactions } from '../../../workers/front/heard-transactions.ts'
import { transfer } from '../../fixtures/executed.ts'

const settled = () => new Promise((resolve) => setImmediate(resolve))
const raw = (account: number, nonce: number): Bytes =>
  signTransaction(
    { ...transfer(BigInt(nonce)) },
    hexToBytes(DEV_ACCOUNTS[account]!.privateKey as `0x${string}`),
  ).raw

/** A txpool whose senders have no state here until it is fetched, which takes as long as the test says. */
function world(lacking: readonly number[]) {
  const missing = new Map(
    lacking.map((account) => [DEV_ACCOUNTS[account]!.address.toLowerCase(), Infinity]),
  )
  const taken: string[] = []
  const fetches: { readonly sender: string; done(failed?: string): void }[] = []
  const failures: unknown[] = []
  const heard = createHeardTransactions({
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
  return { heard, taken, fetches, failures }
}
const name = (account: number, nonce: number) =>
  `${DEV_ACCOUNTS[account]!.address.toLowerCase().slice(0, 6)} ${nonce}`

describe('transactions of other replicas', () => {
  test('whose state does not come delay their sender alone', async () => {
    const { heard, taken, fetches, failures } = world([0])
    heard.take(raw(0, 0))
    heard.take(raw(1, 0))
    heard.take(raw(0, 1))
    heard.take(raw(2, 0))
    heard.take(raw(1, 1))
    await settled()
    expect(taken).toEqual([name(1, 0), name(2, 0), name(1, 1)])
    expect(heard.senders).toBe(1)
    expect(fetches).toHaveLength(1)
    fetches[0]!.done()
    await settled()
    expect(taken.slice(3)).toEqual([name(0, 0), name(0, 1)])
    expect(heard.senders).toBe(0)
    expect(failures).toEqual([])
  })
  test('are let go one by one where their state cannot be had', async () => {
    const { heard, taken, fetches } = world([0])
    for (const nonce of [0, 1]) heard.take(raw(0, nonce))
    fetches[0]!.done('nobody has it')
    await settled()
    fetches[1]!.done()
    await settled()
    expect(taken).toEqual([name(0, 1)])
    expect(heard.senders).toBe(0)
  })
  test('are let go where so many wait behind one', async () => {
    const { heard, taken, fetches } = world([0])
    const again = raw(0, 1)
    heard.take(raw(0, 0))
    for (let count = 0; count < 1_003; count++) heard.take(again)
    expect(heard.dropped).toBe(3)
    heard.take(raw(1, 0))
    expect(taken).toEqual([name(1, 0)])
    fetches[0]!.done()
    await settled()
    expect(taken).toHaveLength(1 + 1 + 1_000)
  })
  test('that cannot be read are nobody else’s delay', async () => {
    const { heard, taken, failures } = world([0])
    heard.take(raw(0, 0))
    heard.take(Uint8Array.of(1, 2, 3))
    heard.take(raw(1, 0))
    expect(taken).toEqual([name(1, 0)])
    expect(failures).toHaveLength(1)
  })
})
