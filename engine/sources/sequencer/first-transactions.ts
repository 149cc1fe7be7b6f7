/**
 * The first transaction of a block has the L1 attributes. Deposits of users on the simulated L1 of
 * a development chain follow. Edits follow in a block of their own.
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import { type AccountEdit, editDeposit } from '../../execution/transaction/edits.ts'
import type { BlockAttributes, BlockExecution } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { DepositTransaction } from '../../primitives/transaction.ts'
import { makeDeposit, sourceHash } from '../../primitives/transaction-codec.ts'
import { attributesDeposit, type L1FeeInputs, l1BlockOf } from './attributes.ts'
import { ControlError } from './controls.ts'

export type UserDeposit = {
  /** Number of the request, for the response. */
  readonly request: number
  readonly from: Bytes
  /** undefined: the deposit creates a contract. */
  readonly to: Bytes | undefined
  /** Wei that the deposit creates on this chain. */
  readonly mint: bigint
  readonly value: bigint
  readonly gasLimit: bigint
  readonly input: Bytes
}
/**
 * `hash`: of the transaction in a block, also if it failed. `reason`: why it cannot be in a block.
 */
export type Deposited = { readonly request: number } & (
  | { readonly hash: Bytes }
  | { readonly reason: string }
)

export type DepositPort = {
  /**
   * Returns the oldest deposits, at most `MAX_DEPOSITS`, for a new block. If that block is not
   * finished, the next one asks again.
   */
  take(): readonly UserDeposit[]
  /** Removes the oldest deposit, which is in the feed or never will be. */
  done(deposited: Deposited): void
}

/** Limit of deposits in one block. */
export const MAX_DEPOSITS = 16

async function executeDeposits(
  chain: ChainSpec,
  execution: BlockExecution,
  deposits: readonly UserDeposit[],
): Promise<readonly Deposited[]> {
  const responses: Deposited[] = []
  for (const [index, deposit] of deposits.entries()) {
    const { request } = deposit
    const transaction = transactionOf(chain, execution.attributes, { deposit, index })
    const done = await execution.execute(transaction)
    if (done.status === 'executed') responses.push({ request, hash: transaction.hash })
    else {
      const reason = done.status === 'invalid' ? done.reason.message : 'it takes too long'
      responses.push({ request, reason })
    }
  }
  return responses
}

function transactionOf(
  chain: ChainSpec,
  { timestamp }: BlockAttributes,
  { deposit, index }: { readonly deposit: UserDeposit; readonly index: number },
): DepositTransaction {
  const { from, to, mint, value, gasLimit, input } = deposit
  const { hash, sequenceNumber } = l1BlockOf(chain, timestamp)
  // Index of the deposit's log on L1; each L2 block of the same L1 block has its own range.
  const logIndex = sequenceNumber * BigInt(MAX_DEPOSITS) + BigInt(index)
  return makeDeposit({
    from,
    to,
    mint,
    value,
    gasLimit,
    input,
    sourceHash: sourceHash(0, hash, logIndex),
    isSystemTransaction: false,
  })
}

/**
 * Executes the first transactions.
 * @returns deposits of users that are in the block, or never will be
 * @throws {ControlError}
 */
export async function executeFirst(
  { chain, l1 }: { readonly chain: ChainSpec; readonly l1: L1FeeInputs },
  execution: BlockExecution,
  {
    deposits,
    edits,
  }: {
    readonly deposits: DepositPort | undefined
    readonly edits: readonly AccountEdit[] | undefined
  },
): Promise<readonly Deposited[]> {
  const { attributes } = execution
  const done = await execution.execute(attributesDeposit(chain, attributes, l1))
  if (done.status !== 'executed')
    throw new Error(`block ${attributes.number}: the L1-attributes deposit does not execute`)
  if (edits === undefined) return executeDeposits(chain, execution, deposits?.take() ?? [])
  const edited = await execution.execute(editDeposit(attributes.parentHash, edits))
  if (edited.status === 'invalid') throw new ControlError(edited.reason.message)
  return []
}
