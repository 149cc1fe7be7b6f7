/** Asks the whitelist of gasless transactions before the pool takes one: who is not on it would be dropped by the sequencer, unheard. */
import type { ChainSpec } from '../engine/chainspec/types.ts'
import { allowanceCall, isAllowance } from '../engine/execution/gasless.ts'
import { invalid } from '../engine/execution/invalid.ts'
import { SYSTEM } from '../engine/execution/system-call.ts'
import { feesOf } from '../engine/execution/validation.ts'
import type { Bytes } from '../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../engine/primitives/hex.ts'
import type { SignedTransaction } from '../engine/primitives/transaction.ts'
import { decodeTransaction, TransactionError } from '../engine/primitives/transaction-codec.ts'
import { ZERO_20 } from '../engine/primitives/words.ts'
import type { Executor } from '../rpc/executor.ts'
import { methods } from '../rpc/methods/index.ts'
import type { PoolService } from '../rpc/services.ts'

type Gate = {
  readonly chain: ChainSpec
  readonly executor: Executor
  /** For the answer of the contract. */
  readonly patienceMs: number
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** The pool behind the gate; itself where the chain has no such rule. */
export function withGaslessGate(pool: PoolService, gate: Gate): PoolService {
  const { genesisNumber, genesisHeader, rulesAt } = gate.chain
  const contract = rulesAt(genesisNumber, genesisHeader.timestamp).gaslessContract
  if (contract === undefined) return pool
  return {
    ...pool,
    submit(raw) {
      const free = freeCall(raw)
      if (free === undefined) return pool.submit(raw)
      return isRefused(free, contract, gate).then((refused) =>
        refused ? { error: invalid.feeBelowBaseFee() } : pool.submit(raw),
      )
    },
  }
}

/** A call that offers no fee at all; its sender is not looked at. */
function freeCall(raw: Bytes): SignedTransaction | undefined {
  try {
    const transaction = decodeTransaction(raw, ZERO_20)
    if (transaction.type === 0x7e || transaction.to === undefined) return undefined
    return feesOf(transaction).maxFee === 0n ? transaction : undefined
  } catch (error) {
    if (error instanceof TransactionError) return undefined
    throw error
  }
}

/** Without an answer in time the sequencer decides. */
async function isRefused(
  { to, input, gasLimit }: SignedTransaction,
  contract: Bytes,
  { executor, patienceMs, now }: Gate,
): Promise<boolean> {
  const message = {
    from: bytesToHex(SYSTEM),
    to: bytesToHex(contract),
    input: bytesToHex(allowanceCall(to!, input)),
  }
  const params = [message, 'pending']
  const reply = await executor.execute({
    method: methods.get('eth_call')!,
    params,
    text: JSON.stringify(params),
    endpoint: 'flashblocks',
    record: undefined,
    deadline: now() + patienceMs,
    client: { isGone: false },
  })
  if ('result' in reply) return !isAllowance(hexToBytes(JSON.parse(reply.result)), gasLimit)
  return 'error' in reply && reply.error.code === REVERTED
}
const REVERTED = 3
