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
import {
  describeMissing,
  MissingError,
  type MissingKey,
  type StateReader,
} from '../../state/reader.ts'
import { bytesOf, wordsOf } from '../../state/words.ts'

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
  const notes = createNotes(bounds.most)
  for (const key of bounds.first.missing) notes.add(key)
  const noting = notingReader(reader, notes.add)
  const decoded = transactions.flatMap((raw) => decode(raw, senderOf))
  for (const transaction of decoded) guess(transaction, noting)
  const execution = openBlock({ ...context, reader: noting, attributes })
  try {
    if (begins) await noted(() => execution.begin(), notes.add)
    for (const transaction of decoded) {
      if (bounds.isExpired() || notes.isFull()) break
      const limits = { isExpired: bounds.isExpired }
      await noted(() => execution.execute(transaction, limits), notes.add)
    }
  } finally {
    execution.close()
  }
  return new MissingError(bounds.first.missing[0], ...notes.others())
}

function createNotes(most: number) {
  const keys = new Map<string, MissingKey>()
  return {
    add(key: MissingKey): void {
      if (keys.size < most) keys.set(describeMissing(key), key)
    },
    isFull: () => keys.size >= most,
    others: () => [...keys.values()].slice(1),
  }
}

async function noted(run: () => Promise<unknown>, note: (key: MissingKey) => void): Promise<void> {
  try {
    await run()
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    for (const key of error.missing) note(key)
  }
}

/** What a transaction names itself. */
function guess(transaction: Transaction, reader: StateReader): void {
  const out = new Uint32Array(18)
  const account = (address: Bytes) => reader.account(wordsOf(address), out, 0)
  account(transaction.from)
  if (transaction.to !== undefined) account(transaction.to)
  if (transaction.type === 0x7e || transaction.type === 0) return
  for (const { address, storageKeys } of transaction.accessList) {
    account(address)
    for (const key of storageKeys) reader.slot(wordsOf(address), wordsOf(key), out, 0)
  }
}

/** Absent in place of missing. Code stays missing: an engine keeps code by its hash, and would go on with an empty one. */
function notingReader(under: StateReader, note: (key: MissingKey) => void): StateReader {
  return {
    account(address, out, at) {
      const presence = under.account(address, out, at)
      if (presence !== 'missing') return presence
      note({ kind: 'account', address: bytesOf(address.slice()) })
      return 'absent'
    },
    slot(address, key, out, at) {
      const presence = under.slot(address, key, out, at)
      if (presence !== 'missing') return presence
      note({ kind: 'slot', address: bytesOf(address.slice()), key: bytesOf(key.slice()) })
      return 'absent'
    },
    code(hash) {
      const code = under.code(hash)
      if (code === 'missing') note({ kind: 'code', hash: hash.slice() })
      return code
    },
    blockHash(number) {
      const hash = under.blockHash(number)
      if (hash !== 'missing') return hash
      note({ kind: 'blockHash', number })
      return undefined
    },
    hasSlots: (address) => under.hasSlots(address),
    slots: (address) => under.slots(address),
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
