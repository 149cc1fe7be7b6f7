/** Raw transactions of every type as hex: complete ones with long parts, and invalid RLP. */
import type { Dice } from './random.ts'
import type { Rope } from './rope.ts'

const word: Rope = { item: { digits: 64 } }
const address: Rope = { item: { digits: 40 } }
const SIGNATURE: readonly Rope[] = ['01', { item: '7a'.repeat(32) }, { item: '1b'.repeat(32) }]
const FEES: Rope = ['80', { item: '3b9aca00' }, { item: '3b9aca00' }, { item: '989680' }]
const CHAIN = '81c4'

const times = (characters: number, each: number) => Math.max(0, Math.floor(characters / each))

/**
 * Makes a transaction.
 * @param characters the approximate length in hex
 */
export function rawTransaction(dice: Dice, characters: number): Rope {
  const kind = dice.int(8)
  const data: Rope = { item: { of: dice.pick(['00', '5b', 'ff01']), times: times(characters, 2) } }
  const accessList: Rope = {
    list: {
      of: { list: [address, { list: { of: word, times: dice.pick([0, 1, 30, 1_000]) } }] },
      times: times(characters, 120),
    },
  }
  if (kind === 0) return litter(dice, characters)
  if (kind === 1) return ['02', { list: litter(dice, characters) }]
  if (kind === 2)
    return {
      list: [
        '80',
        { item: '3b9aca00' },
        { item: '5208' },
        address,
        '80',
        data,
        '8201ab',
        SIGNATURE.slice(1),
      ],
    }
  if (kind === 3)
    return [
      '01',
      {
        list: [
          CHAIN,
          '80',
          { item: '3b9aca00' },
          { item: '989680' },
          address,
          '80',
          '80',
          accessList,
          SIGNATURE,
        ],
      },
    ]
  if (kind === 4) return ['02', { list: [CHAIN, FEES, address, '80', data, 'c0', SIGNATURE] }]
  if (kind === 5) return ['02', { list: [CHAIN, FEES, address, '80', '80', accessList, SIGNATURE] }]
  if (kind === 6) return ['03', blobs(dice, characters)]
  const authorization: Rope = { list: [CHAIN, address, { item: { digits: 4 } }, SIGNATURE] }
  const authorizations: Rope = { list: { of: authorization, times: times(characters, 190) } }
  return ['04', { list: [CHAIN, FEES, address, '80', '80', 'c0', authorizations, SIGNATURE] }]
}

/** Makes a blob transaction, with or without its sidecar. */
function blobs(dice: Dice, characters: number): Rope {
  const count = dice.pick([1, 6, 100, times(characters, 66)])
  const hashes: Rope = { list: { of: { item: ['01', { digits: 62 }] }, times: count } }
  const body: Rope = { list: [CHAIN, FEES, address, '80', '80', 'c0', '01', hashes, SIGNATURE] }
  if (dice.chance(0.5)) return body
  const blob: Rope = { item: { of: '00', times: 131_072 } }
  const short: Rope = { item: { of: '00', times: 48 } }
  const few = Math.min(count, 7)
  return {
    list: [
      body,
      { list: { of: blob, times: few } },
      { list: { of: short, times: few } },
      { list: { of: short, times: few } },
    ],
  }
}

function litter(dice: Dice, characters: number): Rope {
  const piece = Array.from({ length: 1 + dice.int(3) }, () =>
    dice.pick<Rope>([
      'c0',
      '80',
      '00',
      'c1',
      'f8',
      'b8',
      'bf',
      'ff',
      'c2c1c0',
      { item: 'aa' },
      { list: '8080' },
      word,
    ]),
  )
  return { of: piece, times: Math.max(1, times(characters, 2 * piece.length)) }
}
