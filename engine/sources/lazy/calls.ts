/** Keys of the state → calls of an upstream at one block, and its answers → rows for flat state. */

import type { Bytes, Hex } from '../../primitives/bytes.ts'
import { bytesToHex, quantity } from '../../primitives/hex.ts'
import { Refusal, readBytes, readQuantity } from '../../primitives/json-fields.ts'
import { EMPTY_HASH, EMPTY_ROOT, keccak256 } from '../../primitives/keccak.ts'
import { bigintToBytes, equalBytes } from '../../primitives/words.ts'
import { encodeAccount } from '../../state/account-codec.ts'
import type { MissingKey } from '../../state/reader.ts'
import { latin1 } from '../../state/words.ts'
import type { FillRow, StoredHead } from '../../storage/types.ts'
import type { Call } from '../upstream/transport.ts'
import type { LazyMode } from './depth.ts'
import { ProofFault, readProof } from './proof.ts'

/** The block whose state is read. */
export type FetchHead = StoredHead & { readonly stateRoot: Bytes }

/** What is asked of the state; hashes of blocks are there from the start. */
export type StateKey = Exclude<MissingKey, { readonly kind: 'blockHash' }>

/** Calls, and what their answers say. */
export type Question = {
  readonly calls: readonly Call[]
  /** One answer for each call. @throws {AnswerFault} */
  readonly read: (answers: readonly unknown[]) => readonly FillRow[]
}

/** An answer that cannot be right: `message` says of what. */
export class AnswerFault extends Error {
  override name = 'AnswerFault'
}

export type Asking = {
  readonly mode: LazyMode
  readonly head: FetchHead
  /** Whether the upstream takes a block by its hash: by its number else, which says nothing of what is read of it without a proof. */
  readonly takesHash: boolean
  /** An account that has the code; undefined: none is known. */
  originOf(codeHash: Bytes): Bytes | undefined
}

/** Slots in one proof. */
const PROOF_SLOTS = 64

/** One question for each account; an account that is asked for comes with its code. @throws {AnswerFault} for code of nobody that is known */
export function questionsOf(keys: readonly StateKey[], asking: Asking): readonly Question[] {
  const accounts = new Map<string, { address: Bytes; isAsked: boolean; slots: Bytes[] }>()
  const of = (address: Bytes) => {
    const name = latin1(address)
    const known = accounts.get(name) ?? { address, isAsked: false, slots: [] }
    accounts.set(name, known)
    return known
  }
  const questions: Question[] = []
  for (const key of keys)
    if (key.kind === 'account') of(key.address).isAsked = true
    else if (key.kind === 'slot') of(key.address).slots.push(key.key)
    else questions.push(codeQuestion(key.hash, asking))
  for (const { address, isAsked, slots } of accounts.values())
    if (asking.mode === 'trusted') {
      if (isAsked) questions.push(plainAccount(address, asking))
      questions.push(...slots.map((key) => plainSlot(address, key, asking)))
    } else
      for (let at = 0; at === 0 || at < slots.length; at += PROOF_SLOTS) {
        const own = slots.slice(at, at + PROOF_SLOTS)
        questions.push(provenAccount({ address, isAsked: isAsked && at === 0, slots: own }, asking))
      }
  return questions
}

/** EIP-1898. */
const blockOf = ({ head, takesHash }: Asking): object | Hex =>
  takesHash ? { blockHash: bytesToHex(head.hash) } : quantity(head.number)

