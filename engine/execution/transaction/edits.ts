/**
 * State edits of a development chain: a deposit from an address without a key, whose calldata sets
 * accounts. The edits are part of the chain. An executor with the chain's rules reaches the same
 * state, any other executor a different one.
 */
import type { Session } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import {
  decodeRlp,
  encodeRlp,
  RlpError,
  type RlpItem,
  readBytes,
  readFixed,
  readList,
  readUint,
  rlpUint,
} from '../../primitives/rlp.ts'
import type { DepositTransaction, Transaction } from '../../primitives/transaction.ts'
import { makeDeposit, sourceHash } from '../../primitives/transaction-codec.ts'
import { concatBytes, equalBytes } from '../../primitives/words.ts'

/** Fields that are left out stay unchanged. */
export type AccountEdit = {
  readonly address: Bytes
  readonly balance?: bigint | undefined
  readonly nonce?: bigint | undefined
  readonly code?: Bytes | undefined
  /** Keys and values of 32 bytes each. */
  readonly slots?: readonly (readonly [key: Bytes, value: Bytes])[] | undefined
}

const EDITOR = hexToBytes('0xdeaddeaddeaddeaddeaddeaddeaddeaddead0ed1')
const EDITS = hexToBytes('0xdeaddeaddeaddeaddeaddeaddeaddeaddead0ed2')
/** Version of the calldata. */
const VERSION = 1n
/** Maximum calldata of one block; its gas is a tenth of the block's limit. */
export const MAX_EDIT_BYTES = 80_000

/** True for an edit deposit on any chain. Only the rules of a development chain apply its edits. */
export const isEdit = ({ type, from, to }: Transaction): boolean =>
  type === 0x7e && to !== undefined && equalBytes(from, EDITOR) && equalBytes(to, EDITS)

/** @param parentHash parent of the block that gets the deposit */
export function editDeposit(parentHash: Bytes, edits: readonly AccountEdit[]): DepositTransaction {
  const input = encodeEdits(edits)
  return makeDeposit({
    from: EDITOR,
    to: EDITS,
    mint: 0n,
    value: 0n,
    // This limit exceeds the calldata's cost under all rules.
    gasLimit: 100_000n + 40n * BigInt(input.length),
    input,
    sourceHash: sourceHash(0, keccak256(concatBytes(parentHash, EDITOR))),
    isSystemTransaction: false,
  })
}

export const encodeEdits = (edits: readonly AccountEdit[]): Bytes =>
  encodeRlp([
    rlpUint(VERSION),
    edits.map(({ address, balance, nonce, code, slots = [] }): RlpItem[] => [
      address,
      some(balance === undefined ? undefined : rlpUint(balance)),
      some(nonce === undefined ? undefined : rlpUint(nonce)),
      some(code),
      slots.map(([key, value]) => [key, value]),
    ]),
  ])

/** @returns undefined if the input has no valid edits */
export function decodeEdits(input: Bytes): readonly AccountEdit[] | undefined {
  try {
    const [version, edits] = readList(decodeRlp(input))
    if (version === undefined || edits === undefined || readUint(version, 1) !== VERSION)
      return undefined
    return readList(edits).map(decodeEdit)
  } catch (error) {
    if (error instanceof RlpError) return undefined
    throw error
  }
}

/**
 * Applies the edits.
 * @returns false if an account without balance, nonce and code would have slots; the caller then
 * reverts the session. Such an account does not exist (EIP-161)
 */
export function applyEdits(session: Session, edits: readonly AccountEdit[]): boolean {
  for (const { address, balance, nonce, code, slots = [] } of edits) {
    if (nonce !== undefined) session.setNonce(address, nonce)
    if (code !== undefined) session.setCode(address, code)
    if (balance !== undefined)
      session.addBalance(address, balance - session.account(address).balance)
    if (slots.length > 0 && isNone(session, address)) return false
    for (const [key, value] of slots) session.setSlot(address, key, value)
  }
  return true
}

function isNone(session: Session, address: Bytes): boolean {
  const { nonce, balance } = session.account(address)
  return nonce === 0n && balance === 0n && session.code(address).length === 0
}

const some = (value: Bytes | undefined): RlpItem[] => (value === undefined ? [] : [value])

function decodeEdit(item: RlpItem): AccountEdit {
  const [address, balance, nonce, code, slots] = readList(item)
  if (slots === undefined) throw new RlpError('an edit of fewer than five fields')
  const only = (field: RlpItem | undefined) => readList(field ?? [])[0]
  const [newBalance, newNonce, newCode] = [only(balance), only(nonce), only(code)]
  return {
    address: readFixed(address ?? [], 20),
    balance: newBalance && readUint(newBalance, 32),
    nonce: newNonce && readUint(newNonce, 8),
    code: newCode && readBytes(newCode),
    slots: readList(slots).map((slot) => {
      const [key, value] = readList(slot)
      return [readFixed(key ?? [], 32), readFixed(value ?? [], 32)] as const
    }),
  }
}
