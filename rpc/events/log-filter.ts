/** Decoder and matcher of the filter objects of eth_getLogs, eth_newFilter and eth_subscribe. */
import type { BlockTag, LogPattern } from '../../engine/chain/types.ts'
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { failed, invalidParams } from '../core/errors.ts'
import type { Limits } from '../core/limits.ts'
import { type BlockNumber, blockNumber, bytes, hash } from '../json/codecs.ts'
import { type Codec, plainObject, SchemaError } from '../json/schema.ts'

export type LogQuery = LogPattern & {
  readonly blockHash: Bytes | undefined
  readonly fromBlock: BlockNumber | undefined
  readonly toBlock: BlockNumber | undefined
}

const MAX_POSITIONS = 4

export const logQuery: Codec<LogQuery> = {
  decode(wire, limits) {
    const input = plainObject(wire, 'filters.input')
    const own = (key: string): unknown => (Object.hasOwn(input, key) ? input[key] : undefined)
    const blockHash = present(own('blockHash'), (value) => hash.decode(value))
    const fromBlock = present(own('fromBlock'), (value) => blockNumber.decode(value))
    const toBlock = present(own('toBlock'), (value) => blockNumber.decode(value))
    if (blockHash !== undefined && (fromBlock !== undefined || toBlock !== undefined))
      throw new SchemaError(
        'cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other',
      )
    const addresses = present(own('address'), (value) => addressesOf(value, limits)) ?? []
    const topics = present(own('topics'), (value) => topicsOf(value, limits)) ?? []
    return { blockHash, fromBlock, toBlock, addresses, topics }
  },
  encode({ blockHash, fromBlock, toBlock, addresses, topics }) {
    return {
      ...(blockHash === undefined ? {} : { blockHash: bytesToHex(blockHash) }),
      ...(fromBlock === undefined ? {} : { fromBlock: blockNumber.encode(fromBlock) }),
      ...(toBlock === undefined ? {} : { toBlock: blockNumber.encode(toBlock) }),
      address: addresses.map(bytesToHex),
      topics: topics.map((position) => (position.length === 0 ? null : position.map(bytesToHex))),
    }
  },
  schema: {
    title: 'Filter',
    type: 'object',
    properties: {
      blockHash: hash.schema,
      fromBlock: blockNumber.schema,
      toBlock: blockNumber.schema,
      address: { oneOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] },
      topics: { type: 'array', maxItems: MAX_POSITIONS },
    },
  },
}

function present<T>(value: unknown, decode: (value: unknown) => T): T | undefined {
  return value === undefined || value === null ? undefined : decode(value)
}

function addressesOf(
  wire: unknown,
  { logsAddresses }: Pick<Limits, 'logsAddresses'>,
): readonly Bytes[] {
  if (typeof wire === 'string') return [sized(wire, 20, 'address', 'invalid address: ')]
  if (!Array.isArray(wire)) throw new SchemaError('invalid addresses in query')
  // The length is checked before decoding, because 200,000 addresses take a third of a second to
  // convert to lower case.
  if (wire.length > logsAddresses)
    throw failed('exceed max addresses or topics per search position')
  return wire.map((one: unknown, at) => {
    if (typeof one !== 'string') throw new SchemaError(`non-string address at index ${at}`)
    return sized(one, 20, 'address', `invalid address at index ${at}: `)
  })
}

function topicsOf(
  wire: unknown,
  { logsTopics }: Pick<Limits, 'logsTopics'>,
): readonly (readonly Bytes[])[] {
  if (!Array.isArray(wire)) throw new SchemaError('invalid topic(s)')
  if (wire.length > MAX_POSITIONS) throw new SchemaError('exceed max topics')
  return wire.map((position: unknown) => {
    if (position === null) return []
    if (typeof position === 'string') return [topic(position)]
    if (!Array.isArray(position)) throw new SchemaError('invalid topic(s)')
    if (position.length > logsTopics) throw new SchemaError('exceed max topics')
    // A null among the alternatives matches any topic.
    return position.includes(null) ? [] : position.map(topic)
  })
}

function topic(wire: unknown): Bytes {
  if (typeof wire !== 'string') throw new SchemaError('invalid topic(s)')
  return sized(wire, 32, 'topic', '')
}

