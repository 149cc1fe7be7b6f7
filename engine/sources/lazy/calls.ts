/**
 * Calls to an upstream for keys of the state at one block, and rows for flat state from the
 * responses.
 */

import type { Bytes, Hex } from '../../primitives/bytes.ts'
import { bytesToHex, quantity } from '../../primitives/hex.ts'
import { Refusal, readBytes, readQuantity } from '../../primitives/json-fields.ts'
import { EMPTY_HASH, EMPTY_ROOT, keccak256 } from '../../primitives/keccak.ts'
import { bigintToBytes, equalBytes } from '../../primitives/words.ts'
import { encodeAccount } from '../../state/account-codec.ts'
import type { MissingKey } from '../../state/reader.ts'
import { latin1 } from '../../state/words.ts'
import type { FillRow, StoredHead } from '../../storage/types.ts'
import type { Call } from '../upstream/messages.ts'
import type { LazyMode } from './depth.ts'
import { ProofFault, readProof } from './proof.ts'

export type FetchHead = StoredHead & { readonly stateRoot: Bytes }

/** Keys that can be fetched. Block hashes are excluded, because they are there from the start. */
export type StateKey = Exclude<MissingKey, { readonly kind: 'blockHash' }>

/** Calls, and a decoder of their responses. */
export type Question = {
  readonly calls: readonly Call[]
  /**
   * Decodes one response for each call.
   * @throws {ResponseFault}
   */
  readonly read: (responses: readonly unknown[]) => readonly FillRow[]
}

/** A response that must be wrong; `message` names its subject. */
export class ResponseFault extends Error {
  override name = 'ResponseFault'
}

export type FetchContext = {
  readonly mode: LazyMode
  readonly head: FetchHead
  /**
   * Whether the upstream takes a block by hash. Otherwise it takes a number, which without a proof
   * does not identify the block.
   */
  readonly takesHash: boolean
  /** Returns an account with this code; undefined: none is known. */
  originOf(codeHash: Bytes): Bytes | undefined
}

const PROOF_SLOTS = 64

/**
 * Makes one question for each account and code. A requested account comes with its code.
 * @throws {ResponseFault} when no account with a requested code is known
 */
export function questionsOf(keys: readonly StateKey[], context: FetchContext): readonly Question[] {
  const accounts = new Map<string, { address: Bytes; isRequested: boolean; slots: Bytes[] }>()
  const of = (address: Bytes) => {
    const name = latin1(address)
    const known = accounts.get(name) ?? { address, isRequested: false, slots: [] }
    accounts.set(name, known)
    return known
  }
  const questions: Question[] = []
  for (const key of keys)
    if (key.kind === 'account') of(key.address).isRequested = true
    else if (key.kind === 'slot') of(key.address).slots.push(key.key)
    else questions.push(codeQuestion(key.hash, context))
  for (const { address, isRequested, slots } of accounts.values())
    if (context.mode === 'trusted') {
      if (isRequested) questions.push(plainAccount(address, context))
      questions.push(...slots.map((key) => plainSlot(address, key, context)))
    } else
      for (let at = 0; at === 0 || at < slots.length; at += PROOF_SLOTS) {
        const own = slots.slice(at, at + PROOF_SLOTS)
        questions.push(
          provenAccount({ address, isRequested: isRequested && at === 0, slots: own }, context),
        )
      }
  return questions
}

/** Block parameter by EIP-1898. */
const blockOf = ({ head, takesHash }: FetchContext): object | Hex =>
  takesHash ? { blockHash: bytesToHex(head.hash) } : quantity(head.number)

function provenAccount(
  account: {
    readonly address: Bytes
    readonly isRequested: boolean
    readonly slots: readonly Bytes[]
  },
  context: FetchContext,
): Question {
  const { address, isRequested, slots: keys } = account
  const at = bytesToHex(address)
  const block = blockOf(context)
  const proof = { method: 'eth_getProof', params: [at, keys.map(bytesToHex), block] }
  const code = { method: 'eth_getCode', params: [at, block] }
  return {
    calls: isRequested ? [proof, code] : [proof],
    read([proof, code]) {
      const { stateRoot } = context.head
      const proven = readable(`eth_getProof of ${at}`, () =>
        readProof(proof, { stateRoot, address, keys }),
      )
      const slots = proven.slots.map(
        (value, index): FillRow => ({ kind: 'slot', address, key: keys[index]!, value }),
      )
      if (!isRequested) return slots
      const hasNoStorage = equalBytes(proven.storageRoot, EMPTY_ROOT)
      const row = { kind: 'account', address, value: proven.account, hasNoStorage } as const
      const hash = proven.account?.subarray(CODE_HASH_AT) ?? EMPTY_HASH
      return [row, ...slots, ...codeRow(address, hash, code)]
    },
  }
}

function plainAccount(address: Bytes, context: FetchContext): Question {
  const at = bytesToHex(address)
  const params = [at, blockOf(context)]
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
        // Only a proof can show that an account has no storage.
        const row = { kind: 'account', address, value, hasNoStorage: false } as const
        return code.length === 0 ? [row] : [row, { kind: 'code', hash: codeHash, code, address }]
      }),
  }
}

function plainSlot(address: Bytes, key: Bytes, context: FetchContext): Question {
  const params = [bytesToHex(address), bytesToHex(key), blockOf(context)]
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

function codeQuestion(hash: Bytes, context: FetchContext): Question {
  const address = context.originOf(hash)
  if (address === undefined)
    throw new ResponseFault(`no account is known to have the code ${bytesToHex(hash)}`)
  const at = bytesToHex(address)
  return {
    calls: [{ method: 'eth_getCode', params: [at, blockOf(context)] }],
    read: ([code]) => codeRow(address, hash, code),
  }
}

/**
 * Returns the code's row; none for an account without code.
 * @throws {ResponseFault} for other code
 */
function codeRow(address: Bytes, hash: Bytes, response: unknown): readonly FillRow[] {
  if (equalBytes(hash, EMPTY_HASH)) return []
  const at = bytesToHex(address)
  const code = readable(`code of ${at}`, () => readBytes(response, 'eth_getCode'))
  if (!equalBytes(keccak256(code), hash))
    throw new ResponseFault(`code of ${at}: its hash is not ${bytesToHex(hash)}`)
  return [{ kind: 'code', hash: hash.slice(), code, address }]
}

/** Offset of the code hash in an account of flat state. */
const CODE_HASH_AT = 40

function readable<T>(what: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof Refusal || error instanceof ProofFault)
      throw new ResponseFault(`${what}: ${error.message}`)
    throw error
  }
}

/** Returns a key for maps. */
export function nameOf(key: StateKey): string {
  if (key.kind === 'code') return `code${latin1(key.hash)}`
  return key.kind === 'account' ? latin1(key.address) : latin1(key.address) + latin1(key.key)
}

/** Groups questions into messages; the calls of a question stay together. */
export function messagesOf(questions: readonly Question[], max: number): readonly Question[][] {
  const messages: Question[][] = []
  let calls = Number.POSITIVE_INFINITY
  for (const question of questions) {
    calls += question.calls.length
    if (calls > max) {
      messages.push([])
      calls = question.calls.length
    }
    messages.at(-1)!.push(question)
  }
  return messages
}

export function readAll(
  questions: readonly Question[],
  responses: readonly unknown[],
): readonly FillRow[] {
  let at = 0
  return questions.flatMap(({ calls, read }) => {
    at += calls.length
    return read(responses.slice(at - calls.length, at))
  })
}
