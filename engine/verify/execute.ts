/** Executes blocks again on the state before them and compares receipts, changes and history. */
import { attributesOfHeader, openBlock } from '../execution/block/block.ts'
import { RequestsError } from '../execution/block/requests.ts'
import { decodeTail, NO_TAIL } from '../primitives/block-codec.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { bytesToHex } from '../primitives/hex.ts'
import {
  decodeStoredReceipt,
  encodeReceipt,
  encodeStoredReceipt,
} from '../primitives/receipt-codec.ts'
import { decodeTransaction } from '../primitives/transaction-codec.ts'
import { equalBytes } from '../primitives/words.ts'
import { encodeDiff } from '../state/diff-codec.ts'
import { type DiffRow, rowsOf } from '../state/encoded-diff.ts'
import { MissingError } from '../state/reader.ts'
import { latin1 } from '../state/words.ts'
import { withNumber } from '../storage/blocks/block-codec.ts'
import { columnsOf } from '../storage/blocks/persist.ts'
import type { StoredBody, StoredHead } from '../storage/types.ts'
import type { HistorySums } from './history.ts'
import { pastState, slotLists, TooLargeError, valueAt } from './past-state.ts'
import type { Verifying } from './verifying.ts'

export interface Executor {
  /**
   * Checks a block; blocks come in the order of the chain.
   * @param body transactions that match the block's header
   */
  check(block: StoredHead & { readonly header: Header }, body: StoredBody): Promise<void>
}

/** @param history sums of all rows; undefined when not all rows were read */
export function openExecutor(verifying: Verifying, history: HistorySums | undefined): Executor {
  const { database, store, counts } = verifying
  const persisted = store.persistedHead().number
  const slotsOf = slotLists(database, store)
  /** Values that the diffs of unpersisted blocks left, up to block `overlayUpTo`. */
  const overlay = new Map<string, Bytes | undefined>()
  const emptyOverlay = new Map<string, never>()
  let overlayUpTo = persisted
  const hashes = new Map<number, Bytes>()
  const past = { store, slotsOf, hashOf: (at: number) => hashes.get(at) ?? store.hashOfNumber(at) }

  return {
    async check(block, body) {
      const { number, hash } = block
      if (number <= store.oldestState()) return
      const isPersisted = number <= persisted
      // The state before is unknown without the block below.
      if (!isPersisted && overlayUpTo !== number - 1) return
      const reader = pastState(past, number - 1, isPersisted ? emptyOverlay : overlay)
      const executed = await execute(verifying, { ...block, body, reader })
      if (executed === 'missing') counts.notExecuted++
      else {
        counts.executed++
        if (executed !== 'another') {
          const rows = [...rowsOf(encodeDiff(executed))]
          if (isPersisted) checkAfter(verifying, number, rows)
          if (isPersisted) history?.check(number, rows)
          checkDiff(verifying, block, rows)
        }
      }
      if (isPersisted) return
      const stored = store.encodedDiff(hash)
      if (stored === undefined) return
      for (const { key, after } of rowsOf(stored)) overlay.set(latin1(key), after?.slice())
      overlayUpTo = number
      hashes.set(number, hash)
    },
  }
}

type Work = StoredHead & {
  readonly header: Header
  readonly body: StoredBody
  readonly reader: ReturnType<typeof pastState>
}

/**
 * Executes a block. 'another': the result differs from the stored one, which is reported.
 * 'missing': some of the data is not here.
 */
