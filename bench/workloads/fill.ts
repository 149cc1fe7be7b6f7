/**
 * Makes holders of the first token by transactions. In a development chain's genesis they would lie
 * in every thread's heap. Garbage collection would then take seconds of the measured calls.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { rpc, type Server } from '../servers.ts'
import { fill } from './calldata.ts'
import { SENDERS, sign } from './signed.ts'
import { FILLER } from './world.ts'

const IN_TRANSACTION = 400
/** A holder takes 25,000 gas. */
const GAS_LIMIT = 12_000_000n
const TIMEOUT_MS = 900_000

/**
 * Sends the transactions, which fill as many blocks as their gas needs: a minute for 100,000
 * holders.
 */
export async function fillHolders(servers: readonly Server[], holders: number): Promise<void> {
  const transactions = Array.from({ length: Math.ceil(holders / IN_TRANSACTION) }, (_, number) => {
    const first = number * IN_TRANSACTION
    const data = fill(first, Math.min(IN_TRANSACTION, holders - first))
    const signer = { account: number % SENDERS, nonce: Math.floor(number / SENDERS) }
    return sign({ to: FILLER, value: 0n, gasLimit: GAS_LIMIT, data }, signer)
  })
  for (const { url } of servers)
    for (const { raw } of transactions) await rpc(url, 'eth_sendRawTransaction', [raw])
  for (const server of servers) for (const { hash } of transactions) await included(server, hash)
}

/** @throws {Error} if the transaction failed, or is in no block for long */
export async function included(server: Server, hash: string): Promise<Record<string, string>> {
  const until = performance.now() + TIMEOUT_MS
  while (performance.now() < until) {
    const receipt = await rpc(server.url, 'eth_getTransactionReceipt', [hash])
    if (receipt !== null) {
      const fields = receipt as Record<string, string>
      if (fields['status'] !== '0x1') throw new Error(`${server.name}: ${hash} failed`)
      return fields
    }
    await sleep(50)
  }
  throw new Error(`${server.name}: ${hash} is in no block`)
}
