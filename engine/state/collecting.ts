/**
 * Reads of a lazy state for a run that is thrown away: what is missing is noted, and the run goes on with nothing in its place, so that one
 * run tells of many keys. Whoever runs so asks afterwards whether anything was missing, and then believes nothing of what came out.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { EMPTY_HASH } from '../primitives/keccak.ts'
import type { AccessList } from '../primitives/transaction.ts'
import { equalBytes } from '../primitives/words.ts'
import { readAccount, readSlot } from './read.ts'
import { describeMissing, type MissingKey, type StateReader } from './reader.ts'
import { bytesOf } from './words.ts'

/** The keys that one run has missed, each once, in the order of the questions. */
export class MissingKeys {
  readonly #most: number
  readonly #keys = new Map<string, MissingKey>()

  /** @param most it is asked for that many at once; what comes after is not noted */
  constructor(most: number) {
    this.#most = most
  }

  get size(): number {
    return this.#keys.size
  }
  get isFull(): boolean {
    return this.#keys.size >= this.#most
  }
  /** Its bytes are kept as they are. */
  note(key: MissingKey): void {
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
 * The same state; an account or slot that is missing is absent, a block hash unknown. Code stays missing, because engines keep code by its
 * hash for other runs: it is noted, and the run ends with it, or goes on without.
 */
export const collectingReader = (reader: StateReader, missing: MissingKeys): StateReader => ({
  account(address, out, at) {
    const presence = reader.account(address, out, at)
    if (presence !== 'missing') return presence
    missing.note({ kind: 'account', address: copyOf(address) })
    return 'absent'
  },
  slot(address, key, out, at) {
    const presence = reader.slot(address, key, out, at)
    if (presence !== 'missing') return presence
    missing.note({ kind: 'slot', address: copyOf(address), key: copyOf(key) })
    return 'absent'
  },
  code(hash) {
    const code = reader.code(hash)
    if (code === 'missing') missing.note({ kind: 'code', hash: hash.slice() })
    return code
  },
  blockHash(number) {
    const hash = reader.blockHash(number)
    if (hash !== 'missing') return hash
    missing.note({ kind: 'blockHash', number })
    return undefined
  },
  hasSlots: (address) => reader.hasSlots(address),
  slots: (address) => reader.slots(address),
})

/** What a call or a transaction names itself. */
export type Naming = {
  readonly from?: Bytes | undefined
  readonly to?: Bytes | undefined
  readonly accessList?: AccessList | undefined
}

/** What it reads for certain: sender, target and that one's code, access list. */
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

/** Engines ask with words of their own memory. */
const copyOf = (words: Uint32Array) => bytesOf(words).slice()
