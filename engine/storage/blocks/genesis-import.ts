import type { ChainSpec } from '../../chainspec/types.ts'
import { bytesToHex, hexToBytes } from '../../primitives/hex.ts'
import { EMPTY_HASH, keccak256 } from '../../primitives/keccak.ts'
import { equalBytes, ZERO_32 } from '../../primitives/words.ts'
import { encodeAccount } from '../../state/account-codec.ts'
import type { AccountChange } from '../../state/diff.ts'
import { META } from '../database/meta.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import { openTrie } from '../trie/trie.ts'
import { putFirstBlock } from './append.ts'
import { slotKey } from './block-codec.ts'
import { isStateImportCut } from './state-import.ts'

/**
 * Writes a genesis into an empty database in one batch: flat state, code, trie and the first block.
 * @returns false if the database has a chain already; the caller has checked the directory
 * @throws {GenesisError} when the allocation is unknown or its root is not the header's
 */
export function importGenesis(database: Database, chain: ChainSpec): boolean {
  if (database.get('meta', META.persistedHead) !== undefined) return false
  if (isStateImportCut(database))
    throw new GenesisError(
      'an account dump was being loaded into this directory when it was cut off: run the same import-state again',
    )
  if (chain.alloc === undefined)
    throw new GenesisError(
      `the genesis allocation of ${chain.name} is not part of this program: give --chain a genesis.json`,
    )
  const changes = [...chain.alloc].map(([address, account]) => changeOf(address, account))
  const batch = database.batch()
  const trie = openTrie({ database })
  const version = trie.fork(trie.base())
  trie.apply(version, changes)
  const root = trie.stateRoot(version)
  if (!equalBytes(root, chain.genesisHeader.stateRoot))
    throw new GenesisError(
      `genesis of ${chain.name}: the allocation has the state root ${bytesToHex(root)}, the header says ${bytesToHex(chain.genesisHeader.stateRoot)}`,
    )
  for (const { column, key, value } of lastOf(trie.writes(version))) batch.put(column, key, value!)
  for (const change of changes) putFlat(batch, change)
  putFirstBlock(batch, chain.genesisHeader, { isEmpty: true })
  batch.commit({ isSynced: true })
  return true
}

function lastOf<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

type GenesisAccounts = NonNullable<ChainSpec['alloc']>
type GenesisAccount = GenesisAccounts extends ReadonlyMap<string, infer Account> ? Account : never

function changeOf(address: string, account: GenesisAccount): AccountChange {
  const { nonce = 0n, balance, code, storage = [] } = account
  const hasCode = code !== undefined && code.length > 0
  const codeHash = hasCode ? keccak256(code) : EMPTY_HASH
  return {
    address: hexToBytes(address),
    before: undefined,
    after: { nonce, balance, codeHash },
    slots: storage.map(({ key, value }) => ({ key, before: ZERO_32, after: value })),
    code: hasCode ? code : undefined,
  }
}

function putFlat(batch: WriteBatch, { address, after, slots, code }: AccountChange): void {
  batch.put('accounts', address, encodeAccount(after!))
  if (code !== undefined) batch.put('code', after!.codeHash, code)
  for (const slot of slots)
    if (!equalBytes(slot.after, ZERO_32)) batch.put('slots', slotKey(address, slot.key), slot.after)
}

export class GenesisError extends Error {
  override name = 'GenesisError'
}
