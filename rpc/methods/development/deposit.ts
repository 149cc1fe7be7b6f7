/** Method of a development chain that makes a deposit. */
import { NO_BYTES } from '../../../engine/primitives/bytes.ts'
import { invalidParameter } from '../../core/errors.ts'
import type { SendDeposit } from '../../core/ports.ts'
import { address, bytes } from '../../json/codecs.ts'
import { hashResult } from '../../json/results.ts'
import { strictObject } from '../../json/schema.ts'
import { frontMethod, type Method, param } from '../../method/method.ts'
import { MAX_DEPOSIT_GAS } from '../unsigned.ts'
import { natural, wei } from './controls.ts'

const DEFAULT_GAS = 200_000n
const depositArguments = strictObject('DepositArgs', {
  from: address,
  to: address,
  mint: wei,
  value: wei,
  gas: natural,
  data: bytes,
})

/**
 * Creates the method.
 * @throws {RpcError} as `send` does
 */
export const depositMethod = (send: SendDeposit): Method =>
  frontMethod({
    name: 'dev_deposit',
    summary:
      'Makes a deposit on the simulated L1 and returns the hash of its transaction on this chain.',
    hasEffect: true,
    isWaiting: true,
    params: [param('Deposit', depositArguments)],
    result: hashResult('Transaction hash'),
    async handler(_context, { from, to, mint, value, gas, data }) {
      if (from === undefined)
        throw invalidParameter(0, 'expected hex encoded address, got nothing', '.from')
      if (gas !== undefined && gas > MAX_DEPOSIT_GAS)
        throw invalidParameter(0, `expected at most ${MAX_DEPOSIT_GAS}, got ${gas}`, '.gas')
      const input = data ?? NO_BYTES
      const gasLimit = gas ?? DEFAULT_GAS
      return send({ from, to, mint: mint ?? 0n, value: value ?? 0n, gasLimit, input })
    },
  })
