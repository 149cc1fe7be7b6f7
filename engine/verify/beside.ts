/** Checks the data besides the chain: code, appended blocks, partial headers, heads. */
import { decodeHeader } from '../primitives/header.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { keccak256 } from '../primitives/keccak.ts'
import { orderedRoot } from '../primitives/ordered-root.ts'
import { equalBytes } from '../primitives/words.ts'
import { codesOf, rowsOf } from '../state/encoded-diff.ts'
import { decodeNumber, decodePartialHeader } from '../storage/blocks/block-codec.ts'
import { META } from '../storage/database/meta.ts'
import type { Entry } from '../storage/database/types.ts'
import { ALL, faultOf, type Verifying } from './verifying.ts'

const HASH_BYTES = 32
/** Block (8) ‖ hash (32). */
const HEIGHT_BYTES = 40

export function checkCode({ database, findings }: Verifying): void {
  // A longer key names the source from which a code was fetched.
  for (const { key, value } of database.scan('code', ALL))
    if (key.length === HASH_BYTES && !equalBytes(keccak256(value), key))
      findings.add({ where: 'code', key }, 'is not what its hash says')
}

/**
 * Checks the appended blocks of every branch: the header has the height, and the diff can be read.
 */
export function checkHeights({ database, store, findings }: Verifying): void {
  for (const { key } of database.scan('heights', ALL)) {
    const [block, hash] = [decodeNumber(key), key.slice(8)]
    const header = store.header(hash)
    const isThere = header !== undefined && equalBytes(keccak256(header), hash)
    if (!isThere || Number(decodeHeader(header).number) !== block)
      findings.add(
        { where: 'heights', key, block },
        `no header of block ${block} has the hash ${bytesToHex(hash)}`,
      )
    const diff = database.get('diffs', hash)
    const fault = faultOf(() => {
      if (diff === undefined) throw new Error('is missing')
      for (const _ of rowsOf(diff));
      for (const { hash: codeHash, code } of codesOf(diff))
        if (!equalBytes(keccak256(code), codeHash))
          throw new Error('code that it sets is not what its hash says')
    })
    if (fault !== undefined) findings.add({ where: 'diffs', key: hash, block }, fault)
  }
}

export function checkPartialHeaders(verifying: Verifying): void {
  const { database, findings } = verifying
  for (const row of database.scan('momentary', ALL)) {
    const { key } = row
    const fault = faultOf(() => {
      if (key.length === HEIGHT_BYTES && row.value.length === 0) {
        if (database.get('momentary', key.slice(8)) === undefined)
          throw new Error('names a header that is not there')
      } else checkPrefix(verifying, row)
    })
    if (fault !== undefined) findings.add({ where: 'momentary', key }, fault)
  }
}

/** @throws {Error} with the fault */
function checkPrefix({ store }: Verifying, { key, value }: Entry): void {
  const { header: rlp, blockHash, transactionCount } = decodePartialHeader(key, value)
  if (!equalBytes(keccak256(rlp), key)) throw new Error('its header is not what its hash says')
  const header = decodeHeader(rlp)
  const block = store.header(blockHash)
  const body = store.body(blockHash)
  if (block === undefined || body === undefined) throw new Error('the block it led to is missing')
  const { number } = decodeHeader(block)
  if (number !== header.number) throw new Error(`it leads to block ${number}`)
  const prefix = body.transactions.slice(0, transactionCount).map(({ raw }) => raw)
  if (!equalBytes(orderedRoot(prefix), header.transactionsRoot))
    throw new Error(`it did not have ${transactionCount} transactions of its block`)
}

/** Checks heads, labelled heads and the horizon against each other. */
export function checkHeads({ store, findings }: Verifying): void {
  const [durable, persisted] = [store.durableHead(), store.persistedHead()]
  const { safe, finalized } = store.labelledHeads()
  const oldest = store.oldestState()
  const bad = (key: keyof typeof META, message: string) =>
    findings.add({ where: 'meta', key: META[key] }, message)
  if (persisted.number > durable.number)
    bad(
      'persistedHead',
      `the persisted block is ${persisted.number}, the newest is ${durable.number}`,
    )
  if (safe > durable.number || finalized > safe)
    bad(
      'labelledHeads',
      `safe ${safe}, finalized ${finalized}, the newest block is ${durable.number}`,
    )
  if (oldest > persisted.number)
    bad(
      'oldest',
      `state is kept from block ${oldest} on, the persisted block is ${persisted.number}`,
    )
}
