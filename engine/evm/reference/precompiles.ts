/** Precompiled contracts of a rule set: the EVM fork's own, with the gas and the input limits that an OP fork gives them (specs.optimism.io: Fjord, Granite, Isthmus and Jovian, EVM changes). */
import { Common, Mainnet } from '@ethereumjs/common'
import { EVMError, getActivePrecompiles, type PrecompileFunc } from '@ethereumjs/evm'
import type { EvmRules } from '../../chainspec/types.ts'
import { recoverAddress } from '../../primitives/signature.ts'
import { bigintToBytes, bytesToBigint } from '../../primitives/words.ts'
import { blake2f } from '../precompiles/blake2f.ts'
import { modexp } from '../precompiles/modexp.ts'
import type { Meter } from './meter.ts'

type Input = Parameters<PrecompileFunc>[0]

/** Address in hex without 0x → contract. */
export function precompiledContracts(common: Common, rules: EvmRules): Map<string, PrecompileFunc> {
  const contracts = contractsOf(common, rules)
  for (const [address, contract] of contracts) contracts.set(address, polled(contract))
  return contracts
}

function contractsOf(common: Common, rules: EvmRules): Map<string, PrecompileFunc> {
  const contracts = getActivePrecompiles(common)
  contracts.set(ECRECOVER, ecrecover)
  const [gasOfModexp, gasOfBlake] = [contracts.get(MODEXP), contracts.get(BLAKE2F)]
  if (gasOfModexp !== undefined) contracts.set(MODEXP, modexpContract(gasOfModexp))
  if (gasOfBlake !== undefined) contracts.set(BLAKE2F, blake2fContract)
  if (rules.precompiles === undefined) return contracts
  const { p256VerifyGas, maxInputBytes } = rules.precompiles
  contracts.set(P256VERIFY, cheaperBy(ETHEREUM_P256_GAS - p256VerifyGas, p256verify()))
  for (const [low, maxBytes] of Object.entries(maxInputBytes)) {
    const address = at(Number(low).toString(16))
    const contract = contracts.get(address)
    if (contract !== undefined) contracts.set(address, limited(maxBytes, contract))
  }
  return contracts
}

const at = (low: string) => low.padStart(40, '0')
const P256VERIFY = at('100')
const ECRECOVER = at('1')
const MODEXP = at('5')
const BLAKE2F = at('9')
/** EIP-7951. */
const ETHEREUM_P256_GAS = 6900n

/** The package's own takes a millisecond in JavaScript, twenty times ours. */
const ecrecover: PrecompileFunc = ({ data, gasLimit, common }) => {
  const gas = common.param('ecRecoverGas')
  if (gasLimit < gas) return failure(gasLimit, EVMError.errorMessages.OUT_OF_GAS)
  const input = new Uint8Array(128)
  input.set(data.subarray(0, 128))
  const [v, r, s] = [32, 64, 96].map((from) => bytesToBigint(input.subarray(from, from + 32)))
  const address =
    v === 27n || v === 28n
      ? recoverAddress(input.subarray(0, 32), r!, s!, v === 27n ? 0 : 1)
      : undefined
  const returnValue = new Uint8Array(address === undefined ? 0 : 32)
  if (address !== undefined) returnValue.set(address, 12)
  return { returnValue, executionGasUsed: gas }
}

/** One call can last longer than a thousand other steps: the deadline is looked at before and after. */
const polled =
  (contract: PrecompileFunc): PrecompileFunc =>
  (input) => {
    const { poll } = meterOf(input)
    poll()
    const result = contract(input)
    if (result instanceof Promise)
      return result.then((later) => {
        poll()
        return later
      })
    poll()
    return result
  }
/** The EVM that they are called by is the metered one. */
const meterOf = ({ _EVM }: Input): Meter => (_EVM as unknown as { readonly meter: Meter }).meter

/**
 * The package's own shifts the exponent as one number: a megabyte of it, 2.7 M gas, took minutes (2026-11). It still says what a call
 * costs and refuses: that depends on the lengths and the exponent's head, and without the modulus nothing is computed.
 */
const modexpContract =
  (contract: PrecompileFunc): PrecompileFunc =>
  async (input) => {
    const data = new Uint8Array(Math.max(96, input.data.length))
    data.set(input.data)
    const lengths = [0, 32, 64].map((from) => bytesToBigint(data.subarray(from, from + 32)))
    const modulusAt = 96n + lengths[0]! + lengths[1]!
    const head = data.subarray(0, modulusAt < data.length ? Number(modulusAt) : data.length)
    const charged = await contract({ ...input, data: head })
    const { returnValue } = charged
    // What a caller can pay for has lengths that numbers can hold.
    const [baseBytes, exponentBytes] = lengths.map(Number)
    const part = (from: number, length: number) => {
      const bytes = new Uint8Array(length)
      bytes.set(data.subarray(from, from + length))
      return bytes
    }
    if (charged.exceptionError !== undefined || returnValue.length === 0) return charged
    const modulus = bytesToBigint(part(Number(modulusAt), returnValue.length))
    if (modulus === 0n) return charged
    const result = modexp(
      bytesToBigint(part(96, baseBytes!)),
      part(96 + baseBytes!, exponentBytes!),
      modulus,
      meterOf(input).poll,
    )
    return { ...charged, returnValue: bigintToBytes(result, returnValue.length) }
  }

/** EIP-152. The package's own cannot be interrupted, and 20 M rounds took it ten seconds (2026-11). */
const blake2fContract: PrecompileFunc = (input) => {
  const { data, gasLimit, common } = input
  const last = data[212]
  if (data.length !== 213 || (last !== 0 && last !== 1))
    return failure(gasLimit, EVMError.errorMessages.OUT_OF_RANGE)
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  const rounds = view.getUint32(0)
  const gas = common.param('blake2RoundGas') * BigInt(rounds)
  if (gasLimit < gas) return failure(gasLimit, EVMError.errorMessages.OUT_OF_GAS)
  const words = (from: number, count: number) =>
    Uint32Array.from({ length: count }, (_, at) => view.getUint32(from + 4 * at, true))
  const state = words(4, 16)
  const parts = { message: words(68, 32), offset: words(196, 4), isFinal: last === 1 }
  blake2f({ rounds, state, ...parts }, meterOf(input).poll)
  const returnValue = new Uint8Array(64)
  const out = new DataView(returnValue.buffer)
  for (const [at, word] of state.entries()) out.setUint32(4 * at, word, true)
  return { returnValue, executionGasUsed: gas }
}

function p256verify(): PrecompileFunc {
  return getActivePrecompiles(new Common({ chain: Mainnet, eips: [7951] })).get(P256VERIFY)!
}

const cheaperBy =
  (gas: bigint, contract: PrecompileFunc): PrecompileFunc =>
  async (input) => {
    const result = await contract({ ...input, gasLimit: input.gasLimit + gas })
    return { ...result, executionGasUsed: result.executionGasUsed - gas }
  }

const limited =
  (maxBytes: number, contract: PrecompileFunc): PrecompileFunc =>
  (input) =>
    input.data.length <= maxBytes
      ? contract(input)
      : failure(input.gasLimit, EVMError.errorMessages.INVALID_INPUT_LENGTH)

const failure = (gas: bigint, error: EVMError['error']) => ({
  returnValue: new Uint8Array(0),
  executionGasUsed: gas,
  exceptionError: new EVMError(error),
})