async function execute(verifying: Verifying, work: Work) {
  const { engine, chain, store, findings } = verifying
  const { number, hash, header, reader } = work
  // A damaged row was reported before.
  const stored = receiptsOf(verifying, hash)
  if (stored === undefined) return 'missing'
  let at = 0
  const execution = openBlock({
    engine,
    chain,
    reader,
    attributes: {
      ...attributesOfHeader(header, work.body.transactions.at(-1)?.raw),
      parentBeaconBlockRoot: header.parentBeaconBlockRoot,
    },
    /*
     * Before Byzantium, a receipt contains a state root. The stored one is used, because the
     * receipts root covers it.
     */
    rootAfter: () => stored[at++]?.decoded.root ?? header.stateRoot,
  })
  const another = (what: string) => {
    // A different result can follow from a damaged row of the state, which was reported before.
    if (findings.stateCount === 0)
      findings.add({ where: 'headers', key: hash, block: number }, `executed again ${what}`)
    return 'another' as const
  }
  try {
    await execution.start()
    for (const [index, { raw }] of work.body.transactions.entries()) {
      const { status } = await execution.execute(decodeTransaction(raw))
      if (status !== 'executed') return another(`transaction ${index} is ${status}`)
    }
    const tail = store.tail(hash)
    await execution.finish(tail === undefined ? NO_TAIL : decodeTail(tail))
    for (const [index, { receipt }] of execution.executed.entries()) {
      const of = stored[index]
      if (of === undefined) return another(`it has no receipt ${index}`)
      if (!equalBytes(encodeReceipt(receipt), encodeReceipt(of.decoded)))
        return another(`transaction ${index} has another receipt`)
      if (!equalBytes(encodeStoredReceipt(receipt), of.raw))
        findings.add(
          { where: 'receipts', key: hash, block: number },
          `receipt ${index} has other fields than its execution gives`,
        )
    }
    return await execution.diff()
  } catch (error) {
    if (error instanceof MissingError || error instanceof TooLargeError) return 'missing'
    if (error instanceof RequestsError) return another(error.message)
    throw error
  } finally {
    execution.close()
  }
}

function receiptsOf({ store }: Verifying, hash: Bytes) {
  try {
    return store.receipts(hash)?.map((raw) => ({ raw, decoded: decodeStoredReceipt(raw) }))
  } catch {
    return undefined
  }
}

/** Checks that reads of the state after the block return its changes. */
function checkAfter(
  { database, store, findings }: Verifying,
  number: number,
  rows: readonly DiffRow[],
): void {
  for (const { key, after } of rows) {
    const { value, isHistory } = valueAt(store, key, number)
    if (value === 'missing' || isSame(value, after)) continue
    const { flat, history } = columnsOf(key)
    const location = isHistory
      ? { where: history, key: nextChange(database, key, number) ?? key, block: number }
      : { where: flat, key, block: number }
    findings.add(
      location,
      `says ${textOf(value)} of ${bytesToHex(key)} after block ${number}, which left ${textOf(after)}`,
    )
  }
}

function nextChange(database: Verifying['database'], key: Bytes, number: number) {
  const range = { gte: withNumber(key, number + 1), lt: withNumber(key, Number.MAX_SAFE_INTEGER) }
  return database.range(columnsOf(key).history, { ...range, limit: 1 })[0]?.key
}

function checkDiff(
  { store, findings }: Verifying,
  { number, hash }: StoredHead,
  rows: readonly DiffRow[],
): void {
  const location = { where: 'diffs', key: hash, block: number } as const
  try {
    const stored = store.encodedDiff(hash)
    if (stored === undefined) return
    const left = new Map([...rowsOf(stored)].map((row) => [latin1(row.key), row]))
    for (const { key, before, after } of rows) {
      const name = latin1(key)
      const row = left.get(name)
      left.delete(name)
      // The values before come from the history, whose row may be the damaged one.
      const isBefore = row !== undefined && (isSame(row.before, before) || findings.stateCount > 0)
      if (isBefore && isSame(row.after, after)) continue
      findings.add(location, `says another thing of ${bytesToHex(key)} than its execution gives`)
      return
    }
    const [more] = left.values()
    if (more !== undefined)
      findings.add(location, `changes ${bytesToHex(more.key)}, which its execution does not`)
  } catch (error) {
    findings.add(location, (error as Error).message)
  }
}

const isSame = (a: Bytes | undefined, b: Bytes | undefined): boolean =>
  a === undefined || b === undefined ? a === b : equalBytes(a, b)
const textOf = (value: Bytes | undefined): string =>
  value === undefined ? 'nothing' : bytesToHex(value)
