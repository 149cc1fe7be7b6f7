/**
 * eth_createAccessList: the access list of all that a message touches (EIP-2930; go-ethereum:
 * ethapi.AccessList).
 */
import type { Touch } from '../../evm/engine.ts'
import { OPCODES } from '../../evm/opcodes.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../primitives/hex.ts'
import type { AccessList } from '../../primitives/transaction.ts'
import { createAddress } from '../../primitives/transaction-codec.ts'
import { ZERO_20 } from '../../primitives/words.ts'
import type { Observer } from '../../tracers/types.ts'
import { warmedAuthority } from '../transaction/authorizations.ts'
import { andThen, type MaybePromise } from '../transaction/maybe-promise.ts'
import {
  type CallFailure,
  type CallOptions,
  call,
  gasOf,
  payableAuthorizations,
  refused,
} from './call.ts'

export type AccessListResult =
  | {
      readonly status: 'success'
      readonly accessList: AccessList
      /** Gas of the message with this list. */
      readonly gasUsed: bigint
      /** Reason why the message failed; the list has the touches before the failure. */
      readonly error: string | undefined
    }
  | Exclude<CallFailure, { status: 'revert' }>

/** Maps addresses to slots, in hex. */
type Touched = Map<string, Set<string>>

/**
 * Maximum runs, because a contract can touch other slots with each list; the last list is the
 * result.
 */
const MAX_RUNS = 32

/**
 * Runs the message with the previous run's list until it touches the same accounts and slots.
 * @throws {ViewError} {MissingError}
 */
export function createAccessList(
  options: CallOptions & { readonly nonce: bigint },
): MaybePromise<AccessListResult> {
  const { request, nonce, engine, chain, env } = options
  const from = request.from ?? ZERO_20
  const rules = chain.rulesAt(env.number, env.timestamp)
  const { authorizationList } = request
  if (request.gasPrice !== undefined && authorizationList !== undefined)
    return refused('both gasPrice and authorizationList specified')
  const authorities = payableAuthorizations(authorizationList, gasOf(options)).map((one) =>
    warmedAuthority(one, chain.chainId),
  )
  // These addresses are always warm. The list names them only for their slots.
  const excluded = new Set<string>(
    [
      from,
      request.to ?? createAddress(from, nonce),
      ...engine.precompiles(rules.evm),
      ...authorities.filter((found) => found !== undefined),
    ].map(bytesToHex),
  )
  function run(list: Touched, runs: number): MaybePromise<AccessListResult> {
    const accessList = listOf(list)
    const next = touchedOf(accessList, excluded)
    let gasUsed: bigint | undefined
    const tracer: Observer = {
      sink: { touch: (touch) => addTouch(next, touch, excluded) },
      end(gas) {
        gasUsed = gas
      },
    }
    return andThen(call({ ...options, request: { ...request, accessList }, tracer }), (result) => {
      if (gasUsed === undefined) return result as Exclude<CallFailure, { status: 'revert' }>
      if (runs < MAX_RUNS && !isSame(next, list)) return run(next, runs + 1)
      return { status: 'success', accessList, gasUsed, error: errorOf(result) }
    })
  }
  return run(touchedOf(request.accessList ?? [], excluded), 1)
}

function errorOf(result: Awaited<ReturnType<typeof call>>): string | undefined {
  if (result.status === 'revert') return 'execution reverted'
  return result.status === 'refused' ? result.message : undefined
}

/** Failing opcodes count too, as in go-ethereum; a created address does not. */
function addTouch(
  touched: Touched,
  { op, address, target, key }: Touch,
  excluded: ReadonlySet<string>,
): void {
  if (key !== undefined) slotsOf(touched, bytesToHex(address)).add(bytesToHex(key))
  if (target === undefined || CREATIONS.has(OPCODES[op]?.name ?? '')) return
  const name = bytesToHex(target)
  if (!excluded.has(name)) slotsOf(touched, name)
}

const CREATIONS: ReadonlySet<string> = new Set(['CREATE', 'CREATE2'])

function slotsOf(touched: Touched, address: string): Set<string> {
  const found = touched.get(address) ?? new Set()
  touched.set(address, found)
  return found
}

const isSame = (a: Touched, b: Touched): boolean =>
  a.size === b.size &&
  [...a].every(([address, slots]) => {
    const others = b.get(address)
    return others?.size === slots.size && [...slots].every((slot) => others.has(slot))
  })

function touchedOf(list: AccessList, excluded: ReadonlySet<string>): Touched {
  const touched: Touched = new Map()
  for (const { address, storageKeys } of list) {
    const name = bytesToHex(address)
    if (excluded.has(name)) continue
    const slots = slotsOf(touched, name)
    for (const key of storageKeys) slots.add(bytesToHex(key))
  }
  return touched
}

/** The list is sorted, because the order of touches depends on the previous run's list. */
const listOf = (touched: Touched): AccessList =>
  inOrder(touched.keys()).map((address) => ({
    address: hexToBytes(address) satisfies Bytes,
    storageKeys: inOrder(touched.get(address)!).map((key) => hexToBytes(key)),
  }))

const inOrder = (names: Iterable<string>): string[] => [...names].sort((a, b) => (a < b ? -1 : 1))
