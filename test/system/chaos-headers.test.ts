/**
 * Rules for a subscription to headers behind a balancer. A client that connects again may get the
 * header of the rest of a block, and no other extra header.
 */
import { expect, test } from 'vitest'
import { judge, KINDS } from '../outside/scale/chaos/listeners.ts'

const headers = KINDS.find(({ name }) => name === 'flashblocks')!
const FLASHBLOCK_IDS = ['1 a', '1 b', '2 a', '2 b', '3 a'] as const
const entries = FLASHBLOCK_IDS.map((flashblockId, position) => {
  const [number, hash] = flashblockId.split(' ')
  const rest = { transactions: [], logs: [], emittedAt: 0 }
  return { position, number: Number(number), index: 0, flashblockId, hash: hash!, ...rest }
})
const [A, B, C, D, E] = FLASHBLOCK_IDS

type Case = [name: string, emitted: readonly string[], joins: readonly number[], wrong: number]
test.each<Case>([
  ['all headers once', [A, B, C, D, E], [0], 0],
  ['the rest of a block after a reconnect', [A, B, '1 rest', C, D, E], [0, 2], 0],
  ['the rest of a block without a reconnect', [A, B, '1 rest', C, D, E], [0], 1],
  ['two headers for the rest of a block', [A, B, '1 rest', '1 other', C, D, E], [0, 2], 1],
  ['the rest of another block', [A, B, '9 rest', C, D, E], [0, 2], 1],
  ['a header twice', [A, B, A, C, D, E], [0, 2], 1],
  ['two headers in another order', [A, B, D, C, E], [0], 1],
])('a subscription is judged by its headers: %s', (_, emitted, joins, wrong) => {
  const judged = judge(
    { kind: headers, from: 'a', emitted: [...emitted], joins: [...joins] },
    { entries },
  )
  expect(judged.wrong.length).toBe(wrong)
})
