/** The parameters of eth_subscribe: what each kind takes, and what it refuses. */
import type { FlashblockPlace } from '../../../engine/chain/types.ts'
import type { FlashblockKind } from '../../events/channels.ts'
import { heightsOf, logQuery } from '../../events/log-filter.ts'
import type { FlashblockSubscription } from '../../events/since.ts'
import type { SubscriptionKind } from '../../events/subscriptions.ts'
import { address, hash } from '../../json/codecs.ts'
import { decodePlaceText } from '../../json/min-flashblock.ts'
import {
  array,
  boolean,
  type Codec,
  kindOf,
  type PlainCodec,
  plainObject,
  refuseUnknown,
  SchemaError,
  shownValue,
} from '../../json/schema.ts'
import type { Client } from '../../seam/client.ts'
import {
  invalidArgument,
  invalidParameter,
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
  if (!Object.hasOwn(STANDARD_KINDS, kind)) throw unknownSubscription(kind)
  const { most, make } = STANDARD_KINDS[kind as StandardKind]
  if (params.slice(most).some((param) => param !== undefined)) throw tooManyArguments(1 + most)
  return make(params[0], limits)
}

type StandardKind = Exclude<SubscriptionKind['kind'], FlashblockKind>
type StandardRow = {
  /** Parameters behind the kind at most; a null is one too, as go-ethereum counts them. */
  readonly most: number
  readonly make: (param: unknown, limits: Limits) => SubscriptionKind
}
const STANDARD_KINDS: Readonly<Record<StandardKind, StandardRow>> = {
  newHeads: { most: 0, make: () => ({ kind: 'newHeads' }) },
  syncing: { most: 0, make: () => ({ kind: 'syncing' }) },
  newPendingTransactions: {
    most: 1,
    make: (param, limits) => ({
      kind: 'newPendingTransactions',
      isFull: decoded(boolean, param ?? false, limits),
    }),
  },
  logs: {
    most: 1,
    make(param, limits) {
      if (param === undefined || param === null) throw missingValue(1)
      const query = decoded(logQuery, param, limits)
      return { kind: 'logs', awaited: { ...query, heights: heightsOf(query) } }
    },
  },
}

/** How the one parameter of a kind becomes its options; without a parameter where there is none. */
const FLASHBLOCK_KINDS: Readonly<
  Record<FlashblockKind, (param: unknown, limits: Limits) => FlashblockSubscription['options']>
> = {
  flashblocks(param, limits) {
    if (param === undefined)
      throw invalidParams('flashblocks subscription requires filter params, no params specified')
    return decodedOwn(transactionFilter, param, limits)
  },
  newFlashblocks(param) {
    if (param !== undefined) throw tooManyArguments(1)
    return undefined
  },
  pendingLogs(param, limits) {
    const query = decodedOwn(pendingLogsFilter, param ?? {}, limits)
    return { ...query, heights: heightsOf(query, 'latest') }
  },
  newFlashblockTransactions: (param, limits) => ({
    isFull: decodedOwn(boolean, param ?? false, limits),
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
    throw invalidParameter(index, `unknown field ${shownValue(other)}: "since" stands alone`)
  const place = decodePlaceText(since)
  if (place === undefined)
    throw invalidParameter(
      index,
      'expected {"since":"number:index"} or {"since":"number:index:payload"}',
    )
  return place
}

/** As X Layer's node takes it: unknown keys are refused, and a null is no value. */
const transactionFilter: Codec<
  Extract<FlashblockSubscription, { kind: 'flashblocks' }>['options']
> = {
  decode(wire, limits) {
    const input = strict(wire, ['headerInfo', 'subTxFilter'])
    const { subTxFilter } = input
    const given = { subTxFilter: subTxFilter ?? undefined }
    const filter = fieldOf(given, 'subTxFilter', { codec: addressFilter, limits })
    return {
      hasHeaders: fieldOf(input, 'headerInfo', { codec: flag, limits }) ?? false,
      addresses: filter?.addresses ?? [],
      shows: filter?.shows ?? { info: false, receipt: false },
    }
  },
  encode: (value) => value,
  schema: {
    title: 'X Layer filter',
    type: 'object',
    properties: { headerInfo: {}, subTxFilter: {} },
  },
}

const addressFilter: Codec<
  Pick<Extract<FlashblockSubscription, { kind: 'flashblocks' }>['options'], 'addresses' | 'shows'>
> = {
  decode(wire, limits) {
    const input = strict(wire, ['subscribeAddresses', 'txInfo', 'txReceipt'])
    const { subscribeAddresses } = input
    if (Array.isArray(subscribeAddresses) && subscribeAddresses.length > limits.subscribeAddresses)
      throw invalidParams('too many subscribe addresses')
    return {
      addresses: fieldOf(input, 'subscribeAddresses', { codec: addresses, limits }) ?? [],
      shows: {
        info: fieldOf(input, 'txInfo', { codec: flag, limits }) ?? false,
        receipt: fieldOf(input, 'txReceipt', { codec: flag, limits }) ?? false,
      },
    }
  },
  encode: (value) => value,
  schema: {
    title: 'Transaction filter',
    type: 'object',
    properties: { subscribeAddresses: {}, txInfo: {}, txReceipt: {} },
  },
}
const addresses = array(address, 'subscribeAddresses', 'subscribeAddresses')
const flag: PlainCodec<boolean> = {
  ...boolean,
  decode(wire) {
    if (typeof wire !== 'boolean') throw new SchemaError(kindOf(wire), 'bool')
    return wire
  },
}

/** @throws {SchemaError} that names the key */
function fieldOf<T>(
  input: { readonly [key: string]: unknown },
  key: string,
  { codec, limits }: { readonly codec: Codec<T>; readonly limits: Limits },
): T | undefined {
  const wire = Object.hasOwn(input, key) ? input[key] : undefined
  if (wire === undefined) return undefined
  try {
    return codec.decode(wire, limits)
  } catch (error) {
    throw error instanceof SchemaError
      ? error.refusing(wire, codec).below(key, 'subscription filter')
      : error
  }
}

const pendingLogsFilter: typeof logQuery = {
  ...logQuery,
  decode(wire, limits) {
    strict(wire, ['address', 'topics', 'fromBlock', 'toBlock'])
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
  refuseUnknown(input, keys)
  return input as { [key in K]?: unknown }
}

function decoded<T>(codec: Codec<T>, wire: unknown, limits: Limits): T {
  try {
    return codec.decode(wire, limits)
  } catch (error) {
    throw error instanceof SchemaError ? invalidArgument(1, error.describe()) : error
  }
}

/** Of a kind that go-ethereum does not have. */
function decodedOwn<T>(codec: Codec<T>, wire: unknown, limits: Limits): T {
  try {
    return codec.decode(wire, limits)
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    throw invalidParams(error.refusing(wire, codec).describeOwn('params[1]'))
  }
}
