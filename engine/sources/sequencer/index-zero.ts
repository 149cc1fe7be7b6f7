/** What leads a block: its L1 attributes, then what users deposited on L1, or edits that have a block of their own. */
import { type AccountEdit, editDeposit } from '../../execution/transaction/edits.ts'
import type { BlockExecution } from '../../execution/transaction/types.ts'
import { attributesDeposit } from './attributes.ts'
import { ControlError } from './controls.ts'
import type { SequencerOptions } from './types.ts'
import { type Deposited, type DepositPort, executeDeposits } from './user-deposits.ts'

/** @returns deposits of users that are in it, or never will be @throws {ControlError} */
export async function executeFirst(
  { chain, l1 }: Pick<SequencerOptions, 'chain' | 'l1'>,
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
