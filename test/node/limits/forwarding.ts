/**
 * These are limits for requests to the node of the older chain, which is slow here and has long
 * responses.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Limits } from '../../../rpc/core/limits.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { row, type Some } from './row.ts'

const CUTOFF = 4n
const SLOW_MS = 200

/**
 * Gives the error codes when these addresses request an old block at once; undefined is a result.
 */
async function codes(limits: Partial<Limits>, ...clients: readonly string[]) {
  const old = createServer((_request, response) => {
    setTimeout(() => response.end(`{"result":"${'x'.repeat(1_000)}"}`), SLOW_MS)
  })
  old.listen(0, '127.0.0.1')
  await once(old, 'listening')
  try {
    const { port } = old.address() as AddressInfo
    const rpc = testRpc({
      memory: memoryChain([], CUTOFF),
      chain: { ...CHAIN, genesisNumber: CUTOFF },
      forwardingUrl: `http://127.0.0.1:${port}`,
      limits,
    })
    const requested = clients.map((address) =>
      rpc.request('eth_getBlockByNumber', ['0x2', false], { address }),
    )
    return (await Promise.all(requested)).map(({ error }) => error?.code)
  } finally {
    old.closeAllConnections()
    old.close()
  }
}

const A = '10.0.0.1'
const B = '10.0.0.2'

export const FORWARDING = {
  legacyMs: row(50, [-32603], (limits) => codes(limits, A)),
  legacyResponseBytes: row(500, [-32003], (limits) => codes(limits, A)),
  legacyCallsPerClient: row(1, [undefined, -32005], (limits) => codes(limits, A, A)),
  legacyCallsTotal: row(1, [undefined, -32005], (limits) => codes(limits, A, B)),
} satisfies Some
