/** Precompiled contracts of a rule set: the fork's own, with the gas and the input limits of OP forks (execution.md 3.8). */
import { Common, Mainnet } from '@ethereumjs/common'
import { EVMError, getActivePrecompiles, type PrecompileFunc } from '@ethereumjs/evm'
import type { EvmRules } from '../chainspec/types.ts'
import { recoverAddress } from '../primitives/signature.ts'
import { bytesToBigint } from '../primitives/words.ts'

/** Address in hex without 0x → contract. */
export function precompiledContracts(common: Common, rules: EvmRules): Map<string, PrecompileFunc> {
  const contracts = getActivePrecompiles(common)
  contracts.set(ECRECOVER, ecrecover)
  if (rules.precompiles === 'ethereum') return contracts
  // Fjord brought P256VERIFY before Ethereum did, at half of its gas.
  contracts.set(P256VERIFY, cheaperBy(3450n, p256verify()))
  for (const [address, maxBytes] of Object.entries(INPUT_LIMITS[rules.precompiles])) {
    const contract = contracts.get(address)
    if (contract !== undefined) contracts.set(address, limited(maxBytes, contract))
  }
  return contracts
}

const at = (low: string) => low.padStart(40, '0')
const P256VERIFY = at('100')
const ECRECOVER = at('1')
const PAIRING = at('8')

/** Bytes; longer input takes all gas. */
const INPUT_LIMITS: Record<Exclude<EvmRules['precompiles'], 'ethereum'>, Record<string, number>> = {
  fjord: {},
  granite: { [PAIRING]: 112_687 },
  isthmus: {
    [PAIRING]: 112_687,
    [at('c')]: 513_760,
    [at('e')]: 488_448,
    [at('f')]: 235_008,
  },
  jovian: {
    [PAIRING]: 81_984,
    [at('c')]: 288_960,
    [at('e')]: 278_784,
    [at('f')]: 156_672,
  },
}

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

function p256verify(): PrecompileFunc {
  const osaka = getActivePrecompiles(new Common({ chain: Mainnet, hardfork: 'osaka' }))
  return osaka.get(P256VERIFY)!
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
