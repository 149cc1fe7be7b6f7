/** Methods that read accounts. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { collectingReader, MissingKeys } from '../../engine/state/collecting.ts'
import { readAccount, readCode, readSlot } from '../../engine/state/read.ts'
import { MissingError, type StateReader } from '../../engine/state/reader.ts'
import { invalidParams } from '../core/errors.ts'
import type { Limits } from '../core/limits.ts'
import { address, blockId, hash, hexText } from '../json/codecs.ts'
import { bytesResult, quantityResult, textResult } from '../json/results.ts'
import { array, record, text } from '../json/schema.ts'
import { frontMethod, optional, param } from '../method/method.ts'
import { LATEST, resolveBlock, resolveState } from '../method/resolve.ts'
import { KEY_CHARACTERS, slotKey } from './shared/slot-key.ts'

const LISTED = ['standard', 'flashblocks'] as const
const account = param('Address', address)
const block = optional('Block', blockId, LATEST)

export const eth_getBalance = frontMethod({
  name: 'eth_getBalance',
  about: { is: 'state', at: 1 },
  summary: 'Balance of an account in wei.',
  listed: LISTED,
  params: [account, block],
  result: quantityResult('Balance'),
  handler: ({ view }, who, at) => readAccount(resolveState(view, at), who)?.balance ?? 0n,
})

export const eth_getTransactionCount = frontMethod({
  name: 'eth_getTransactionCount',
  about: { is: 'state', at: 1 },
  summary:
    'Nonce of an account; with the tag pending, it includes transactions that wait in the txpool.',
  listed: LISTED,
  params: [account, block],
  result: quantityResult('Transaction count'),
  handler({ view, services }, who, at) {
    const nonce = readAccount(resolveState(view, at), who)?.nonce ?? 0n
    const isPending = 'tag' in at && at.tag === 'pending'
    return isPending ? services.transactions.nextNonce(who, nonce) : nonce
  },
})

export const eth_getCode = frontMethod({
  name: 'eth_getCode',
  about: { is: 'state', at: 1 },
  summary: 'Code of an account.',
  listed: LISTED,
  params: [account, block],
  result: bytesResult('Bytecode'),
  handler: ({ view }, who, at) => readCode(resolveState(view, at), who),
})

export const eth_getStorageAt = frontMethod({
  name: 'eth_getStorageAt',
  about: { is: 'state', at: 2 },
  summary: 'Value of a storage slot of a contract, 32 bytes.',
  listed: LISTED,
  params: [account, param('Storage slot', text('hex encoded slot', KEY_CHARACTERS)), block],
  result: bytesResult('Value'),
  handler: ({ view }, who, key, at) =>
    readSlot(view.state(resolveBlock(view, at)), who, slotKey(key).key),
})

type Wanted = readonly (readonly [Bytes, readonly Bytes[]])[]

function slotsText(state: StateReader, wanted: Wanted): string {
  const lists = wanted.map(([who, keys]) => {
    const values = keys.map((key) => hexText(readSlot(state, who, key)))
    return `${hexText(who)}:[${values.join(',')}]`
  })
  return `{${lists.join(',')}}`
}

/** Collects the slots that must be fetched, so that one error lists all of them. */
function allMissing(state: StateReader, wanted: Wanted): MissingError {
  const missing = new MissingKeys(Number.POSITIVE_INFINITY)
  slotsText(collectingReader(state, missing), wanted)
  const [first, ...others] = missing.list()
  return new MissingError(first!, ...others)
}

const slotLists = record({
  title: 'storage slots',
  key: address,
  value: array(hash, 'storageSlots', 'common.Hash'),
  max: 'storageSlots',
})
/** Reading a slot takes a few microseconds of the front. */
const SLOTS_PER_POINT = 32
/**
 * Computes the points of a query. A query over the limit takes one point, because it is refused
 * without a read.
 */
function pointsOfSlots([wanted]: readonly unknown[], { storageSlots }: Limits): number {
  if (typeof wanted !== 'object' || wanted === null) return 1
  let slots = 0
  for (const keys of Object.values(wanted)) if (Array.isArray(keys)) slots += keys.length
  return slots > storageSlots ? 1 : Math.max(1, Math.ceil(slots / SLOTS_PER_POINT))
}

export const eth_getStorageValues = frontMethod({
  name: 'eth_getStorageValues',
  about: { is: 'state', at: 1, isLocalOnly: true },
  summary: 'Values of many storage slots of many contracts, on the state of one block.',
  params: [param('Slots by address', slotLists), block],
  cost: pointsOfSlots,
  result: textResult('Values', { type: 'object' }),
  handler({ view, limits: { storageSlots } }, wanted, at) {
    const count = wanted.reduce((sum, [, keys]) => sum + keys.length, 0)
    if (count === 0) throw invalidParams('empty request')
    if (count > storageSlots)
      throw invalidParams(`expected at most ${storageSlots} slots, got ${count}`)
    const state = resolveState(view, at)
    try {
      return slotsText(state, wanted)
    } catch (error) {
      if (error instanceof MissingError) throw allMissing(state, wanted)
      throw error
    }
  },
})
