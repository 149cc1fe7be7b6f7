/**
 * Calls that a block makes itself: from 0xffff…fffe, with gas of their own that no account pays.
 */
import { BEACON_ROOTS, BLOCK_HASHES } from '../../chainspec/genesis.ts'
import type { Rules } from '../../chainspec/types.ts'
import {
  type Missing,
  type Outcome,
  type Session,
  type Stopped,
  TrapError,
} from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import { MissingError } from '../../state/reader.ts'
import { andThen, type MaybePromise, orUndo } from './maybe-promise.ts'
import type { BlockAttributes } from './types.ts'

/** Sender of system calls. */
export const SYSTEM = hexToBytes('0xfffffffffffffffffffffffffffffffffffffffe')
const GAS = 30_000_000n

/**
 * Stores the parent's hash (EIP-2935) and its beacon root (EIP-4788) before the first transaction.
 */
export async function beforeTransactions(
  session: Session,
  attributes: BlockAttributes,
  rules: Rules,
): Promise<void> {
  const { blockHashes, beaconRoot } = rules.systemCalls
  const calls: [contract: Bytes, input: Bytes][] = []
  if (beaconRoot && attributes.parentBeaconBlockRoot !== undefined)
    calls.push([BEACON_ROOTS_ADDRESS, attributes.parentBeaconBlockRoot])
  if (blockHashes) calls.push([BLOCK_HASHES_ADDRESS, attributes.parentHash])
  for (const [contract, input] of calls) await committedCall(session, contract, input)
}

const BEACON_ROOTS_ADDRESS = hexToBytes(BEACON_ROOTS)
const BLOCK_HASHES_ADDRESS = hexToBytes(BLOCK_HASHES)

/**
 * Runs a system call and undoes its changes.
 * @throws {ViewError} {MissingError} as the session's run does
 */
export function query(session: Session, contract: Bytes, input: Bytes): MaybePromise<Outcome> {
  const mark = session.checkpoint()
  const undo = () => session.revert(mark)
  return orUndo(() => {
    session.startTransaction()
    return andThen(session.run(systemMessage(contract, input)), (outcome) => {
      undo()
      return outcome
    })
  }, undo)
}

/** A call to an address without code does nothing, as the EIPs demand. */
async function committedCall(session: Session, contract: Bytes, input: Bytes): Promise<void> {
  session.startTransaction()
  const outcome = await session.run(systemMessage(contract, input))
  endedOf(outcome)
  session.endTransaction()
}

/**
 * Narrows the outcome of a call without limits.
 * @throws {MissingError}
 * @throws {TrapError} if the engine's memory did not suffice
 */
export function endedOf(outcome: Outcome): Exclude<Outcome, Missing | Stopped> {
  if (outcome.status === 'missing') throw new MissingError(...outcome.missing)
  if (outcome.status === 'stopped') throw new TrapError(`a system call was stopped: ${outcome.why}`)
  return outcome
}

export const systemMessage = (to: Bytes, input: Bytes) => ({
  from: SYSTEM,
  to,
  value: 0n,
  gas: GAS,
  input,
  origin: SYSTEM,
  gasPrice: 0n,
})
