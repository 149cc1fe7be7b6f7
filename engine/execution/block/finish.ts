/**
 * Ends an Ethereum block after its last transaction: withdrawals, requests, and rewards before the
 * merge.
 */
import type { Rules } from '../../chainspec/types.ts'
import type { Session } from '../../evm/engine.ts'
import type { BlockTail } from '../../primitives/block-codec.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Log } from '../../primitives/receipt.ts'
import type { BlockAttributes } from '../transaction/types.ts'
import { makeRequests } from './requests.ts'

const GWEI = 1_000_000_000n

/**
 * Applies the end of a block.
 * @returns the header's requestsHash, if the header has one
 * @throws {RequestsError} {MissingError} {ViewError}
 */
export async function finishBlock(
  session: Session,
  tail: BlockTail,
  block: {
    readonly attributes: BlockAttributes
    readonly rules: Rules
    readonly logs: readonly Log[]
  },
): Promise<Bytes | undefined> {
  const { attributes, rules, logs } = block
  const requestsHash =
    rules.depositContract === undefined
      ? undefined
      : await makeRequests(session, logs, rules.depositContract)
  session.startTransaction()
  for (const { address, amount } of tail.withdrawals ?? [])
    session.addBalance(address, amount * GWEI)
  if (rules.blockReward > 0n) payRewards(session, tail.ommers, { attributes, rules })
  session.endTransaction()
  return requestsHash
}

/**
 * Pays the miner 1/32 more for each ommer. Each ommer's miner gets 1/8 less for each block that the
 * ommer is late.
 */
function payRewards(
  session: Session,
  ommers: BlockTail['ommers'],
  { attributes, rules }: { readonly attributes: BlockAttributes; readonly rules: Rules },
): void {
  const { blockReward } = rules
  for (const { coinbase, number } of ommers)
    session.addBalance(coinbase, (blockReward * (8n + number - attributes.number)) / 8n)
  const forOmmers = (blockReward / 32n) * BigInt(ommers.length)
  session.addBalance(attributes.coinbase, blockReward + forOmmers)
}
