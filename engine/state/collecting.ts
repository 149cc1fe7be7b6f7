/**
 * Reads of a lazy state for a run whose result is thrown away.
 * A missing value is recorded and treated as absent, so that one run finds many missing keys. The
 * caller discards the result of a run that missed anything.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { EMPTY_HASH } from '../primitives/keccak.ts'
import type { AccessList } from '../primitives/transaction.ts'
import { equalBytes } from '../primitives/words.ts'
import { readAccount, readSlot } from './read.ts'
import { describeMissing, type MissingKey, type StateReader } from './reader.ts'
import { bytesOf } from './words.ts'

/** The keys that one run has missed, without duplicates, in the order of the reads. */
export class MissingKeys {
  readonly #max: number
  readonly #keys = new Map<string, MissingKey>()

  /** @param max number of keys that one request fetches; further keys are not recorded */
  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#keys.size
  }
  get isFull(): boolean {
    return this.#keys.size >= this.#max
  }
  /** Records a key without copying its bytes. */
  add(key: MissingKey): void {
    if (!this.isFull) this.#keys.set(describeMissing(key), key)
  }
  list(): readonly MissingKey[] {
    return [...this.#keys.values()]
  }
  clear(): void {
    this.#keys.clear()
  }
}

/**
 * Wraps a state so that missing accounts and slots read as absent, and missing block hashes as
 * unknown.
 * Code stays missing, because engines cache code by hash for other runs. The engine then stops or
 * continues without the code.
 */
export const collectingReader = (reader: StateReader, missing: MissingKeys): StateReader => ({
  account(address, out, at) {
    const presence = reader.account(address, out, at)
    if (presence !== 'missing') return presence
    missing.add({ kind: 'account', address: copyOf(address) })
    return 'absent'
  },
  slot(address, key, out, at) {
    const presence = reader.slot(address, key, out, at)
    if (presence !== 'missing') return presence
    missing.add({ kind: 'slot', address: copyOf(address), key: copyOf(key) })
    return 'absent'
  },
  code(hash) {
    const code = reader.code(hash)
    if (code === 'missing') missing.add({ kind: 'code', hash: hash.slice() })
    return code
  },
  blockHash(number) {
    const hash = reader.blockHash(number)
    if (hash !== 'missing') return hash
    missing.add({ kind: 'blockHash', number })
    return undefined
  },
  hasSlots: (address) => reader.hasSlots(address),
  slots: (address) => reader.slots(address),
})

export type Naming = {
  readonly from?: Bytes | undefined
  readonly to?: Bytes | undefined
  readonly accessList?: AccessList | undefined
}

/** Reads everything that a call is sure to read: sender, target with its code, access list. */
export function readNamed(reader: StateReader, { from, to, accessList = [] }: Naming): void {
  if (from !== undefined) readAccount(reader, from)
  if (to !== undefined) expectCode(reader, to)
  for (const { address, storageKeys } of accessList) {
    expectCode(reader, address)
    for (const key of storageKeys) readSlot(reader, address, key)
  }
}

function expectCode(reader: StateReader, address: Bytes): void {
  const account = readAccount(reader, address)
  if (account !== undefined && !equalBytes(account.codeHash, EMPTY_HASH))
    reader.code(account.codeHash)
}

/** The copy is needed, because engines pass words of their own memory. */
const copyOf = (words: Uint32Array) => bytesOf(words).slice()
