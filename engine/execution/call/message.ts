/**
 * The message of eth_call and similar methods, and the checks of it. Order and words are
 * go-ethereum's (core/state_transition.go, preCheck and execute).
 */
import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Session } from '../../evm/engine.ts'
import { MAX_NONCE } from '../../evm/nonce-limit.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { checksumAddress } from '../../primitives/keccak.ts'
import type { AccessList, Authorization } from '../../primitives/transaction.ts'
import { GAS_PER_BLOB } from '../transaction/validation.ts'

export type SimulatedMessage = {
  readonly from: Bytes
  readonly to: Bytes | undefined
  readonly value: bigint
  readonly input: Bytes
  readonly gas: bigint
  /** Wei per gas: maximum fee, maximum tip, and the value that GASPRICE reads. */
  readonly feeCap: bigint
  readonly tipCap: bigint
  readonly gasPrice: bigint
  readonly accessList: AccessList
  /** undefined for other types of messages. An empty list is refused, as in a transaction. */
  readonly authorizations: readonly Authorization[] | undefined
  readonly blobHashes: readonly Bytes[] | undefined
  readonly blobFeeCap: bigint
}

export type MessageContext = {
  readonly session: Session
  /** Has a base fee of 0 if the sender pays no price. */
  readonly env: BlockEnv
  readonly rules: Rules
  /** Requires this nonce, and the base fee even for a message without a price. */
  readonly validation?: { readonly nonce: bigint }
}

export type RefusedCall = {
  readonly message: string
  readonly why:
    | 'nonce low'
    | 'nonce high'
    | 'nonce max'
    | 'fees'
    | 'base fee'
    | 'lists'
    | 'funds'
    | 'gas'
    | 'init code'
  readonly isGasTooLow?: boolean
}

/** @param costs gas before the first opcode, and the minimum gas for the calldata */
export function refusalOf(
  message: SimulatedMessage,
  context: MessageContext,
  costs: { readonly gas: bigint; readonly floor: bigint },
): RefusedCall | undefined {
  return (
    checkNonce(message, context) ??
    checkFees(message, context) ??
    checkBlobs(message, context) ??
    checkAuthorizations(message) ??
    checkInitCode(message, context) ??
    checkFunds(message, context) ??
    checkGas(message, costs)
  )
}

function checkNonce(
  { from }: SimulatedMessage,
  { session, validation }: MessageContext,
): RefusedCall | undefined {
  if (validation === undefined) return undefined
  const { nonce: wanted } = validation
  const { nonce } = session.account(from)
  const who = checksumAddress(from)
  if (wanted < nonce)
    return {
      why: 'nonce low',
      message: `nonce too low: address ${who}, tx: ${wanted} state: ${nonce}`,
    }
  if (wanted > nonce)
    return {
      why: 'nonce high',
      message: `nonce too high: address ${who}, tx: ${wanted} state: ${nonce}`,
    }
  if (wanted === MAX_NONCE)
    return { why: 'nonce max', message: `nonce has max value: address ${who}, nonce: ${wanted}` }
  return undefined
}

function checkFees(
  { from, feeCap, tipCap }: SimulatedMessage,
  { env, validation }: MessageContext,
): RefusedCall | undefined {
  const who = checksumAddressOf(from)
  if (tipCap > feeCap)
    return {
      why: 'fees',
      message: `max priority fee per gas higher than max fee per gas: address ${who()}, maxPriorityFeePerGas: ${tipCap}, maxFeePerGas: ${feeCap}`,
    }
  const mustMeet = validation !== undefined || feeCap > 0n || tipCap > 0n
  if (mustMeet && feeCap < env.baseFee)
    return {
      why: 'base fee',
      message: `max fee per gas less than block base fee: address ${who()}, maxFeePerGas: ${feeCap}, baseFee: ${env.baseFee}`,
    }
  return undefined
}

/** Checks the blobs (EIP-4844 and EIP-7594). */
function checkBlobs(
  { from, to, blobHashes, blobFeeCap }: SimulatedMessage,
  { env, rules, validation }: MessageContext,
): RefusedCall | undefined {
  if (blobHashes === undefined) return undefined
  if (to === undefined) return { why: 'lists', message: 'blob transaction of type create' }
  if (blobHashes.length === 0)
    return { why: 'lists', message: 'blob transaction missing blob hashes' }
  const { maxBlobsOfTransaction: max } = rules
  if (max !== undefined && blobHashes.length > max)
    return { why: 'lists', message: 'blob transaction has too many blobs' }
  const wrong = blobHashes.findIndex((hash) => hash[0] !== BLOB_HASH_VERSION)
  if (wrong >= 0) return { why: 'lists', message: `blob ${wrong} has invalid hash version` }
  const mustMeet = validation !== undefined || blobFeeCap > 0n
  if (rules.header.beaconRoot && mustMeet && blobFeeCap < env.blobBaseFee)
    return {
      why: 'lists',
      message: `max fee per blob gas less than block blob gas fee: address ${checksumAddress(from)} blobGasFeeCap: ${blobFeeCap}, blobBaseFee: ${env.blobBaseFee}`,
    }
  return undefined
}
const BLOB_HASH_VERSION = 1

/** Checks the authorizations (EIP-7702). */
function checkAuthorizations({
  from,
  to,
  authorizations,
}: SimulatedMessage): RefusedCall | undefined {
  if (authorizations === undefined) return undefined
  const problem =
    to === undefined
      ? 'EIP-7702 transaction cannot be used to create contract'
      : authorizations.length === 0
        ? 'EIP-7702 transaction with empty auth list'
        : undefined
  return problem === undefined
    ? undefined
    : { why: 'lists', message: `${problem} (sender ${checksumAddress(from)})` }
}

function checkInitCode(
  { to, input }: SimulatedMessage,
  { rules }: MessageContext,
): RefusedCall | undefined {
  const size = input.length
  const limit = rules.maxInitCodeBytes
  if (to !== undefined || limit === undefined || size <= limit) return undefined
  return {
    why: 'init code',
    message: `max initcode size exceeded: code size ${size} limit ${limit}`,
  }
}

function checkFunds(
  { from, feeCap, gas, value, blobHashes = [], blobFeeCap }: SimulatedMessage,
  { session }: MessageContext,
): RefusedCall | undefined {
  const blobs = BigInt(blobHashes.length) * GAS_PER_BLOB * blobFeeCap
  const want = gas * feeCap + value + blobs
  const { balance } = session.account(from)
  if (balance >= want) return undefined
  const who = checksumAddress(from)
  const wanting =
    want >= 2n ** 256n ? 'required balance exceeds 256 bits' : `have ${balance} want ${want}`
  return {
    why: 'funds',
    message: `insufficient funds for gas * price + value: address ${who} ${wanting}`,
  }
}

function checkGas(
  { gas }: SimulatedMessage,
  costs: { readonly gas: bigint; readonly floor: bigint },
): RefusedCall | undefined {
  if (gas < costs.gas)
    return {
      why: 'gas',
      message: `intrinsic gas too low: have ${gas}, want ${costs.gas}`,
      isGasTooLow: true,
    }
  if (gas < costs.floor)
    return {
      why: 'gas',
      message: `insufficient gas for floor data gas cost: have ${gas}, want ${costs.floor}`,
      isGasTooLow: true,
    }
  return undefined
}

/** Computes the checksum only if the text is needed. */
const checksumAddressOf = (address: Bytes) => () => checksumAddress(address)
