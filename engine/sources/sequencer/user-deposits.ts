/** Deposits that users make on the made-up L1 of a development chain: they lead a block, behind its L1 attributes. */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { BlockAttributes, BlockExecution } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { DepositTransaction } from '../../primitives/transaction.ts'
import { makeDeposit, sourceHash } from '../../primitives/transaction-codec.ts'
import { l1BlockOf } from './attributes.ts'

export type UserDeposit = {
  /** Names it in the answer. */
  readonly request: number
  readonly from: Bytes
  /** undefined: creates a contract. */
  readonly to: Bytes | undefined
  /** Wei that come into being on this chain. */
  readonly mint: bigint
  readonly value: bigint
  readonly gasLimit: bigint
  readonly input: Bytes
}
/** `hash`: of its transaction, which is in a block, be it failed; else why it cannot be. */
export type Deposited = { readonly request: number } & (
  | { readonly hash: Bytes }
  | { readonly reason: string }
)

export type DepositPort = {
  /** The oldest, at most `MAX_DEPOSITS`, for the block that is begun. Where it cannot be finished the next one asks again. */
  take(): readonly UserDeposit[]
  /** The oldest is in the feed, or never will be. */
  done(deposited: Deposited): void
}

/** In one block. */
export const MAX_DEPOSITS = 16

export async function executeDeposits(
  chain: ChainSpec,
  execution: BlockExecution,
  deposits: readonly UserDeposit[],
): Promise<readonly Deposited[]> {
  const answers: Deposited[] = []
  for (const [index, deposit] of deposits.entries()) {
    const { request } = deposit
    const transaction = transactionOf(chain, execution.attributes, { deposit, index })
    const done = await execution.execute(transaction)
    if (done.status === 'executed') answers.push({ request, hash: transaction.hash })
    else {
      const reason = done.status === 'invalid' ? done.reason.message : 'it takes too long'
      answers.push({ request, reason })
    }
  }
  return answers
}

function transactionOf(
  chain: ChainSpec,
  { timestamp }: BlockAttributes,
  { deposit, index }: { readonly deposit: UserDeposit; readonly index: number },
): DepositTransaction {
  const { from, to, mint, value, gasLimit, input } = deposit
  const { hash, sequenceNumber } = l1BlockOf(chain, timestamp)
  // The log of the deposit on L1; blocks that share an L1 block have logs of their own.
  const logIndex = sequenceNumber * BigInt(MAX_DEPOSITS) + BigInt(index)
  return makeDeposit({
    ...{ from, to, mint, value, gasLimit, input },
    sourceHash: sourceHash(0, hash, logIndex),
    isSystemTransaction: false,
  })
}
