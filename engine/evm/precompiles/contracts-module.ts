/**
 * Our WebAssembly for contracts with long computations. Its sources are in
 * engine/evm/fast/asm/precompiles.
 */
import { readFileSync } from 'node:fs'
import { lazily } from './contract.ts'

/** Exports of contracts.wasm. */
type Exports = {
  readonly memory: WebAssembly.Memory
  blake2fInput(): number
  blake2fOutput(): number
  blake2fBegin(): void
  /** @param first index of the first round, below 10 */
  blake2fRounds(first: number, count: number): void
  blake2fEnd(): void
  /**
   * The buffer takes base and modulus of 32 bytes each, then parts of the exponent; the result
   * replaces them.
   */
  powerBuffer(): number
  powerBegin(): void
  powerStep(bytes: number): void
  powerEnd(): void
}

/** Instantiated at the first use. */
export const contractsModule = lazily(() => {
  const bytes = readFileSync(new URL('contracts.wasm', import.meta.url))
  const module = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports as Exports
  // The module's memory never grows, so the view stays valid.
  return { module, memory: new Uint8Array(module.memory.buffer) }
})
