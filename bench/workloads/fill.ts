/**
 * Holders of the first token by transactions. In the genesis of a development chain they would lie in the heap of every thread, and these
 * collect garbage for seconds in the calls that are measured; so they are where a chain has them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { rpc, type Server } from '../servers.ts'
import { fill } from './calldata.ts'
import { SENDERS, sign } from './signed.ts'
import { FILLER } from './world.ts'

const IN_TRANSACTION = 400
/** 25,000 for a holder. */
const GAS_LIMIT = 12_000_000n
const PATIENCE_MS = 900_000

/** As many blocks as their gas takes: a minute for 100,000. */
export async function fillHolders(servers: readonly Server[], holders: number): Promise<void> {
  const transactions = Array.from({ length: Math.ceil(holders / IN_TRANSACTION) }, (_, number) => {
    const first = number * IN_TRANSACTION
    const data = fill(first, Math.min(IN_TRANSACTION, holders - first))
    const place = { account: number % SENDERS, nonce: Math.floor(number / SENDERS) }
    return sign({ to: FILLER, value: 0n, gasLimit: GAS_LIMIT, data }, place)
  })
  for (const { url } of servers)
    for (const { raw } of transactions) await rpc(url, 'eth_sendRawTransaction', [raw])
  for (const server of servers) for (const { hash } of transactions) await included(server, hash)
}

/** @throws where it failed, or is in no block for long */
export async function included(server: Server, hash: string): Promise<Record<string, string>> {
  const until = performance.now() + PATIENCE_MS
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
