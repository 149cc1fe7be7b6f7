/** A message of a leader's enriched feed (rpc/feed/enriched-text.ts, rpc/feed/enriched-packed.ts), read: every member that is needed is there and is what it must be. */
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { EMPTY_HASH, keccak256 } from '../../primitives/keccak.ts'
import type { Log } from '../../primitives/receipt.ts'
import { concatBytes, equalBytes, ZERO_32 } from '../../primitives/words.ts'
import type { AccountChange, AccountState, SlotChange, StateDiff } from '../../state/diff.ts'
import { decodeDiff, encodeDiff } from '../../state/diff-codec.ts'
import { DiffError } from '../../state/encoded-diff.ts'
import { latin1 } from '../../state/words.ts'
import {
  bytesOf,
  countOf,
  type Fields,
  fieldsOf,
  hexOf,
  isTrue,
  listOf,
  malformed,
  quantityOf,
} from './fields.ts'
import { checkOutcomes, packOutcomes, type ToldOutcome } from './outcomes.ts'
import { PACKED, type Pieces, splitPacked } from './packed.ts'
import { LeaderError, type ToldDiff } from './types.ts'

/** What of the form is applied. */
export const APPLIED_VERSION = 2

export type LeaderMessage = {
  readonly run: string
  readonly seq: number
  readonly isSnapshot: boolean
  /** Every block above this one is gone; undefined: none is. */
  readonly removedAbove: number | undefined
  readonly headers: readonly { readonly number: number; readonly hash: Bytes }[]
  readonly diffs: readonly ToldDiff[]
  /** Height of the leader's canonical head after it. */
  readonly canonical: number
}

/** @param bytes UTF-8 JSON, or packed @throws {LeaderError} of kind malformed, version, account or code */
export function readLeaderMessage(bytes: Bytes): LeaderMessage {
  if (bytes[0] !== PACKED) return messageOf(bytes, diffOf)
  const { head, pieces } = splitPacked(bytes)
  const message = messageOf(head, (json) => packedDiffOf(json, pieces))
  pieces.end()
  return message
}

function messageOf(text: Bytes, readDiff: (json: unknown) => ToldDiff): LeaderMessage {
  let json: unknown
  try {
    json = JSON.parse(viewOf(text).toString())
  } catch {
    throw malformed('the message', 'JSON')
  }
  const message = fieldsOf(json, 'the message')
  const { enriched } = message
  if (enriched !== APPLIED_VERSION)
    throw new LeaderError(
      'version',
      `the feed has form ${JSON.stringify(enriched)?.slice(0, 20)}, form ${APPLIED_VERSION} is needed`,
    )
  const removed = message['removed'] === null ? undefined : fieldsOf(message['removed'], 'removed')
  const heads = fieldsOf(message['heads'], 'heads')
  return {
    run: hexOf(message['run'], 'run', 8),
    seq: countOf(message['seq'], 'seq'),
    isSnapshot: isTrue(message['snapshot'], 'snapshot'),
    removedAbove: removed && countOf(removed['above'], 'removed.above'),
    headers: listOf(message['headers'], 'headers').map((one) => {
      const header = fieldsOf(one, 'headers')
      const number = Number(quantityOf(header['number'], 'headers.number', 8))
      return { number, hash: bytesOf(header['hash'], 'headers.hash', 32) }
    }),
    diffs: listOf(message['flashblocks'], 'flashblocks').map(readDiff),
    canonical: countOf(fieldsOf(heads['canonical'], 'heads')['number'], 'heads.canonical.number'),
  }
}

/** Which flashblock it is, and over what: the same in both forms. */
function aboutOf(told: Fields) {
  const header = fieldsOf(told['header'], 'header')
  const payloadId = told['payload_id']
  return {
    number: countOf(told['number'], 'number'),
    index: countOf(told['index'], 'index'),
    payloadId: payloadId === null ? undefined : hexOf(payloadId, 'payload_id', 8),
    isFinal: isTrue(told['final'], 'final'),
    parentHash: bytesOf(header['parentHash'], 'header.parentHash', 32),
    hash: bytesOf(header['hash'], 'header.hash', 32),
    before: bytesOf(told['before'], 'before', 32),
  }
}

function packedDiffOf(json: unknown, pieces: Pieces): ToldDiff {
  const told = fieldsOf(json, 'flashblocks')
  const count = countOf(told['transactions'], 'transactions')
  const hashes = pieces.take(count * 32, 'hashes')
  const senders = pieces.take(count * 20, 'senders')
  const outcomes = pieces.take(countOf(told['outcomes'], 'outcomes'), 'outcomes')
  const changes = pieces.take(countOf(told['changes'], 'changes'), 'changes')
  checkOutcomes(outcomes, count)
  checkChanges(decodedOf(changes))
  return { ...aboutOf(told), hashes, senders, outcomes, changes }
}