function provenAccount(
  account: { readonly address: Bytes; readonly isAsked: boolean; readonly slots: readonly Bytes[] },
  asking: Asking,
): Question {
  const { address, isAsked, slots: keys } = account
  const at = bytesToHex(address)
  const block = blockOf(asking)
  const proof = { method: 'eth_getProof', params: [at, keys.map(bytesToHex), block] }
  const code = { method: 'eth_getCode', params: [at, block] }
  return {
    calls: isAsked ? [proof, code] : [proof],
    read([proof, code]) {
      const { stateRoot } = asking.head
      const proven = readable(`eth_getProof of ${at}`, () =>
        readProof(proof, { stateRoot, address, keys }),
      )
      const slots = proven.slots.map(
        (value, index): FillRow => ({ kind: 'slot', address, key: keys[index]!, value }),
      )
      if (!isAsked) return slots
      const hasNoStorage = equalBytes(proven.storageRoot, EMPTY_ROOT)
      const row = { kind: 'account', address, value: proven.account, hasNoStorage } as const
      const hash = proven.account?.subarray(CODE_HASH_AT) ?? EMPTY_HASH
      return [row, ...slots, ...codeRow(address, hash, code)]
    },
  }
}

function plainAccount(address: Bytes, asking: Asking): Question {
  const at = bytesToHex(address)
  const params = [at, blockOf(asking)]
  return {
    calls: [
      { method: 'eth_getBalance', params },
      { method: 'eth_getTransactionCount', params },
      { method: 'eth_getCode', params },
    ],
    read: ([balanceText, nonceText, codeText]) =>
      readable(`account ${at}`, () => {
        const balance = readQuantity(balanceText, 'eth_getBalance', 256)
        const nonce = readQuantity(nonceText, 'eth_getTransactionCount')
        const code = readBytes(codeText, 'eth_getCode')
        const codeHash = code.length === 0 ? EMPTY_HASH : keccak256(code)
        const isThere = balance > 0n || nonce > 0n || code.length > 0
        const value = isThere ? encodeAccount({ nonce, balance, codeHash }) : undefined
        // Without a proof nobody knows of an account that is there.
        const row = { kind: 'account', address, value, hasNoStorage: false } as const
        return code.length === 0 ? [row] : [row, { kind: 'code', hash: codeHash, code, address }]
      }),
  }
}

function plainSlot(address: Bytes, key: Bytes, asking: Asking): Question {
  const params = [bytesToHex(address), bytesToHex(key), blockOf(asking)]
  return {
    calls: [{ method: 'eth_getStorageAt', params }],
    read: ([text]) =>
      readable(`slot ${params[1]} of ${params[0]}`, () => {
        const word = readQuantity(text === '0x' ? '0x0' : text, 'eth_getStorageAt', 256)
        const value = word === 0n ? undefined : bigintToBytes(word, 32)
        return [{ kind: 'slot', address, key, value }]
      }),
  }
}

function codeQuestion(hash: Bytes, asking: Asking): Question {
  const address = asking.originOf(hash)
  if (address === undefined)
    throw new AnswerFault(`no account is known to have the code ${bytesToHex(hash)}`)
  const at = bytesToHex(address)
  return {
    calls: [{ method: 'eth_getCode', params: [at, blockOf(asking)] }],
    read: ([code]) => codeRow(address, hash, code),
  }
}

/** None of an account without code. @throws {AnswerFault} for other code */
function codeRow(address: Bytes, hash: Bytes, answer: unknown): readonly FillRow[] {
  if (equalBytes(hash, EMPTY_HASH)) return []
  const at = bytesToHex(address)
  const code = readable(`code of ${at}`, () => readBytes(answer, 'eth_getCode'))
  if (!equalBytes(keccak256(code), hash))
    throw new AnswerFault(`code of ${at}: its hash is not ${bytesToHex(hash)}`)
  return [{ kind: 'code', hash: hash.slice(), code, address }]
}

/** In an account as flat state has it. */
const CODE_HASH_AT = 40

function readable<T>(what: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof Refusal || error instanceof ProofFault)
      throw new AnswerFault(`${what}: ${error.message}`)
    throw error
  }
}

/** As a key of a map. */
export function nameOf(key: StateKey): string {
  if (key.kind === 'code') return `code${latin1(key.hash)}`
  return key.kind === 'account' ? latin1(key.address) : latin1(key.address) + latin1(key.key)
}