function sized(wire: string, length: number, name: string, where: string): Bytes {
  let value: Bytes
  try {
    value = bytes.decode(wire)
  } catch (error) {
    throw error instanceof SchemaError ? new SchemaError(`${where}${error.problem}`) : error
  }
  if (value.length === length) return value
  throw new SchemaError(
    `${where}hex has invalid length ${value.length} after decoding; expected ${length} for ${name}`,
  )
}

/** Heights of canonical blocks that a filter or subscription covers. */
export type Heights = { readonly from: bigint; readonly to: bigint | undefined }

/**
 * Returns the heights of a filter for future logs, by go-ethereum's rules. The range is unlimited,
 * bounded, or starts at a number.
 * @param pendingIs meaning of the tag: go-ethereum refuses it, and subscriptions to preconfirmed
 *   logs treat it as latest
 * @throws {RpcError}
 */
export function heightsOf(
  { fromBlock, toBlock }: LogQuery,
  pendingIs: 'refused' | 'latest' = 'refused',
): Heights {
  const from = boundOf(fromBlock, pendingIs)
  const to = boundOf(toBlock, pendingIs)
  if (from === 'latest' && to === 'latest') return { from: 0n, to: undefined }
  const first = from === 'earliest' ? 0n : from
  if (typeof first === 'bigint' && to === 'latest') return { from: first, to: undefined }
  if (typeof first === 'bigint' && typeof to === 'bigint' && to >= first) return { from: first, to }
  throw invalidParams('invalid block range params')
}

function boundOf(
  at: BlockNumber | undefined,
  pendingIs: 'refused' | 'latest',
): bigint | Exclude<BlockTag, 'pending'> {
  if (at === undefined) return 'latest'
  if ('number' in at) return at.number
  if ('flashblock' in at)
    throw invalidParams('a range of future logs starts and ends at blocks, not at a flashblock')
  if (at.tag !== 'pending') return at.tag
  if (pendingIs === 'refused') throw invalidParams('pending logs are not supported')
  return pendingIs
}

/** Pattern and heights of future logs. */
export type AwaitedLogs = LogPattern & { readonly heights: Heights }

/** A log for listeners: hex to match, and JSON text to send. */
export type HexLog = {
  readonly address: Hex
  readonly topics: readonly Hex[]
  readonly text: string
}

const NOT_REMOVED = '"removed":false}'
/** Returns the text of a log that was removed from the chain. */
export const removedText = (log: string): string =>
  `${log.slice(0, -NOT_REMOVED.length)}"removed":true}`

/**
 * Matches many patterns at once. A log is compared only with patterns that have its address or
 * none.
 */
export interface LogMatcher<T> {
  add(awaited: AwaitedLogs, item: T): () => void
  /** @param number number of the log's block */
  match(log: HexLog, number: bigint): Iterable<T>
  readonly size: number
}

export function createLogMatcher<T>(): LogMatcher<T> {
  type Entry = {
    readonly item: T
    readonly topics: readonly ReadonlySet<Hex>[]
    readonly heights: Heights
  }
  const byAddress = new Map<Hex, Set<Entry>>()
  const ofAnybody = new Set<Entry>()
  let size = 0
  return {
    add({ addresses, topics, heights }, item) {
      const sets = topics.map((position) => new Set(position.map(bytesToHex)))
      const entry = { item, topics: sets, heights }
      const keys = addresses.map(bytesToHex)
      if (keys.length === 0) ofAnybody.add(entry)
      for (const key of keys) byAddress.set(key, (byAddress.get(key) ?? new Set()).add(entry))
      size++
      return () => {
        let isKnown = ofAnybody.delete(entry)
        for (const key of keys) {
          const entries = byAddress.get(key)
          isKnown = entries?.delete(entry) || isKnown
          if (entries?.size === 0) byAddress.delete(key)
        }
        if (isKnown) size--
      }
    },
    *match(log, number) {
      for (const entries of [byAddress.get(log.address), ofAnybody])
        for (const { item, topics, heights } of entries ?? [])
          if (isWithin(number, heights) && hasTopics(log, topics)) yield item
    },
    get size() {
      return size
    },
  }
}

const isWithin = (number: bigint, { from, to }: Heights): boolean =>
  number >= from && (to === undefined || number <= to)

function hasTopics(log: HexLog, topics: readonly ReadonlySet<Hex>[]): boolean {
  return (
    topics.length <= log.topics.length &&
    topics.every((position, at) => position.size === 0 || position.has(log.topics[at]!))
  )
}
