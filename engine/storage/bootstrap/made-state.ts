/**
 * Makes the state of the start from rows that were read while the state moved on. Changes of later
 * blocks are taken back, and the tries are built. The chain is committed only if their root is that
 * of the header.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { concatBytes, equalBytes } from '../../primitives/words.ts'
import { decodeAccount } from '../../state/account-codec.ts'
import { rowsOf } from '../../state/encoded-diff.ts'
import { encodeHead, encodeNumber } from '../blocks/block-codec.ts'
import { columnsOf } from '../blocks/persist.ts'
import { openStateTries, ROWS_IN_BATCH } from '../blocks/state-tries.ts'
import { openLogLength } from '../database/log-length.ts'
import { META } from '../database/meta.ts'
import type { Database, Entry } from '../database/types.ts'
import type { StoredHead } from '../types.ts'
import { BootstrapError, clearRanges, type Progress, putProgress } from './progress.ts'

/** The rows are not the state of the block. */
export class StateRootError extends Error {
  override name = 'StateRootError'
}

export type MakingStep = { readonly done: number }

/**
 * Makes the state; after a kill it restarts from the first row.
 * @param sorter an empty database of its own
 * @throws {StateRootError} {BootstrapError}
 */
export function* makeState(
  inner: Database,
  sorter: Database,
  progress: Progress,
): Generator<MakingStep, Progress> {
  const log = openLogLength(inner)
  const { database } = log
  const { start } = progress
  yield* takeBack(database, progress)
  for (const column of ['accountTrie', 'storageTrie'] as const) database.clear(column)
  const batch = database.batch()
  const tries = openStateTries(batch, sorter)
  const commit = () => {
    batch.commit()
    for (const _ of log.shorten());
  }
  let done = 0
  for (const { account, slots } of accountsOf(database)) {
    tries.add(account.key, decodeAccount(account.value), slots)
    if (++done % STEP === 0) yield { done }
    if (batch.length >= ROWS_IN_BATCH) commit()
  }
  commit()
  const { root, accounts } = yield* withSteps(tries.finish(commit), done)
  const header = database.get('headers', start.hash)
  if (header === undefined)
    throw new BootstrapError(`the header of block ${start.number} is not here`)
  const { stateRoot } = decodeHeader(header)
  if (!equalBytes(root, stateRoot))
    throw new StateRootError(
      `${accounts} accounts have the state root ${bytesToHex(root)}, block ${start.number} says ${bytesToHex(stateRoot)}`,
    )
  const made = { ...progress, isMade: true }
  batch.put('meta', META.durableHead, encodeHead(start))
  batch.put('meta', META.persistedHead, encodeHead(start))
  batch.put('meta', META.oldest, encodeNumber(Math.min(progress.oldest, start.number)))
  batch.put(
    'meta',
    META.labelledHeads,
    concatBytes(encodeNumber(progress.first), encodeNumber(progress.first)),
  )
  batch.delete('meta', META.importing)
  clearRanges(database, batch)
  putProgress(batch, made)
  batch.commit({ isSynced: true })
  return made
}
const STEP = 1_024

function* withSteps<T>(
  steps: Generator<{ readonly accounts: number }, T>,
  before: number,
): Generator<MakingStep, T> {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
    yield { done: before + step.value.accounts }
  }
}

/**
 * The blocks above the start, newest first.
 * @throws {BootstrapError}
 */
export function* blocksAbove(
  database: Pick<Database, 'get'>,
  { start, tip }: Pick<Progress, 'start' | 'tip'>,
): Generator<StoredHead, void> {
  for (let at = tip; at.number > start.number; ) {
    yield at
    const header = database.get('headers', at.hash)
    if (header === undefined)
      throw new BootstrapError(`the header of block ${at.number} is not here`)
    at = { number: at.number - 1, hash: decodeHeader(header).parentHash.slice() }
  }
}

/**
 * Takes back the changes of the blocks above the start. The newest block comes first, so that the
 * oldest block's previous values are written last.
 */
function* takeBack(database: Database, progress: Progress): Generator<MakingStep, void> {
  const batch = database.batch()
  for (const { number, hash } of blocksAbove(database, progress)) {
    const diff = database.get('diffs', hash)
    if (diff === undefined) throw new BootstrapError(`what block ${number} changed is not here`)
    for (const { key, before } of rowsOf(diff)) {
      const { flat } = columnsOf(key)
      if (before === undefined) batch.delete(flat, key)
      else batch.put(flat, key, before)
    }
    batch.commit()
    yield { done: 0 }
  }
}

type Owned = {
  readonly account: Entry
  readonly slots: readonly { readonly key: Bytes; readonly value: Bytes }[]
}

/**
 * Accounts with their slots; both columns are sorted by address.
 * @throws {StateRootError} for slots without an account
 */
function* accountsOf(database: Database): Generator<Owned, void> {
  const slots = database.scan('slots', { ...ALL, isOnce: true })
  let slot = slots.next()
  for (const account of database.scan('accounts', { ...ALL, isOnce: true })) {
    const own: { key: Bytes; value: Bytes }[] = []
    for (; slot.done !== true; slot = slots.next()) {
      const order = Buffer.compare(slot.value.key.subarray(0, 20), account.key)
      if (order > 0) break
      if (order < 0) throw strayOf(slot.value)
      own.push({ key: slot.value.key.slice(20), value: slot.value.value })
    }
    yield { account, slots: own }
  }
  if (slot.done !== true) throw strayOf(slot.value)
}

const strayOf = ({ key }: Entry) =>
  new StateRootError(`slots of ${bytesToHex(key.subarray(0, 20))} are here, the account is not`)
const ALL = { gte: NO_BYTES, lt: new Uint8Array(80).fill(0xff) }
