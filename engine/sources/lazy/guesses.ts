/**
 * Slots that an execution will probably read, because earlier executions of the same code have read
 * them. Guesses are learnt from fetched keys. A fixed slot (owner, implementation, total supply) is
 * the same in all contracts of one code.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import { equalBytes } from '../../primitives/words.ts'
import { latin1 } from '../../state/words.ts'
import { slotKey } from '../../storage/blocks/block-codec.ts'
import type { StoreReader } from '../../storage/types.ts'
import type { StateKey } from './calls.ts'

export interface Guesses {
  /**
   * Returns guessed slots of the accounts among these keys if their code is known. Slots in the
   * store and the keys themselves are excluded.
   */
  slotsOf(keys: readonly StateKey[]): readonly StateKey[]
  learn(keys: readonly StateKey[]): void
}

/** Limits of codes, and of slots for each; the oldest are dropped. */
const MAX_CODES = 4_096
const MAX_SLOTS = 16
/** Limit of guesses for one request. */
const MAX_GUESSES = 64

export function createGuesses(store: Pick<StoreReader, 'flatAccount' | 'flatSlot'>): Guesses {
  /** Slots by code hash. */
  const known = new Map<string, Map<string, Bytes>>()

  const codeOf = (address: Bytes): string | undefined => {
    const account = store.flatAccount(address)
    if (account === undefined || account === 'missing') return undefined
    const hash = account.subarray(40)
    return equalBytes(hash, EMPTY_HASH) ? undefined : latin1(hash)
  }

  return {
    slotsOf(keys) {
      const named = new Set(keys.map((key) => (key.kind === 'slot' ? nameOf(key) : '')))
      const guesses: StateKey[] = []
      for (const address of addressesIn(keys))
        for (const key of known.get(codeOf(address) ?? '')?.values() ?? []) {
          const guess = { kind: 'slot', address, key } as const
          if (named.has(nameOf(guess)) || store.flatSlot(slotKey(address, key)) !== 'missing')
            continue
          guesses.push(guess)
          if (guesses.length === MAX_GUESSES) return guesses
        }
      return guesses
    },
    learn(keys) {
      for (const key of keys) {
        if (key.kind !== 'slot' || !isPlainSlot(key.key)) continue
        const code = codeOf(key.address)
        if (code === undefined) continue
        const slots = known.get(code) ?? new Map<string, Bytes>()
        slots.set(latin1(key.key), key.key.slice())
        if (slots.size > MAX_SLOTS) slots.delete(slots.keys().next().value!)
        known.delete(code)
        known.set(code, slots)
        if (known.size > MAX_CODES) known.delete(known.keys().next().value!)
      }
    },
  }
}

function addressesIn(keys: readonly StateKey[]): Iterable<Bytes> {
  const found = new Map<string, Bytes>()
  for (const key of keys) if (key.kind !== 'code') found.set(latin1(key.address), key.address)
  return found.values()
}

/**
 * Whether a slot is numbered by the compiler or named by EIP-1967. Entries of mappings and arrays
 * belong to one contract alone.
 */
const isPlainSlot = (key: Bytes): boolean =>
  key.subarray(0, 30).every((byte) => byte === 0) || NAMED.has(latin1(key))

const NAMED: ReadonlySet<string> = new Set(
  [
    // eip1967.proxy.implementation, .admin, .beacon
    '360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc',
    'b53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103',
    'a3f0ad74e5423aebfd80d3ef4346578335a9a72aeaee59ff6cb3582b35133d50',
  ].map((digits) => Buffer.from(digits, 'hex').toString('latin1')),
)

type SlotKey = Extract<StateKey, { readonly kind: 'slot' }>
const nameOf = ({ address, key }: SlotKey): string => latin1(address) + latin1(key)
