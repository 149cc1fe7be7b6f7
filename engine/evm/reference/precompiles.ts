/** Adapts the table of precompiled contracts to @ethereumjs/evm. */

import { EVMError, type PrecompileFunc } from '@ethereumjs/evm'
import type { EvmRules } from '../../chainspec/types.ts'
import { NO_BYTES } from '../../primitives/bytes.ts'
import { type Precompile, precompilesOf } from '../precompiles/table.ts'
import type { Meter } from './meter.ts'

/** Maps each address in hex without 0x to its contract. */
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

/** The package knows only its own errors, and treats all of them alike here. */
function faultOf(error: string): EVMError {
  const fault = new EVMError(EVMError.errorMessages.OUT_OF_GAS)
  return Object.assign(fault, { error })
}

/** The contracts are called only by a metered EVM. */
const meterOf = ({ _EVM }: Parameters<PrecompileFunc>[0]): Meter =>
  (_EVM as unknown as { readonly meter: Meter }).meter
