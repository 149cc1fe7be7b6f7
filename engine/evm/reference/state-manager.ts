/** The state manager and the journal of @ethereumjs/evm, over a JournaledState. */
import type { AccountFields, StateManagerInterface } from '@ethereumjs/common'
import type { EVM } from '@ethereumjs/evm'
import { Account, type Address } from '@ethereumjs/util'
import type { Bytes } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import { EMPTY_ROOT } from '../../primitives/keccak.ts'
import type { Entry } from '../journal/entries.ts'
import type { JournaledState } from '../journal/journaled-state.ts'

export type EvmJournal = EVM['journal']

/** Returns copies of accounts, because the EVM writes to them. */
export class ReferenceStateManager implements StateManagerInterface {
  readonly #state: JournaledState
  readonly originalStorageCache: StateManagerInterface['originalStorageCache']

  constructor(state: JournaledState) {
    this.#state = state
    this.originalStorageCache = {
      get: async (address, key) => {
        const slot = state.slot(state.entry(address.bytes), key)
        return state.original(slot)
      },
      clear() {},
    }
  }

  async getAccount(address: Address): Promise<Account | undefined> {
    const entry = this.#state.entry(address.bytes)
    return entry.isThere ? new EntryAccount(entry, this.#state) : undefined
  }
  async putAccount(address: Address, account?: Account): Promise<void> {
    if (account === undefined) return this.deleteAccount(address)
    this.#state.setAccount(this.#state.entry(address.bytes), account.nonce, account.balance)
  }
  async deleteAccount(address: Address): Promise<void> {
    this.#state.destroy(this.#state.entry(address.bytes))
  }
  async modifyAccountFields(address: Address, fields: AccountFields): Promise<void> {
    const entry = this.#state.entry(address.bytes)
    this.#state.setAccount(entry, fields.nonce ?? entry.nonce, fields.balance ?? entry.balance)
  }
  async putCode(address: Address, code: Bytes): Promise<void> {
    this.#state.setCode(this.#state.entry(address.bytes), code)
  }
  async getCode(address: Address): Promise<Bytes> {
    return this.#state.code(this.#state.entry(address.bytes))
  }
  async getCodeSize(address: Address): Promise<number> {
    return this.#state.code(this.#state.entry(address.bytes)).length
  }
  async getStorage(address: Address, key: Bytes): Promise<Bytes> {
    return this.#state.slot(this.#state.entry(address.bytes), key).value
  }
  async putStorage(address: Address, key: Bytes, value: Bytes): Promise<void> {
    const entry = this.#state.entry(address.bytes)
    const word = new Uint8Array(32)
    word.set(value, 32 - value.length)
    this.#state.setSlot(entry, this.#state.slot(entry, key), word)
  }
  /**
   * Called at a creation. An account with storage is a collision already, so there is nothing to
   * clear.
   */
  async clearStorage(): Promise<void> {}

  // The EVM takes checkpoints only through its journal. Roots, copies and caches belong to the
  // package's block layer, which is not used.
  async checkpoint(): Promise<void> {
    throw notOurs('checkpoint')
  }
  async commit(): Promise<void> {
    throw notOurs('commit')
  }
  async revert(): Promise<void> {
    throw notOurs('revert')
  }
  async getStateRoot(): Promise<Bytes> {
    throw notOurs('getStateRoot')
  }
  async setStateRoot(): Promise<void> {
    throw notOurs('setStateRoot')
  }
  async hasStateRoot(): Promise<boolean> {
    throw notOurs('hasStateRoot')
  }
  clearCaches(): void {
    throw notOurs('clearCaches')
  }
  shallowCopy(): StateManagerInterface {
    throw notOurs('shallowCopy')
  }
}

const notOurs = (name: string) => new Error(`the EVM is not meant to call ${name}`)

/** Reads whether storage is empty only on demand, at the creation of a contract (EIP-7610). */
class EntryAccount extends Account {
  readonly #entry: Entry
  readonly #state: JournaledState

  constructor(entry: Entry, state: JournaledState) {
    super(entry.nonce, entry.balance, EMPTY_ROOT, entry.codeHash)
    this.#entry = entry
    this.#state = state
  }
  override get storageRoot(): Bytes {
    return this.#state.hasStorage(this.#entry) ? SOME_ROOT : EMPTY_ROOT
  }
}

const SOME_ROOT: Bytes = new Uint8Array(32).fill(1)

/**
 * Stores checkpoints of nested calls as positions of the undo log; also tracks warm addresses and
 * slots.
 */
export function referenceJournal(state: JournaledState): EvmJournal {
  const checkpoints: number[] = []
  const journal = {
    accessList: undefined,
    preimages: undefined,
    async putAccount(address: Address, account: Account | undefined) {
      const entry = state.entry(address.bytes)
      if (account === undefined) state.destroy(entry)
      else state.setAccount(entry, account.nonce, account.balance)
    },
    async deleteAccount(address: Address) {
      state.destroy(state.entry(address.bytes))
    },
    async checkpoint() {
      checkpoints.push(state.checkpoint())
    },
    async commit() {
      checkpoints.pop()
    },
    async revert() {
      state.revert(checkpoints.pop()!)
    },
    cleanJournal() {
      checkpoints.length = 0
    },
    isWarmedAddress: (address: Bytes) => state.isWarm(address),
    addWarmedAddress(address: Bytes) {
      state.warm(address)
    },
    isWarmedStorage: (address: Bytes, key: Bytes) => state.isWarmSlot(address, key),
    addWarmedStorage: (address: Bytes, key: Bytes) => state.warmSlot(address, key),
    addAlwaysWarmAddress(address: string) {
      state.warm(hexToBytes(address))
    },
  }
  // The package's class has private fields that no other code reads.
  return journal as unknown as EvmJournal
}
