/**
 * The precompiled contracts of a rule set, in one table for every engine. Gas and input limits
 * follow the OP forks (specs.optimism.io: Fjord, Granite, Isthmus and Jovian, EVM changes).
 */
import { contractsOf } from '../../chainspec/forks.ts'
import type { EvmRules } from '../../chainspec/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { blake2f } from './blake2f.ts'
import { BLS12 } from './bls12.ts'
import { bn254 } from './bn254.ts'
import { type Contract, Fault, type Poll } from './contract.ts'
import { ecrecover, identity, ripemd160, sha256 } from './hashes.ts'
import { modexp } from './modexp.ts'
import { p256Verify } from './p256.ts'
import { pointEvaluation } from './point-evaluation.ts'

export type PrecompileResult =
  | { readonly output: Bytes; readonly gasUsed: bigint }
  /** A failed call in go-ethereum's words; it uses up all gas. */
  | { readonly error: string }

/**
 * Runs a contract synchronously.
 * @param gas gas that the call has
 * @param poll called before and after, and during work of more than some milliseconds; its error is
 * passed on
 */
export type Precompile = (input: Bytes, gas: bigint, poll: Poll) => PrecompileResult

/** Builds the table, with the address as a number for its key. */
export function precompilesOf(rules: EvmRules): ReadonlyMap<number, Precompile> {
  const changes = rules.precompiles
  const table = new Map<number, Precompile>()
  for (const [address, contract] of contractsOfFork(rules))
    table.set(address, precompile(limited(contract, changes?.maxInputBytes[address])))
  return table
}

function contractsOfFork({ spec, precompiles }: EvmRules): Map<number, Contract> {
  const fork = contractsOf(spec)
  const table = new Map([
    [1, ecrecover],
    [2, sha256],
    [3, ripemd160],
    [4, identity],
  ])
  if (fork.modexp !== 'none') table.set(5, modexp(fork.modexp))
  if (fork.bn254 !== 'none')
    for (const [at, contract] of bn254(fork.bn254 === 'cheap').entries())
      table.set(6 + at, contract)
  if (fork.hasBlake2f) table.set(9, blake2f)
  if (fork.hasPointEvaluation) table.set(10, pointEvaluation)
  if (fork.hasBls12) for (const [at, contract] of BLS12.entries()) table.set(11 + at, contract)
  const p256Gas = precompiles?.p256VerifyGas ?? (fork.hasP256Verify ? ETHEREUM_P256_GAS : undefined)
  if (p256Gas !== undefined) table.set(P256VERIFY, p256Verify(p256Gas))
  return table
}

const P256VERIFY = 0x100
/** Price of EIP-7951. */
const ETHEREUM_P256_GAS = 6900n

function precompile({ gas, run }: Contract): Precompile {
  return (input, available, poll) => {
    const gasUsed = gas(input)
    if (available < gasUsed) return { error: 'out of gas' }
    // A single call can last longer than a thousand other steps.
    poll()
    try {
      const output = run(input, poll)
      poll()
      return { output, gasUsed }
    } catch (error) {
      if (error instanceof Fault) return { error: error.message }
      throw error
    }
  }
}

function limited(contract: Contract, maxBytes: number | undefined): Contract {
  if (maxBytes === undefined) return contract
  const { gas, run, tooLong = 'invalid input length' } = contract
  return {
    gas,
    run(input, poll) {
      if (input.length > maxBytes) throw new Fault(tooLong)
      return run(input, poll)
    },
  }
}
