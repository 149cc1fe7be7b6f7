/**
 * What only a development chain has: transactions of accounts whose keys nobody holds. They are deposits, which need no signature, and lead
 * the next block.
 */
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { address, transactionCall } from '../../json/codecs.ts'
import { booleanResult, hashResult } from '../../json/results.ts'
import { boolean } from '../../json/schema.ts'
import { frontMethod, type Method, param } from '../../method/method.ts'
import { failed, invalidParameter } from '../../seam/errors.ts'
import type { Impersonation, SendDeposit } from '../../seam/ports.ts'
import { sendUnsigned } from '../unsigned.ts'
import { CONTROL, named } from './controls.ts'

/** Accounts at a time. */
const MOST_ACCOUNTS = 10_000

/** @throws {RpcError} as `send` does */
export function impersonation(send: SendDeposit): {
  readonly service: Impersonation
  readonly methods: readonly Method[]
} {
  const accounts = new Set<string>()
  let isEverybody = false
  const service: Impersonation = {
    has: (who) => isEverybody || accounts.has(bytesToHex(who)),
    send,
  }
  const ofAccount = (names: readonly string[], summary: string, change: (who: string) => void) =>
    named(names, (name) =>
      frontMethod({
        name,
        summary,
        hasEffect: true,
        params: [param('Address', address)],
        result: booleanResult('Done'),
        handler(_context, who) {
          change(bytesToHex(who))
          return true
        },
      }),
    )
  const methods = [
    ...ofAccount(
      ['anvil_impersonateAccount', 'hardhat_impersonateAccount'],
      'eth_sendTransaction sends for this account, without its key.',
      (who) => {
        if (accounts.size >= MOST_ACCOUNTS && !accounts.has(who))
          throw failed(`${MOST_ACCOUNTS} accounts are impersonated`)
        accounts.add(who)
      },
    ),
    ...ofAccount(
      ['anvil_stopImpersonatingAccount', 'hardhat_stopImpersonatingAccount'],
      'eth_sendTransaction does not send for this account any more.',
      (who) => void accounts.delete(who),
    ),
    frontMethod({
      name: 'anvil_autoImpersonateAccount',
      summary: 'Whether eth_sendTransaction sends for everybody.',
      hasEffect: true,
      params: [param('Enabled', boolean)],
      result: booleanResult('Done'),
      handler(_context, isOn) {
        isEverybody = isOn
        return true
      },
    }),
    frontMethod({
      ...CONTROL,
      name: 'eth_sendUnsignedTransaction',
      summary: 'Sends a transaction of any account, without its key.',
      params: [param('Transaction', transactionCall)],
      result: hashResult('Transaction hash'),
      handler(context, call) {
        if (call.from === undefined)
          throw invalidParameter(0, 'expected hex encoded address, got nothing', '.from')
        return sendUnsigned(context, call, { from: call.from, send })
      },
    }),
  ]
  return { service, methods }
}
