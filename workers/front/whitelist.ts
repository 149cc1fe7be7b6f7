/** Asks the whitelist of gasless transactions for the txpool: who is not on it would be dropped by the sequencer, unheard. */
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { allowanceCall, isAllowance } from '../../engine/execution/transaction/gasless.ts'
import { SYSTEM } from '../../engine/execution/transaction/system-call.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../engine/primitives/transaction.ts'
import { methods } from '../../rpc/methods/index.ts'
import { isBecause } from '../../rpc/seam/errors.ts'
import type { PoolClient } from '../../rpc/seam/executor.ts'
import { laneMs } from '../../rpc/seam/lane.ts'
import type { Asking } from '../pool/ask.ts'

/** Whether the whitelist lets a free call pass, at the pending state. Without an answer in time the sequencer decides: true. */
export type IsListed = (transaction: SignedTransaction, client: PoolClient) => Promise<boolean>

/** By the contract that stands in the rules of `chain`. */
export function createWhitelist(chain: ChainSpec, asking: Asking): IsListed {
  const { genesisNumber, genesisHeader, rulesAt } = chain
  const contract = rulesAt(genesisNumber, genesisHeader.timestamp).gaslessContract
  return contract === undefined
    ? () => Promise.resolve(true)
    : (transaction, client) => isListed(transaction, contract, { ...asking, client })
}

async function isListed(
  { to, input, gasLimit }: SignedTransaction,
  contract: Bytes,
  { executor, limits, now, client }: Asking & { readonly client: PoolClient },
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
    record: undefined,
    deadline: now() + laneMs(method.runs, limits),
    client,
  })
  if ('result' in reply) return isAllowance(hexToBytes(JSON.parse(reply.result)), gasLimit)
  return !('error' in reply && isBecause(reply.error, 'reverted'))
}
