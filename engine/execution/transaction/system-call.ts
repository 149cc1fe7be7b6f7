/** Calls that a block makes itself: from 0xffff…fffe, with gas of their own, nobody pays. */
import { BEACON_ROOTS, BLOCK_HASHES } from '../../chainspec/system-contracts.ts'
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
import { andThen, type Maybe, orUndo } from './maybe.ts'
import type { BlockAttributes } from './types.ts'

/** Who calls. */
export const SYSTEM = hexToBytes('0xfffffffffffffffffffffffffffffffffffffffe')
const GAS = 30_000_000n

/** Calls before the first transaction: the parent's hash (EIP-2935) and its beacon root (EIP-4788) go into storage. */
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
  for (const [contract, input] of calls) await keptCall(session, contract, input)
}

const BEACON_ROOTS_ADDRESS = hexToBytes(BEACON_ROOTS)
const BLOCK_HASHES_ADDRESS = hexToBytes(BLOCK_HASHES)

/** A system call of which nothing stays. @throws {ViewError} {MissingError} as the session's run does */
export function look(session: Session, contract: Bytes, input: Bytes): Maybe<Outcome> {
  const mark = session.checkpoint()
  const undo = () => session.revert(mark)
  return orUndo(() => {
    session.beginTransaction()
    return andThen(session.run(systemMessage(contract, input)), (outcome) => {
      undo()
      return outcome
    })
  }, undo)
}

/** Without code at the address nothing happens, as the EIPs want it. */
async function keptCall(session: Session, contract: Bytes, input: Bytes): Promise<void> {
  session.beginTransaction()
  const outcome = await session.run(systemMessage(contract, input))
  endedOf(outcome)
  session.endTransaction()
}

/** A call that nothing bounds came to its end. @throws {MissingError} {TrapError} where the engine's memory did not suffice */
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
