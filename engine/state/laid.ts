/** Changes over a state, one piece after the other: the values before each, and the state after all. */
import type { Bytes } from '../primitives/bytes.ts'
import { ZERO_32 } from '../primitives/words.ts'
import { MissingKeys } from './collecting.ts'
import type { AccountChange, AccountState, SlotChange, StateDiff } from './diff.ts'
import { mergeDiffs } from './diff-codec.ts'
import { overlayReader } from './overlay.ts'
import { readAccount, readSlot } from './read.ts'
import { MissingError, type StateReader } from './reader.ts'
import { latin1 } from './words.ts'

type Known = {
  readonly account: { readonly before: AccountState | undefined; now: AccountState | undefined }
  readonly slots: Map<string, { readonly before: Bytes; now: Bytes }>
}

export class LaidState {
  readonly #under: StateReader
  readonly #most: number
  readonly #pieces: StateDiff[] = []
  readonly #known = new Map<string, Known>()

  /** @param most keys that one question for what is missing may have */
  constructor(under: StateReader, most: number) {
    this.#under = under
    this.#most = most
  }

  get pieces(): number {
    return this.#pieces.length
  }

  /**
   * The same changes with the values that the state below all pieces has, whatever their own `before` says.
   * @throws {MissingError} naming all that is missing {ViewError}
   */
  rebased(changes: StateDiff): StateDiff {
    const missing = new MissingKeys(this.#most)
    const whole = changes.map((change) => ({
      ...change,
      before: this.#read(missing, () => this.#accountBefore(change.address)),
      slots: change.slots.map(({ key, after }) => ({
        ...{ key, after },
        before:
          this.#slot(change.address, key)?.before ??
          this.#read(missing, () => readSlot(this.#under, change.address, key)) ??
          ZERO_32,
      })),
    }))
    const [first, ...others] = missing.list()
    if (first !== undefined) throw new MissingError(first, ...others)
    return whole
  }

  /** `piece`: its `before` are those of the state below all of them. */
  lay(piece: StateDiff): void {
    this.#pieces.push(piece)
    for (const change of piece) this.#note(change)
  }

  /** Forgets the newest, down to so many. */
  cut(pieces: number): void {
    if (pieces === this.#pieces.length) return
    this.#pieces.length = pieces
    this.#known.clear()
    for (const piece of this.#pieces) for (const change of piece) this.#note(change)
  }

  /** What `account` gives for each change, read no second time: `changes` are rebased. */
  accountsNow(changes: StateDiff): readonly (AccountState | undefined)[] {
    return changes.map(({ address, before }) => {
      const known = this.#known.get(latin1(address))
      return known === undefined ? before : known.account.now
    })
  }

  /** As of all pieces. @throws {MissingError} {ViewError} */
  account(address: Bytes): AccountState | undefined {
    const known = this.#known.get(latin1(address))
    return known === undefined ? readAccount(this.#under, address) : known.account.now
  }
  /** 32 bytes. @throws {MissingError} {ViewError} */
  slot(address: Bytes, key: Bytes): Bytes {
    return this.#slot(address, key)?.now ?? readSlot(this.#under, address, key)
  }

  /** What all pieces from the given one on change. From the first on, what ends as it began is no change. */
  diff(from = 0): StateDiff {
    const pieces = this.#pieces.slice(from)
    return pieces.length === 1 && from > 0 ? pieces[0]! : mergeDiffs(pieces, from > 0)
  }

  reader(): StateReader {
    return this.#pieces.length === 0 ? this.#under : overlayReader(this.diff(), this.#under)
  }

  #accountBefore(address: Bytes): AccountState | undefined {
    const known = this.#known.get(latin1(address))
    return known === undefined ? readAccount(this.#under, address) : known.account.before
  }

  #slot(address: Bytes, key: Bytes) {
    return this.#known.get(latin1(address))?.slots.get(latin1(key))
  }

  #read<T>(missing: MissingKeys, read: () => T): T | undefined {
    try {
      return read()
    } catch (error) {
      if (!(error instanceof MissingError)) throw error
      for (const key of error.missing) missing.note(key)
      return undefined
    }
  }

  #note({ address, before, after, slots }: AccountChange): void {
    const name = latin1(address)
    let known = this.#known.get(name)
    if (known === undefined) {
      known = { account: { before, now: after }, slots: new Map() }
      this.#known.set(name, known)
    } else known.account.now = after
    for (const slot of slots) this.#noteSlot(known, slot)
  }

  #noteSlot({ slots }: Known, { key, before, after }: SlotChange): void {
    const name = latin1(key)
    const slot = slots.get(name)
    if (slot === undefined) slots.set(name, { before, now: after })
    else slot.now = after
  }
}
