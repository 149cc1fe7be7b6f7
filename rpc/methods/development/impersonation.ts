/**
 * Methods of a development chain that send transactions without a key. The transactions are
 * deposits, which need no signature, and lead the next block.
 */
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { failed, invalidParameter } from '../../core/errors.ts'
import type { Impersonation, SendDeposit } from '../../core/ports.ts'
import { address, transactionCall } from '../../json/codecs.ts'
import { booleanResult, hashResult } from '../../json/results.ts'
import { boolean } from '../../json/schema.ts'
import { frontMethod, type Method, param } from '../../method/method.ts'
import { sendUnsigned } from '../unsigned.ts'
import { CONTROL, named } from './controls.ts'

/** Maximum number of impersonated accounts. */
const MAX_ACCOUNTS = 10_000

/**
 * Creates the methods.
 * @throws {RpcError} as `send` does
 */
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
      'Lets eth_sendTransaction send for this account without its key.',
      (who) => {
        if (accounts.size >= MAX_ACCOUNTS && !accounts.has(who))
          throw failed(
            `cannot impersonate more than ${MAX_ACCOUNTS} accounts: stop one with anvil_stopImpersonatingAccount`,
          )
        accounts.add(who)
      },
    ),
    ...ofAccount(
      ['anvil_stopImpersonatingAccount', 'hardhat_stopImpersonatingAccount'],
      'Stops eth_sendTransaction from sending for this account without its key.',
      (who) => void accounts.delete(who),
    ),
    frontMethod({
      name: 'anvil_autoImpersonateAccount',
      summary: 'Sets whether eth_sendTransaction sends for every account without its key.',
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
      summary: 'Sends a transaction of any account without its key.',
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
