/** What else a run will ask for: it is done once more with zeros in place of what is missing, and thrown away. */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine } from '../../evm/engine.ts'
import { openBlock } from '../../execution/block/block.ts'
import type { BlockAttributes } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Transaction } from '../../primitives/transaction.ts'
import {
  decodeTransaction,
  type SenderOf,
  TransactionError,
} from '../../primitives/transaction-codec.ts'
import { collectingReader, MissingKeys, readNamed } from '../../state/collecting.ts'
import { MissingError, type StateReader } from '../../state/reader.ts'

export type Scouted = {
  /** The state in which the first of the transactions runs; before it the block begins, where `begins`. */
  readonly reader: StateReader
  readonly attributes: BlockAttributes
  readonly begins: boolean
  readonly transactions: readonly Bytes[]
  readonly senderOf: SenderOf
}

/** All keys that `first` and such a run name, at most `most`. @throws {ViewError} */
export async function scout(
  context: { readonly chain: ChainSpec; readonly engine: Engine },
  { reader, attributes, begins, transactions, senderOf }: Scouted,
  bounds: {
    readonly first: MissingError
    readonly most: number
    readonly isExpired: () => boolean
  },
): Promise<MissingError> {
  const missing = new MissingKeys(bounds.most)
  for (const key of bounds.first.missing) missing.note(key)
  const collecting = collectingReader(reader, missing)
  const decoded = transactions.flatMap((raw) => decode(raw, senderOf))
  for (const transaction of decoded) readNamed(collecting, transaction)
  const execution = openBlock({ ...context, reader: collecting, attributes })
  try {
    if (begins) await noted(() => execution.begin(), missing)
    for (const transaction of decoded) {
      if (bounds.isExpired() || missing.isFull) break
      const limits = { isExpired: bounds.isExpired }
      await noted(() => execution.execute(transaction, limits), missing)
    }
  } finally {
    execution.close()
  }
  const [first] = bounds.first.missing
  return new MissingError(first, ...missing.list().slice(1))
}

async function noted(run: () => Promise<unknown>, missing: MissingKeys): Promise<void> {
  try {
    await run()
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    for (const key of error.missing) missing.note(key)
  }
}

function decode(raw: Bytes, senderOf: SenderOf): readonly Transaction[] {
  try {
    return [decodeTransaction(raw, senderOf)]
  } catch (error) {
    if (error instanceof TransactionError) return []
    throw error
  }
}
