/**
 * Imports an account dump as the state of a block into an empty database. Flat state, code and trie
 * are written account by account.
 */
import type { DumpedAccount } from '../../chainspec/state-dump.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { EMPTY_HASH, EMPTY_ROOT, keccak256 } from '../../primitives/keccak.ts'
import { equalBytes, ZERO_32 } from '../../primitives/words.ts'
import { encodeAccount } from '../../state/account-codec.ts'
import { latin1 } from '../../state/words.ts'
import { openLogLength } from '../database/log-length.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import { putFirstBlock } from './append.ts'
import { slotKey } from './block-codec.ts'
import { openStateTries, ROWS_IN_BATCH } from './state-tries.ts'

/** The dump contradicts its header, or the directory cannot take it. */
export class StateImportError extends Error {
  override name = 'StateImportError'
}

export type StateImport = {
  /** @throws {StateImportError} for an account that was added before */
  add(account: DumpedAccount): void
  /**
   * Makes the trie, then the block; until the last commit the database has no chain. Each `next` is
   * some thousand accounts.
   * @returns the hash of the block
   * @throws {StateImportError} for another root
   */
  finish(header: Header): Generator<{ readonly accounts: number }, Bytes>
}

/** Whether an import was interrupted, which makes the database useless. */
export const isStateImportCut = (database: Database): boolean =>
  database.get('meta', META.importing) !== undefined

/**
 * Opens an import.
 * @param sorter an empty database that sorts the accounts by hash; it is deleted afterwards
 */
export function openStateImport(inner: Database, sorter: Database): StateImport {
  const log = openLogLength(inner)
  const { database } = log
  if (database.get('meta', META.durableHead) !== undefined)
    throw new StateImportError('the directory holds a chain already: give --datadir another one')
  const batch = database.batch()
  const tries = openStateTries(batch, sorter)
  batch.put('meta', META.importing, new Uint8Array(1))
  batch.commit({ isSynced: true })
  /** Addresses of the batch that is not committed. */
  const fresh = new Set<string>()
  const commit = () => {
    batch.commit()
    fresh.clear()
    for (const _ of log.shorten());
  }

  return {
    add({ address, account }) {
      const name = latin1(address)
      if (fresh.has(name) || database.get('accounts', address) !== undefined)
        throw new StateImportError(`the account ${bytesToHex(address)} stands there twice`)
      fresh.add(name)
      const { nonce = 0n, balance, code, storage = [] } = account
      const codeHash = code === undefined ? EMPTY_HASH : keccak256(code)
      if (code !== undefined) batch.put('code', codeHash, code)
      batch.put('accounts', address, encodeAccount({ nonce, balance, codeHash }))
      const slots = storage.filter(({ value }) => !equalBytes(value, ZERO_32))
      for (const { key, value } of slots) batch.put('slots', slotKey(address, key), value)
      tries.add(address, { nonce, balance, codeHash }, slots)
      if (batch.length >= ROWS_IN_BATCH) commit()
    },

    *finish(header) {
      commit()
      const { root, accounts } = yield* tries.finish(commit)
      if (!equalBytes(root, header.stateRoot))
        throw new StateImportError(
          `${accounts} accounts have the state root ${bytesToHex(root)}, the header of block ${header.number} says ${bytesToHex(header.stateRoot)}`,
        )
      const hash = putFirstBlock(batch, header, {
        isEmpty: equalBytes(header.transactionsRoot, EMPTY_ROOT),
      })
      batch.delete('meta', META.importing)
      batch.commit({ isSynced: true })
      return hash
    },
  }
}
