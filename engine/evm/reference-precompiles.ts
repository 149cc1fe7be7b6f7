/** Precompiled contracts of a rule set: the fork's own, with the gas and the input limits of OP forks (execution.md 3.8). */
import { Common, Mainnet } from '@ethereumjs/common'
import { EVMError, getActivePrecompiles, type PrecompileFunc } from '@ethereumjs/evm'
import type { EvmRules } from '../chainspec/types.ts'

/** Address in hex without 0x → contract. */
export function precompiledContracts(common: Common, rules: EvmRules): Map<string, PrecompileFunc> {
  const contracts = getActivePrecompiles(common)
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
      : {
          returnValue: new Uint8Array(0),
          executionGasUsed: input.gasLimit,
          exceptionError: new EVMError(EVMError.errorMessages.INVALID_INPUT_LENGTH),
        }
