/** Text form of the keys that a call missed, in which a worker returns them. */
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import type { MissingKey } from '../../engine/state/reader.ts'

/** First letter of the key's kind, then its parts in hex. */
type Row = readonly ['a' | 'c' | 'b', string] | readonly ['s', string, string]

export const missingText = (keys: readonly MissingKey[]): string => JSON.stringify(keys.map(rowOf))

export const missingOfText = (text: string): readonly MissingKey[] =>
  (JSON.parse(text) as readonly Row[]).map(keyOf)

function rowOf(key: MissingKey): Row {
  switch (key.kind) {
    case 'account':
      return ['a', bytesToHex(key.address)]
    case 'slot':
      return ['s', bytesToHex(key.address), bytesToHex(key.key)]
    case 'code':
      return ['c', bytesToHex(key.hash)]
    case 'blockHash':
      return ['b', `${key.number}`]
  }
}

function keyOf(row: Row): MissingKey {
  switch (row[0]) {
    case 'a':
      return { kind: 'account', address: hexToBytes(row[1]) }
    case 's':
      return { kind: 'slot', address: hexToBytes(row[1]), key: hexToBytes(row[2]) }
    case 'c':
      return { kind: 'code', hash: hexToBytes(row[1]) }
    case 'b':
      return { kind: 'blockHash', number: BigInt(row[1]) }
  }
}
