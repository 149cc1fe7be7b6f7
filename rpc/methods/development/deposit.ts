/** What only a development chain has. */
import { NO_BYTES } from '../../../engine/primitives/bytes.ts'
import { address, bytes } from '../../json/codecs.ts'
import { hashResult } from '../../json/results.ts'
import { strictObject } from '../../json/schema.ts'
import { frontMethod, type Method, param } from '../../method/method.ts'
import { invalidParameter } from '../../seam/errors.ts'
import type { SendDeposit } from '../../seam/ports.ts'
import { MOST_DEPOSIT_GAS } from '../unsigned.ts'
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

/** @throws {RpcError} as `send` does */
export const depositMethod = (send: SendDeposit): Method =>
  frontMethod({
    name: 'dev_deposit',
    summary: 'A deposit on the made-up L1: answers with the hash of its transaction here.',
    hasEffect: true,
    isWaiting: true,
    params: [param('Deposit', depositArguments)],
    result: hashResult('Transaction hash'),
    async handler(_context, { from, to, mint, value, gas, data }) {
      if (from === undefined)
        throw invalidParameter(0, 'expected hex encoded address, got nothing', '.from')
      if (gas !== undefined && gas > MOST_DEPOSIT_GAS)
        throw invalidParameter(0, `a deposit has at most ${MOST_DEPOSIT_GAS}`, '.gas')
      const input = data ?? NO_BYTES
      const gasLimit = gas ?? DEFAULT_GAS
      return send({ from, to, mint: mint ?? 0n, value: value ?? 0n, gasLimit, input })
    },
  })
