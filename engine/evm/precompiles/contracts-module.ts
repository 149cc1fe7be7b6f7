/** Our own WebAssembly for contracts that compute long (sources: engine/evm/fast/asm/contracts.ts). */
import { readFileSync } from 'node:fs'
import { lazily } from './contract.ts'

/** What contracts.wasm exports. */
type Exports = {
  readonly memory: WebAssembly.Memory
  blake2fInput(): number
  blake2fOutput(): number
  blake2fBegin(): void
  /** `first` below 10. */
  blake2fRounds(first: number, count: number): void
  blake2fEnd(): void
  /** Base and modulus in 32 bytes each go there, then parts of the exponent; the result comes from there. */
  powerBuffer(): number
  powerBegin(): void
  powerStep(bytes: number): void
  powerEnd(): void
}

/** Made when the first contract asks. */
export const contractsModule = lazily(() => {
  const bytes = readFileSync(new URL('contracts.wasm', import.meta.url))
  const module = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports as Exports
  // It never grows.
  return { module, memory: new Uint8Array(module.memory.buffer) }
})
