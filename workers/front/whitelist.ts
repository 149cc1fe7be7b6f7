/**
 * Checks the whitelist of gasless transactions for the txpool, because the sequencer silently drops
 * transactions of unlisted senders.
 */
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { allowanceCall, isAllowance } from '../../engine/execution/transaction/gasless.ts'
import { SYSTEM } from '../../engine/execution/transaction/system-call.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import { isBecause } from '../../rpc/core/errors.ts'
import type { PoolClient } from '../../rpc/core/executor.ts'
import { timeoutMsOf } from '../../rpc/core/queue-class.ts'
import { methods } from '../../rpc/methods/index.ts'
import type { PoolCaller } from '../pool/call-pool.ts'

/**
 * Tells whether the whitelist allows a free transaction, at the pending state. Without a timely
 * response the result is true, and the sequencer decides.
 */
export type IsListed = (transaction: SignedTransaction, client: PoolClient) => Promise<boolean>

/**
 * Creates the check with the contract in the rules of `chain`; without a contract every transaction
 * passes.
 */
export function createWhitelist(chain: ChainSpec, pool: PoolCaller): IsListed {
  const { genesisNumber, genesisHeader, rulesAt } = chain
  const contract = rulesAt(genesisNumber, genesisHeader.timestamp).gaslessContract
  return contract === undefined
    ? () => Promise.resolve(true)
    : (transaction, client) => isListed(transaction, contract, { ...pool, client })
}

async function isListed(
  { to, input, gasLimit }: SignedTransaction,
  contract: Bytes,
  { executor, limits, now, client }: PoolCaller & { readonly client: PoolClient },
): Promise<boolean> {
  const message = {
    from: bytesToHex(SYSTEM),
    to: bytesToHex(contract),
    input: bytesToHex(allowanceCall(to!, input)),
  }
  const method = methods.get('eth_call')!
  const params = [message, 'pending']
  const reply = await executor.execute({
    method,
    params,
    text: JSON.stringify(params),
    endpoint: 'flashblocks',
    snapshot: undefined,
    deadline: now() + timeoutMsOf(method.runs, limits),
    client,
  })
  if ('result' in reply) return isAllowance(hexToBytes(JSON.parse(reply.result)), gasLimit)
  return !('error' in reply && isBecause(reply.error, 'reverted'))
}
