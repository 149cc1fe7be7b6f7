/** Parameters of eth_subscribe: what each kind accepts and refuses. */
import type { FlashblockId } from '../../../engine/chain/types.ts'
import type { Client } from '../../core/client.ts'
import {
  invalidArgument,
  invalidParameter,
  invalidParams,
  missingValue,
  notOnThisEndpoint,
  RpcError,
  tooManyArguments,
  unknownSubscription,
} from '../../core/errors.ts'
import type { Limits } from '../../core/limits.ts'
import type { FlashblockKind } from '../../events/channels.ts'
import { heightsOf, logQuery } from '../../events/log-filter.ts'
import type { FlashblockSubscription } from '../../events/since.ts'
import type { SubscriptionKind } from '../../events/subscriptions.ts'
import { address, hash } from '../../json/codecs.ts'
import { decodeFlashblockIdText } from '../../json/min-flashblock.ts'
import {
  array,
  boolean,
  type Codec,
  kindOf,
  type PlainCodec,
  plainObject,
  quotedValue,
  refuseUnknown,
  SchemaError,
} from '../../json/schema.ts'

type Input = {
  readonly params: readonly unknown[]
  readonly endpoint: Client['endpoint']
  readonly limits: Limits
}

/**
 * Decodes the parameters of a kind.
 * @param input `params` has the parameters after the kind
 * @throws {RpcError}
 */
export function subscriptionOf(kind: string, input: Input): SubscriptionKind {
  const { params, limits } = input
  if (Object.hasOwn(FLASHBLOCK_KINDS, kind))
    return flashblockSubscription(kind as FlashblockKind, input)
  if (params.some(isSince)) throw invalidParams(`"since" works only with ${SINCE_KINDS}`)
  if (!Object.hasOwn(STANDARD_KINDS, kind)) throw unknownSubscription(kind)
  const { max, make } = STANDARD_KINDS[kind as StandardKind]
  if (params.slice(max).some((param) => param !== undefined)) throw tooManyArguments(1 + max)
  return make(params[0], limits)
}

type StandardKind = Exclude<SubscriptionKind['kind'], FlashblockKind>
type StandardRow = {
  /** Maximum number of parameters after the kind; null counts as one, as in go-ethereum. */
  readonly max: number
  readonly make: (param: unknown, limits: Limits) => SubscriptionKind
}
const STANDARD_KINDS: Readonly<Record<StandardKind, StandardRow>> = {
  newHeads: { max: 0, make: () => ({ kind: 'newHeads' }) },
  syncing: { max: 0, make: () => ({ kind: 'syncing' }) },
  newPendingTransactions: {
    max: 1,
    make: (param, limits) => ({
      kind: 'newPendingTransactions',
      isFull: decoded(boolean, param ?? false, limits),
    }),
  },
  logs: {
    max: 1,
    make(param, limits) {
      if (param === undefined || param === null) throw missingValue(1)
      const query = decoded(logQuery, param, limits)
      return { kind: 'logs', awaited: { ...query, heights: heightsOf(query) } }
    },
  },
}

/** Decoders of the options of each kind; some kinds take no parameter. */
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

/** Kinds that resume from a flashblock. */
const SINCE_KINDS = Object.keys(FLASHBLOCK_KINDS).join(', ')

function flashblockSubscription(
  kind: FlashblockKind,
  { params, endpoint, limits }: Input,
): FlashblockSubscription {
  if (endpoint === 'standard' && kind !== 'transactionReceipts')
    throw notOnThisEndpoint(`${kind} subscription`)
  const given = params.map((param) => param ?? undefined)
  while (given.length > 0 && given.at(-1) === undefined) given.pop()
  const since = isSince(given.at(-1)) ? decodeSince(given.pop(), given.length + 1) : undefined
  if (since !== undefined && endpoint === 'standard') throw notOnThisEndpoint('"since"')
  if (given.length > 1) throw tooManyArguments(since === undefined ? 2 : 3)
  const options = FLASHBLOCK_KINDS[kind](given[0], limits)
  return { kind, options, since } as FlashblockSubscription
}

/**
 * Tells whether a parameter is `{"since":"number:index"}` or `number:index:payload`, as in
 * X-Flashblock. It is always a separate parameter.
 */
export const isSince = (param: unknown): boolean =>
  typeof param === 'object' && param !== null && Object.hasOwn(param, 'since')

function decodeSince(param: unknown, index: number): FlashblockId {
  const { since, ...others } = param as { readonly since: unknown }
  const other = Object.keys(others)[0]
  if (other !== undefined)
    throw invalidParameter(index, `unknown field ${quotedValue(other)}, expected only since`)
  const flashblockId = decodeFlashblockIdText(since)
  if (flashblockId === undefined)
    throw invalidParameter(
      index,
      'expected {"since":"number:index"} or {"since":"number:index:payload"}',
    )
  return flashblockId
}

/** X Layer's filter: unknown keys are refused, and null counts as missing. */
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
      includes: filter?.includes ?? { info: false, receipt: false },
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
  Pick<
    Extract<FlashblockSubscription, { kind: 'flashblocks' }>['options'],
    'addresses' | 'includes'
  >
> = {
  decode(wire, limits) {
    const input = strict(wire, ['subscribeAddresses', 'txInfo', 'txReceipt'])
    const { subscribeAddresses } = input
    if (Array.isArray(subscribeAddresses) && subscribeAddresses.length > limits.subscribeAddresses)
      throw invalidParams('too many subscribe addresses')
    return {
      addresses: fieldOf(input, 'subscribeAddresses', { codec: addresses, limits }) ?? [],
      includes: {
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

/**
 * Decodes one field.
 * @throws {SchemaError} with the key
 */
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
      // In a subscription, too many addresses are an invalid parameter.
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

/**
 * Checks that an object has only these keys.
 * @throws {SchemaError}
 */
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

/** Decodes an option of a kind that go-ethereum does not have. */
function decodedOwn<T>(codec: Codec<T>, wire: unknown, limits: Limits): T {
  try {
    return codec.decode(wire, limits)
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    throw invalidParams(error.refusing(wire, codec).describeOwn('params[1]'))
  }
}
