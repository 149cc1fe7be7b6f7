/** A message of a leader's enriched feed (rpc/feed/enriched-text.ts), read: every member that is needed is there and is what it must be. */
import type { Bytes } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import { EMPTY_HASH, keccak256 } from '../../primitives/keccak.ts'
import type { Log } from '../../primitives/receipt.ts'
import { concatBytes, equalBytes } from '../../primitives/words.ts'
import type { AccountChange, AccountState, SlotChange } from '../../state/diff.ts'
import { encodeDiff } from '../../state/diff-codec.ts'
import { packOutcomes, type ToldOutcome } from './outcomes.ts'
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

type Fields = Readonly<Record<string, unknown>>

/** @param text UTF-8 JSON @throws {LeaderError} of kind malformed, version, account or code */
export function readLeaderMessage(text: string): LeaderMessage {
  let json: unknown
  try {
    json = JSON.parse(text)
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
    diffs: listOf(message['flashblocks'], 'flashblocks').map(diffOf),
    canonical: countOf(fieldsOf(heads['canonical'], 'heads')['number'], 'heads.canonical.number'),
  }
}

function diffOf(json: unknown): ToldDiff {
  const told = fieldsOf(json, 'flashblocks')
  const header = fieldsOf(told['header'], 'header')
  const payloadId = told['payload_id']
  const transactions = listOf(told['transactions'], 'transactions')
  const receipts = listOf(told['receipts'], 'receipts')
  if (receipts.length !== transactions.length) throw malformed('receipts', 'one for each')
  return {
    number: countOf(told['number'], 'number'),
    index: countOf(told['index'], 'index'),
    payloadId: payloadId === null ? undefined : hexOf(payloadId, 'payload_id', 8),
    isFinal: isTrue(told['final'], 'final'),
    parentHash: bytesOf(header['parentHash'], 'header.parentHash', 32),
    hash: bytesOf(header['hash'], 'header.hash', 32),
    before: bytesOf(told['before'], 'before', 32),
    hashes: concatBytes(
      ...transactions.map((one) => bytesOf(fieldsOf(one, 'transactions')['hash'], 'hash', 32)),
    ),
    senders: concatBytes(
      ...transactions.map((one) => bytesOf(fieldsOf(one, 'transactions')['from'], 'from', 20)),
    ),
    outcomes: packOutcomes(receipts.map(outcomeOf)),
    changes: encodeDiff(changesOf(listOf(told['accounts'], 'accounts'))),
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

/** Each address, and of each its slots, once. */
function changesOf(accounts: readonly unknown[]): readonly AccountChange[] {
  const seen = new Set<string>()
  return accounts.map((json) => {
    const told = fieldsOf(json, 'accounts')
    const address = bytesOf(told['address'], 'accounts.address', 20)
    once(seen, `${told['address']}`.toLowerCase(), 'account')
    const after = told['account'] === null ? undefined : accountOf(told['account'])
    const code = told['code'] === null ? undefined : bytesOf(told['code'], 'code')
    if (code !== undefined && (after === undefined || !equalBytes(keccak256(code), after.codeHash)))
      throw new LeaderError('code', `the code of ${told['address']} has another hash`)
    const keys = new Set<string>()
    const slots = listOf(told['slots'], 'slots').map((pair): SlotChange => {
      const [key, value] = listOf(pair, 'slots')
      once(keys, `${key}`.toLowerCase(), 'slot')
      return { key: bytesOf(key, 'slots', 32), before: NOTHING, after: bytesOf(value, 'slots', 32) }
    })
    return { address, before: undefined, after, slots, code }
  })
}
const NOTHING: Bytes = new Uint8Array(32)

function accountOf(json: unknown): AccountState {
  const account = fieldsOf(json, 'account')
  const nonce = quantityOf(account['nonce'], 'nonce', 8)
  const balance = quantityOf(account['balance'], 'balance', 32)
  const codeHash = bytesOf(account['codeHash'], 'codeHash', 32)
  if (nonce === 0n && balance === 0n && equalBytes(codeHash, EMPTY_HASH))
    throw new LeaderError('account', 'an account with nothing in it is there')
  return { nonce, balance, codeHash }
}

function once(seen: Set<string>, name: string, what: string): void {
  if (seen.has(name)) throw new LeaderError('account', `${what} ${name.slice(0, 66)} is told twice`)
  seen.add(name)
}

function fieldsOf(json: unknown, name: string): Fields {
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    throw malformed(name, 'an object')
  return json as Fields
}
function listOf(json: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(json)) throw malformed(name, 'a list')
  return json
}
function countOf(json: unknown, name: string): number {
  if (typeof json !== 'number' || !Number.isSafeInteger(json) || json < 0)
    throw malformed(name, 'a number')
  return json
}
function isTrue(json: unknown, name: string): boolean {
  if (typeof json !== 'boolean') throw malformed(name, 'true or false')
  return json
}
function bytesOf(json: unknown, name: string, length?: number): Bytes {
  if (typeof json === 'string' && (length === undefined || json.length === 2 + 2 * length))
    try {
      return hexToBytes(json)
    } catch {}
  throw malformed(name, length === undefined ? 'hex' : `${length} bytes in hex`)
}
const hexOf = (json: unknown, name: string, length: number): string => {
  bytesOf(json, name, length)
  return json as string
}
/** @param bytes that it has at most */
function quantityOf(json: unknown, name: string, bytes: number): bigint {
  if (typeof json !== 'string' || !QUANTITY.test(json) || json.length > 2 + 2 * bytes)
    throw malformed(name, `a quantity of at most ${bytes} bytes`)
  return BigInt(json)
}
const QUANTITY = /^0x(0|[1-9a-f][0-9a-f]*)$/

const malformed = (name: string, expected: string) =>
  new LeaderError('malformed', `${name}: expected ${expected}`)
