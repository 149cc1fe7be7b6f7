/**
 * Rules for a subscription to headers behind a balancer: a client that comes back may get the header
 * of the rest of a block, and nothing else.
 */
import { expect, test } from 'vitest'
import { judge, KINDS } from '../outside/scale/chaos/listeners.ts'

const headers = KINDS.find(({ name }) => name === 'flashblocks')!
const PLACES = ['1 a', '1 b', '2 a', '2 b', '3 a'] as const
const entries = PLACES.map((place, position) => {
  const [number, hash] = place.split(' ')
  const rest = { transactions: [], logs: [], toldAt: 0 }
  return { position, number: Number(number), index: 0, place, hash: hash!, ...rest }
})
const [A, B, C, D, E] = PLACES

type Case = [name: string, told: readonly string[], joins: readonly number[], wrong: number]
test.each<Case>([
  ['all of it', [A, B, C, D, E], [0], 0],
  ['the rest of a block, where it comes back', [A, B, '1 rest', C, D, E], [0, 2], 0],
  ['the same on one connection', [A, B, '1 rest', C, D, E], [0], 1],
  ['the same twice', [A, B, '1 rest', '1 other', C, D, E], [0, 2], 1],
  ['of another block', [A, B, '9 rest', C, D, E], [0, 2], 1],
  ['one is told again', [A, B, A, C, D, E], [0, 2], 1],
  ['two are told in another order', [A, B, D, C, E], [0], 1],
])('%s', (_, told, joins, wrong) => {
  const judged = judge(
    { kind: headers, from: 'a', told: [...told], joins: [...joins] },
    { entries },
  )
  expect(judged.wrong.length).toBe(wrong)
})
