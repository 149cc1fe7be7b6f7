/** The parameters of eth_subscribe: what each kind takes, and what it refuses. */
import type { FlashblockPlace } from '../../../engine/chain/types.ts'
import type { FlashblockKind } from '../../events/channels.ts'
import { logQuery } from '../../events/log-filter.ts'
import type { FlashblockSubscription } from '../../events/since.ts'
import type { SubscriptionKind } from '../../events/subscriptions.ts'
import { address, hash } from '../../json/codecs.ts'
import { decodePlaceText } from '../../json/min-flashblock.ts'
import { array, boolean, type Codec, kindOf, plainObject, SchemaError } from '../../json/schema.ts'
import type { Client } from '../../seam/client.ts'
import {
  invalidArgument,
  invalidParams,
  missingValue,
  notOnThisEndpoint,
  RpcError,
  tooManyArguments,
  unknownSubscription,
} from '../../seam/errors.ts'
import type { Limits } from '../../seam/limits.ts'

type Input = {
  readonly params: readonly unknown[]
  readonly endpoint: Client['endpoint']
  readonly limits: Limits
}

/** @param params what follows the kind. @throws {RpcError} */
export function subscriptionOf(kind: string, input: Input): SubscriptionKind {
  const { params, limits } = input
  if (Object.hasOwn(FLASHBLOCK_KINDS, kind))
    return flashblockSubscription(kind as FlashblockKind, input)
  if (params.some(isSince)) throw invalidParams('"since" is for subscriptions to flashblocks')
  switch (kind) {
    case 'newHeads':
    case 'syncing':
      return { kind }
    case 'newPendingTransactions':
      return { kind, isFull: decoded(boolean, params[0] ?? false, limits) }
    case 'logs':
      if (params[0] === undefined || params[0] === null) throw missingValue(1)
      return { kind, pattern: decoded(logQuery, params[0], limits) }
    default:
      throw unknownSubscription(kind)
  }
}

/** How the one parameter of a kind becomes its options; without a parameter where there is none. */
const FLASHBLOCK_KINDS: Readonly<
  Record<FlashblockKind, (param: unknown, limits: Limits) => FlashblockSubscription['options']>
> = {
  flashblocks(param, limits) {
    if (param === undefined)
      throw invalidParams('flashblocks subscription requires filter params, no params specified')
    return decoded(transactionFilter, param, limits)
  },
  newFlashblocks(param) {
    if (param !== undefined) throw tooManyArguments(1)
    return undefined
  },
  pendingLogs: (param, limits) => decoded(pendingLogsFilter, param ?? {}, limits),
  newFlashblockTransactions: (param, limits) => ({
    isFull: decoded(boolean, param ?? false, limits),
  }),
  transactionReceipts: (param, limits) => decoded(receiptsFilter, param ?? {}, limits),
}

function flashblockSubscription(
  kind: FlashblockKind,
  { params, endpoint, limits }: Input,
): FlashblockSubscription {
  if (endpoint === 'standard' && kind !== 'transactionReceipts')
    throw notOnThisEndpoint(`${kind} subscription`)
  const given = params.map((param) => param ?? undefined)
  while (given.length > 0 && given.at(-1) === undefined) given.pop()
  const since = isSince(given.at(-1)) ? placeOf(given.pop(), given.length + 1) : undefined
  if (since !== undefined && endpoint === 'standard') throw notOnThisEndpoint('"since"')
  if (given.length > 1) throw tooManyArguments(since === undefined ? 2 : 3)
  const options = FLASHBLOCK_KINDS[kind](given[0], limits)
  return { kind, options, since } as FlashblockSubscription
}

/** `{"since":"number:index"}` or `number:index:payload`, as the header X-Flashblock has it; always a parameter of its own. */
export const isSince = (param: unknown): boolean =>
  typeof param === 'object' && param !== null && Object.hasOwn(param, 'since')

function placeOf(param: unknown, index: number): FlashblockPlace {
  const { since, ...others } = param as { readonly since: unknown }
  const other = Object.keys(others)[0]
  if (other !== undefined)
    throw invalidArgument(index, `unknown field ${quoted(other)}: "since" stands alone`)
  const place = decodePlaceText(since)
  if (place === undefined)
    throw invalidArgument(index, 'since: want "number:index" or "number:index:payload"')
  return place
}

/** As X Layer's node takes it: unknown keys are refused, and a null is no value. */
const transactionFilter: Codec<
  Extract<FlashblockSubscription, { kind: 'flashblocks' }>['options']
> = {
  decode(wire, limits) {
    const { headerInfo, subTxFilter } = strict(wire, ['headerInfo', 'subTxFilter'])
    const filter = strict(subTxFilter ?? {}, ['subscribeAddresses', 'txInfo', 'txReceipt'])
    const { subscribeAddresses = [] } = filter
    if (Array.isArray(subscribeAddresses) && subscribeAddresses.length > limits.subscribeAddresses)
      throw invalidParams('too many subscribe addresses')
    return {
      hasHeaders: flag(headerInfo),
      addresses: array(address, 'subscribeAddresses', 'subscribeAddresses').decode(
        subscribeAddresses,
        limits,
      ),
      shows: { info: flag(filter['txInfo']), receipt: flag(filter['txReceipt']) },
    }
  },
  encode: (value) => value,
  schema: { title: 'X Layer filter', type: 'object', additionalProperties: false },
}

const pendingLogsFilter: typeof logQuery = {
  ...logQuery,
  decode(wire, limits) {
    strict(wire, ['address', 'topics', 'fromBlock', 'toBlock', 'blockHash'])
    try {
      return logQuery.decode(wire, limits)
    } catch (error) {
      // Too many addresses: with a subscription that is a parameter that is wrong.
      throw error instanceof RpcError ? invalidParams(error.message) : error
    }
  },
}

const receiptsFilter: Codec<
  Extract<FlashblockSubscription, { kind: 'transactionReceipts' }>['options']
> = {
  decode(wire, limits) {
    const { transactionHashes } = strict(wire, ['transactionHashes'])
    return array(hash, 'subscribeHashes', 'common.Hash').decode(transactionHashes ?? [], limits)
  },
  encode: (value) => value,
  schema: { title: 'Receipts filter', type: 'object', additionalProperties: false },
}

/** An object of these keys alone. @throws {SchemaError} */
function strict<K extends string>(
  wire: unknown,
  keys: readonly K[],
): { readonly [key in K]?: unknown } {
  const input = plainObject(wire, 'subscription filter')
  const known: readonly string[] = keys
  const other = Object.keys(input).find((key) => !known.includes(key))
  if (other !== undefined)
    throw new SchemaError(`unknown field ${quoted(other)}, expected one of ${keys.join(', ')}`)
  return Object.fromEntries(Object.entries(input)) as { [key in K]?: unknown }
}

const SHOWN_CHARACTERS = 64
const quoted = (key: string): string => JSON.stringify(key.slice(0, SHOWN_CHARACTERS))

function flag(wire: unknown): boolean {
  if (wire === undefined) return false
  if (typeof wire !== 'boolean') throw new SchemaError(kindOf(wire), 'bool')
  return wire
}

function decoded<T>(codec: Codec<T>, wire: unknown, limits: Limits): T {
  try {
    return codec.decode(wire, limits)
  } catch (error) {
    throw error instanceof SchemaError ? invalidArgument(1, error.describe()) : error
  }
}
