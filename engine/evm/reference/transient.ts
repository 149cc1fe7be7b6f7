/**
 * Transient storage (EIP-1153) of the reference engine, in a third of the package's memory. The
 * package stores a byte array and a hex text for each slot and each change. That is 430 bytes for
 * 100 gas, so that a call within its gas used 290 MB (2026-11).
 */
import type { Address } from '@ethereumjs/util'
import type { Bytes } from '../../primitives/bytes.ts'
import { fromLatin1, latin1 } from '../../state/words.ts'

/**
 * Keys of 32 bytes and values of up to 32 bytes, as Latin-1 texts. A zero slot can be present as
 * ''.
 */
type Slots = Map<string, string>

/** Implements the methods of the package's class that its interpreter calls. */
export class Transient {
  readonly #contracts = new Map<string, Slots>()
  /**
   * Contract, slot and previous value of each change. Three lists, because an object for each
   * change doubles the memory.
   */
  readonly #changed: Slots[] = []
  readonly #keys: string[] = []
  readonly #before: string[] = []
  /** Number of changes at the start of each open frame. */
  readonly #frames: number[] = []

  /** The value without leading zeros. */
  get(address: Address, key: Bytes): Bytes {
    return fromLatin1(this.#contracts.get(latin1(address.bytes))?.get(latin1(key)) ?? '')
  }

  put(address: Address, key: Bytes, value: Bytes): void {
    const contract = latin1(address.bytes)
    let slots = this.#contracts.get(contract)
    if (slots === undefined) {
      slots = new Map()
      this.#contracts.set(contract, slots)
    }
    const name = latin1(key)
    this.#changed.push(slots)
    this.#keys.push(name)
    this.#before.push(slots.get(name) ?? '')
    slots.set(name, latin1(value))
  }

  checkpoint(): void {
    this.#frames.push(this.#keys.length)
  }
  commit(): void {
    this.#frames.pop()
  }
  revert(): void {
    const from = this.#frames.pop() ?? 0
    for (let at = this.#keys.length - 1; at >= from; at--)
      this.#changed[at]!.set(this.#keys[at]!, this.#before[at]!)
    this.#forget(from)
  }

  /** Resets everything for the next transaction. */
  clear(): void {
    this.#contracts.clear()
    this.#frames.length = 0
    this.#forget(0)
  }

  #forget(from: number): void {
    this.#changed.length = from
    this.#keys.length = from
    this.#before.length = from
  }
}
