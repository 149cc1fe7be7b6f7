/**
 * Reads the block access list that X Layer's builder sends with a flashblock (EIP-7928, RLP). The
 * list names the state that the flashblock touches.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { field, type JsonObject, Refusal, readBytes } from '../primitives/json-fields.ts'
import { checkRlp, RlpError, spanAt } from '../primitives/rlp.ts'

export type AccessListBounds = {
  readonly bytes: number
  /** Maximum number of accounts and slots together. */
  readonly items: number
}
export type AccessKeys = {
  /** Addresses of 20 bytes each. */
  readonly accounts: readonly Bytes[]
  /** Address and slot, 52 bytes each; changed and read slots. */
  readonly slots: readonly Bytes[]
}

/** Field names for counting refusals. */
export const MALFORMED = 'access-list'
export const TOO_LARGE = 'access-list-size'

/**
 * Reads the keys of the access list in a flashblock's metadata.
 * @param metadata metadata as received
 * @returns undefined when there is no list
 * @throws {Refusal} with the field `MALFORMED` or `TOO_LARGE`
 */
export function accessKeysIn(
  metadata: JsonObject,
  bounds: AccessListBounds,
): AccessKeys | undefined {
  const wire = field(metadata, 'access_list')
  if (wire === undefined) return undefined
  if (typeof wire === 'string' && wire.length > 2 + 2 * bounds.bytes)
    throw new Refusal(TOO_LARGE, `at most ${bounds.bytes} bytes`, `${wire.length >> 1}`)
  return readAccessKeys(readBytes(wire, MALFORMED), bounds.items)
}

/** @throws {Refusal} with the field `MALFORMED` or `TOO_LARGE` */
export function readAccessKeys(rlp: Bytes, maxItems: number): AccessKeys {
  const accounts: Bytes[] = []
  const slots: Bytes[] = []
  try {
    checkRlp(rlp)
    for (const account of listAt(rlp, 0)) {
      const { address, keys } = accountAt(rlp, account)
      accounts.push(address)
      for (const key of keys) {
        slots.push(slotOf(rlp, address, key))
        checkItems(accounts.length + slots.length)
      }
      checkItems(accounts.length + slots.length)
    }
    return { accounts, slots }
  } catch (error) {
    if (error instanceof RlpError) throw new Refusal(MALFORMED, 'RLP', error.message)
    throw error
  }

  function checkItems(items: number): void {
    if (items > maxItems)
      throw new Refusal(TOO_LARGE, `at most ${maxItems} accounts and slots`, 'more')
  }
}

/**
 * Number of fields of an account: [address, [[slot, changes]], [slot], balances, nonces, codes].
 */
const FIELDS = 6

function accountAt(rlp: Bytes, at: number) {
  const fields: number[] = []
  for (const item of listAt(rlp, at)) if (fields.push(item) > FIELDS) break
  if (fields.length !== FIELDS) throw new Refusal(MALFORMED, `${FIELDS} fields of an account`)
  const [addressAt, changes, reads, ...others] = fields as [number, number, number]
  const address = bytesAt(rlp, addressAt)
  if (address.length !== 20)
    throw new Refusal(MALFORMED, '20 bytes of an address', `${address.length}`)
  for (const other of others) listAt(rlp, other).next()
  return { address, keys: keysAt(rlp, changes, reads) }
}

function* keysAt(rlp: Bytes, changes: number, reads: number): Generator<number, void> {
  for (const change of listAt(rlp, changes)) {
    const slot = listAt(rlp, change).next().value
    if (slot === undefined) throw new Refusal(MALFORMED, 'a slot and its changes')
    yield slot
  }
  yield* listAt(rlp, reads)
}

/**
 * Returns address ‖ slot. A slot is 32 bytes in some versions of the EIP and a number in others.
 */
function slotOf(rlp: Bytes, address: Bytes, at: number): Bytes {
  const slot = bytesAt(rlp, at)
  if (slot.length > 32) throw new Refusal(MALFORMED, 'at most 32 bytes of a slot', `${slot.length}`)
  const key = new Uint8Array(52)
  key.set(address)
  key.set(slot, 52 - slot.length)
  return key
}

/**
 * Yields the offsets of the items of the list at `at`.
 * @throws {Refusal} when `at` is not a list
 */
function* listAt(rlp: Bytes, at: number): Generator<number, void> {
  if (rlp[at]! < 0xc0) throw new Refusal(MALFORMED, 'a list')
  const { start, next } = spanAt(rlp, at)
  for (let item = start; item < next; item = spanAt(rlp, item).next) yield item
}

function bytesAt(rlp: Bytes, at: number): Bytes {
  if (!(rlp[at]! < 0xc0)) throw new Refusal(MALFORMED, 'bytes')
  const { start, next } = spanAt(rlp, at)
  return rlp.subarray(start, next)
}
