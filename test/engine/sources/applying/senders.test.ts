/** Senders that a leader has told: what is recovered, what is proven by nonces, and what no lie gets through. */
import { describe, expect, test } from 'vitest'
import type { ExecutedTransaction } from '../../../../engine/execution/transaction/types.ts'
import type { SignedTransaction } from '../../../../engine/primitives/transaction.ts'
import {
  decodeTransaction,
  signTransaction,
} from '../../../../engine/primitives/transaction-codec.ts'
import { concatBytes } from '../../../../engine/primitives/words.ts'
import {
  NOBODY,
  sendersOf,
  type ToldSenders,
  wrongOfSenders,
} from '../../../../engine/sources/applying/senders.ts'
import type { LeaderDiff } from '../../../../engine/sources/applying/types.ts'
import type { AccountChange } from '../../../../engine/state/diff.ts'

const key = (n: number) => new Uint8Array(32).fill(n + 1)
const sign = (account: number, nonce: number): SignedTransaction =>
  signTransaction(
    {
      ...{ type: 2, chainId: 1n, nonce: BigInt(nonce), gasLimit: 21_000n, value: 0n },
      ...{ maxFeePerGas: 1n, maxPriorityFeePerGas: 1n, accessList: [] },
      to: NOBODY,
      input: new Uint8Array(0),
    },
    key(account),
  )
const open = (transaction: SignedTransaction) => decodeTransaction(transaction.raw, NOBODY)
const NONE = { executed: [], senderOf: () => undefined }
const executed = (transaction: SignedTransaction) => ({ transaction }) as ExecutedTransaction
const passes = ({ from }: SignedTransaction, before: number, after: number): AccountChange => {
  const at = (nonce: number) => ({
    nonce: BigInt(nonce),
    balance: 1n,
    codeHash: new Uint8Array(32),
  })
  return { address: from, before: at(before), after: at(after), slots: [], code: undefined }
}
const words = (...list: readonly SignedTransaction[]) => ({
  senders: concatBytes(...list.map(({ from }) => from)),
})

describe('of a flashblock', () => {
  const [x, y] = [sign(0, 5), sign(1, 5)]
  test('the first of a nonce is the leader’s word, a further one is recovered', () => {
    const sent = sendersOf(words(x, y), [open(x), open(y)], NONE)
    if ('kind' in sent) throw new Error(sent.message)
    expect(sent.transactions).toEqual([x, y])
    expect(sent.told).toEqual([x])
  })
  test('two that are swapped are found', () => {
    expect(sendersOf(words(y, x), [open(x), open(y)], NONE)).toMatchObject({ kind: 'sender' })
  })
  test('so is one whose nonce the block has before', () => {
    const block = { ...NONE, executed: [executed(x)] }
    expect(sendersOf(words(x), [open(y)], block)).toMatchObject({ kind: 'sender' })
  })
  test('and one that the txpool has recovered', () => {
    const block = { ...NONE, senderOf: () => x.from }
    expect(sendersOf(words(y), [open(x)], block)).toMatchObject({ kind: 'sender' })
    expect(sendersOf(words(x), [open(x)], block)).toMatchObject({ told: [] })
  })
})

describe('of a whole block', () => {
  const diff = {} as LeaderDiff
  const [x, y, z] = [sign(0, 5), sign(1, 5), sign(2, 7)]
  const told = (...list: readonly SignedTransaction[]): ToldSenders =>
    new Map(list.map((one) => [one, diff]))
  const as = (transaction: SignedTransaction, { from }: SignedTransaction) => ({
    ...transaction,
    from,
  })
  /** No signature says so: whoever recovers finds it wrong. */
  const unsigned = (transaction: SignedTransaction) => ({ ...transaction, r: 0n })

  test('who alone went past a nonce has sent it: nothing is recovered', () => {
    const one = unsigned(z)
    const block = { executed: [executed(one)], changes: [passes(z, 7, 8), passes(x, 2, 5)] }
    expect(wrongOfSenders(told(one), block)).toBeUndefined()
  })
  test('the last of several is who is left', () => {
    const one = unsigned(x)
    const block = { executed: [one, y].map(executed), changes: [passes(x, 5, 6), passes(y, 5, 6)] }
    expect(wrongOfSenders(told(one), block)).toBeUndefined()
  })
  test('who did not go past it is wrong', () => {
    const lie = as(z, x)
    const block = { executed: [executed(lie)], changes: [passes(z, 7, 8)] }
    expect(wrongOfSenders(told(lie), block)).toMatchObject({ diff, fault: { kind: 'sender' } })
  })
  test('where two went past it, and one has sent something else, it is recovered', () => {
    const changes = [passes(z, 7, 8), passes(x, 5, 9)]
    const lie = as(z, x)
    expect(wrongOfSenders(told(z), { executed: [executed(z)], changes })).toBeUndefined()
    expect(wrongOfSenders(told(lie), { executed: [executed(lie)], changes })).toBeDefined()
  })
  test('who has sent another one of that nonce has not sent this one', () => {
    const lie = as(x, y)
    const block = { executed: [lie, y].map(executed), changes: [passes(x, 5, 6), passes(y, 5, 6)] }
    expect(wrongOfSenders(told(lie), block)).toBeDefined()
  })
})
