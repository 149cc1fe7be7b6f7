/**
 * BLAKE2F: the compression function of BLAKE2b with a given number of rounds (EIP-152), in our
 * WebAssembly.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { type Contract, Fault } from './contract.ts'
import { contractsModule } from './contracts-module.ts'

/**
 * A round costs 1 gas. Input of a wrong length costs nothing by itself, but fails and takes all gas
 * of the call.
 */
export const blake2f: Contract = {
  gas: (input) => (input.length === INPUT_BYTES ? BigInt(roundsOf(input)) : 0n),
  run(input, poll) {
    if (input.length !== INPUT_BYTES) throw new Fault('invalid input length')
    if (input[INPUT_BYTES - 1]! > 1) throw new Fault('invalid final flag')
    const { module, memory } = contractsModule()
    memory.set(input, module.blake2fInput())
    module.blake2fBegin()
    const rounds = roundsOf(input)
    for (let round = 0; round < rounds; round += ROUNDS_PER_POLL) {
      if (round > 0) poll()
      module.blake2fRounds(round % 10, Math.min(rounds - round, ROUNDS_PER_POLL))
    }
    module.blake2fEnd()
    const output = module.blake2fOutput()
    return memory.slice(output, output + 64)
  },
}

/** Rounds, state, message, offset and the flag of the final block. */
const INPUT_BYTES = 4 + 64 + 128 + 16 + 1
/** 10,000 rounds take less than a millisecond. */
const ROUNDS_PER_POLL = 10_000

const roundsOf = (input: Bytes): number =>
  new DataView(input.buffer, input.byteOffset, input.byteLength).getUint32(0)