function decodedOf(changes: Bytes): StateDiff {
  try {
    return decodeDiff(changes)
  } catch (error) {
    if (error instanceof DiffError) throw malformed('changes', 'a diff')
    throw error
  }
}

function diffOf(json: unknown): ToldDiff {
  const told = fieldsOf(json, 'flashblocks')
  const transactions = listOf(told['transactions'], 'transactions')
  const receipts = listOf(told['receipts'], 'receipts')
  if (receipts.length !== transactions.length) throw malformed('receipts', 'one for each')
  const changes = listOf(told['accounts'], 'accounts').map(changeOf)
  checkChanges(changes)
  return {
    ...aboutOf(told),
    hashes: concatBytes(
      ...transactions.map((one) => bytesOf(fieldsOf(one, 'transactions')['hash'], 'hash', 32)),
    ),
    senders: concatBytes(
      ...transactions.map((one) => bytesOf(fieldsOf(one, 'transactions')['from'], 'from', 20)),
    ),
    outcomes: packOutcomes(receipts.map(outcomeOf)),
    changes: encodeDiff(changes),
  }
}

function outcomeOf(json: unknown): ToldOutcome {
  const receipt = fieldsOf(json, 'receipts')
  const status = quantityOf(receipt['status'], 'status', 1)
  if (status > 1n) throw malformed('status', '0x0 or 0x1')
  const { depositNonce } = receipt
  return {
    isSuccess: status === 1n,
    cumulativeGasUsed: quantityOf(receipt['cumulativeGasUsed'], 'cumulativeGasUsed', 8),
    gasUsed: quantityOf(receipt['gasUsed'], 'gasUsed', 8),
    depositNonce:
      depositNonce === undefined ? undefined : quantityOf(depositNonce, 'depositNonce', 8),
    logs: listOf(receipt['logs'], 'logs').map(logOf),
  }
}

function logOf(json: unknown): Log {
  const fields = fieldsOf(json, 'logs')
  const topics = listOf(fields['topics'], 'topics')
  if (topics.length > 4) throw malformed('topics', 'at most four')
  return {
    address: bytesOf(fields['address'], 'logs.address', 20),
    topics: topics.map((topic) => bytesOf(topic, 'topics', 32)),
    data: bytesOf(fields['data'], 'logs.data'),
  }
}

function changeOf(json: unknown): AccountChange {
  const told = fieldsOf(json, 'accounts')
  const slots = listOf(told['slots'], 'slots').map((pair): SlotChange => {
    const [key, value] = listOf(pair, 'slots')
    return { key: bytesOf(key, 'slots', 32), before: ZERO_32, after: bytesOf(value, 'slots', 32) }
  })
  return {
    address: bytesOf(told['address'], 'accounts.address', 20),
    before: undefined,
    after: told['account'] === null ? undefined : accountOf(told['account']),
    slots,
    code: told['code'] === null ? undefined : bytesOf(told['code'], 'code'),
  }
}

function accountOf(json: unknown): AccountState {
  const account = fieldsOf(json, 'account')
  return {
    nonce: quantityOf(account['nonce'], 'nonce', 8),
    balance: quantityOf(account['balance'], 'balance', 32),
    codeHash: bytesOf(account['codeHash'], 'codeHash', 32),
  }
}

/** Each address, and of each its slots, once; no account that is empty, no code that is not its hash's. */
function checkChanges(changes: StateDiff): void {
  const seen = new Set<string>()
  for (const { address, after, code, slots } of changes) {
    once(seen, address, 'account')
    if (after !== undefined && isEmpty(after))
      throw new LeaderError('account', 'an account with nothing in it is there')
    if (code !== undefined && (after === undefined || !equalBytes(keccak256(code), after.codeHash)))
      throw new LeaderError('code', `the code of ${bytesToHex(address)} has another hash`)
    const keys = new Set<string>()
    for (const { key } of slots) once(keys, key, 'slot')
  }
}

const isEmpty = ({ nonce, balance, codeHash }: AccountState): boolean =>
  nonce === 0n && balance === 0n && equalBytes(codeHash, EMPTY_HASH)

function once(seen: Set<string>, key: Bytes, what: string): void {
  const name = latin1(key)
  if (seen.has(name)) throw new LeaderError('account', `${what} ${bytesToHex(key)} is told twice`)
  seen.add(name)
}

const viewOf = (bytes: Bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
