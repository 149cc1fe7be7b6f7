/** A whole world state in maps: what a genesis is before it is stored. */
import type { Bytes } from '../primitives/bytes.ts'
import { encodeAccount } from './account-codec.ts'
import type { StateDiff } from './diff.ts'
import type { StateReader } from './reader.ts'
import { fromLatin1, latin1, wordsOf } from './words.ts'

export type MemoryReader = StateReader & {
  /** Moves the state on by a diff; its `before` values are not looked at. */
  apply(diff: StateDiff): void
}

/** Starts empty, or with `diff` applied. `blockHash` answers BLOCKHASH; without it no ancestor is known. */
export function memoryReader(
  options: {
    readonly diff?: StateDiff
    readonly blockHash?: (number: bigint) => Bytes | undefined
  } = {},
): MemoryReader {
  const accounts = new Map<string, Uint32Array>()
  const storage = new Map<string, Map<string, Uint32Array>>()
  const codes = new Map<string, Bytes>()

  const reader: MemoryReader = {
    account(address, out, at) {
      const found = accounts.get(latin1(address))
      if (found === undefined) return 'absent'
      out.set(found, at)
      return 'present'
    },
    slot(address, key, out, at) {
      const found = storage.get(latin1(address))?.get(latin1(key))
      if (found === undefined) return 'absent'
      out.set(found, at)
      return 'present'
    },
    code: (hash) => codes.get(latin1(hash)) ?? (latin1(hash) === EMPTY_KEY ? NO_CODE : 'missing'),
    blockHash: (number) => options.blockHash?.(number),
    *slots(address) {
      for (const [key, value] of storage.get(latin1(address)) ?? [])
        yield { key: fromLatin1(key), value: new Uint8Array(value.slice().buffer) }
    },
    apply(diff) {
      for (const { address, after, slots, code } of diff) {
        const key = latin1(address)
        if (after === undefined) accounts.delete(key)
        else accounts.set(key, wordsOf(encodeAccount(after)))
        if (after !== undefined && code !== undefined) codes.set(latin1(after.codeHash), code)
        if (slots.length > 0) applySlots(storage, key, slots)
      }
    },
  }
  if (options.diff !== undefined) reader.apply(options.diff)
  return reader
}

function applySlots(
  storage: Map<string, Map<string, Uint32Array>>,
  address: string,
  slots: StateDiff[number]['slots'],
): void {
  const kept = storage.get(address) ?? new Map<string, Uint32Array>()
  for (const { key, after } of slots)
    if (after.some((byte) => byte !== 0)) kept.set(latin1(key), wordsOf(after.slice()))
    else kept.delete(latin1(key))
  if (kept.size > 0) storage.set(address, kept)
  else storage.delete(address)
}

const NO_CODE = new Uint8Array(0)
const EMPTY_KEY = fromLatin1Hex('c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470')

function fromLatin1Hex(hex: string): string {
  return Buffer.from(hex, 'hex').toString('latin1')
}
