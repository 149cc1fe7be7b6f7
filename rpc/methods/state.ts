/** Methods that read accounts. */
import { readAccount, readCode, readSlot } from '../../engine/state/read.ts'
import { invalidParams } from '../errors.ts'
import { address, blockId, hash, hexText } from '../ethereum.ts'
import { LIMITS } from '../limits.ts'
import { frontMethod, optional, param } from '../method.ts'
import { LATEST, resolveBlock, resolveState } from '../resolve.ts'
import { bytesResult, quantityResult, textResult } from '../results.ts'
import { array, record, text } from '../schema.ts'
import { KEY_CHARACTERS, slotKey } from '../slot-key.ts'

const LISTED = ['standard', 'flashblocks'] as const
const account = param('Address', address)
const block = optional('Block', blockId, LATEST)

export const eth_getBalance = frontMethod({
  name: 'eth_getBalance',
  summary: 'Balance of an account in wei.',
  listed: LISTED,
  params: [account, block],
  result: quantityResult('Balance'),
  handler: ({ view }, who, at) => readAccount(resolveState(view, at), who)?.balance ?? 0n,
})

export const eth_getTransactionCount = frontMethod({
  name: 'eth_getTransactionCount',
  summary: 'Nonce of an account; at pending, transactions that wait in the pool are counted too.',
  listed: LISTED,
  params: [account, block],
  result: quantityResult('Transaction count'),
  handler({ view, services }, who, at) {
    const nonce = readAccount(resolveState(view, at), who)?.nonce ?? 0n
    const isPending = 'tag' in at && at.tag === 'pending'
    return isPending ? services.pool.nextNonce(who, nonce) : nonce
  },
})

export const eth_getCode = frontMethod({
  name: 'eth_getCode',
  summary: 'Code of an account.',
  listed: LISTED,
  params: [account, block],
  result: bytesResult('Bytecode'),
  handler: ({ view }, who, at) => readCode(resolveState(view, at), who),
})

export const eth_getStorageAt = frontMethod({
  name: 'eth_getStorageAt',
  summary: 'A slot of a contract, 32 bytes.',
  listed: LISTED,
  params: [account, param('Storage slot', text('hex encoded slot', KEY_CHARACTERS)), block],
  result: bytesResult('Value'),
  handler: ({ view }, who, key, at) =>
    readSlot(view.state(resolveBlock(view, at)), who, slotKey(key).key),
})

const MAX_SLOTS = LIMITS.storageSlots.value
const slotLists = record({
  title: 'storage slots',
  key: address,
  value: array(hash, MAX_SLOTS, 'common.Hash'),
  max: MAX_SLOTS,
})
export const eth_getStorageValues = frontMethod({
  name: 'eth_getStorageValues',
  summary: 'Many slots of many contracts on the state of one block.',
  params: [param('Slots by address', slotLists), block],
  result: textResult('Values', { type: 'object' }),
  handler({ view }, wanted, at) {
    const count = wanted.reduce((sum, [, keys]) => sum + keys.length, 0)
    if (count === 0) throw invalidParams('empty request')
    if (count > MAX_SLOTS) throw invalidParams(`${count} slots, at most ${MAX_SLOTS}`)
    const state = resolveState(view, at)
    const lists = wanted.map(([who, keys]) => {
      const values = keys.map((key) => hexText(readSlot(state, who, key)))
      return `${hexText(who)}:[${values.join(',')}]`
    })
    return `{${lists.join(',')}}`
  },
})
