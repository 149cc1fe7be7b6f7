/** The table of precompiled contracts as @ethereumjs/evm calls them. */

import { EVMError, type PrecompileFunc } from '@ethereumjs/evm'
import type { EvmRules } from '../../chainspec/types.ts'
import { NO_BYTES } from '../../primitives/bytes.ts'
import { type Precompile, precompilesOf } from '../precompiles/table.ts'
import type { Meter } from './meter.ts'

/** Address in hex without 0x → contract. */
export function precompiledContracts(rules: EvmRules): Map<string, PrecompileFunc> {
  const contracts = [...precompilesOf(rules)].map(
    ([address, run]) => [address.toString(16).padStart(40, '0'), contractOf(run)] as const,
  )
  return new Map(contracts)
}

const contractOf =
  (run: Precompile): PrecompileFunc =>
  (call) => {
    const result = run(call.data, call.gasLimit, meterOf(call).poll)
    if ('output' in result) return { returnValue: result.output, executionGasUsed: result.gasUsed }
    return {
      returnValue: NO_BYTES,
      executionGasUsed: call.gasLimit,
      exceptionError: faultOf(result.error),
    }
  }

/** The package knows its own errors only; what it does with one does not depend on which. */
function faultOf(error: string): EVMError {
  const fault = new EVMError(EVMError.errorMessages.OUT_OF_GAS)
  return Object.assign(fault, { error })
}

/** The EVM that they are called by is the metered one. */
const meterOf = ({ _EVM }: Parameters<PrecompileFunc>[0]): Meter =>
  (_EVM as unknown as { readonly meter: Meter }).meter
