/** These are limits for fetches of a call where state is fetched on reading. */

import { setTimeout } from 'node:timers/promises'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Limits } from '../../../rpc/core/limits.ts'
import { CONTRACT, transfer } from '../../fixtures/executed.ts'
import { fourBlocks } from '../../fixtures/four-blocks.ts'
import { lazyChain } from '../../fixtures/lazy-state.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { row, type Some, within } from './row.ts'

/** Requests a contract's code, which fetches the account first, and then the code. */
async function code(limits: Partial<Limits>) {
  const { memory } = fourBlocks()
  const { reader, lazy } = lazyChain(memory)
  const source = { reader, onPublish: memory.onPublish }
  const rpc = testRpc({ source, memory, lazy, limits })
  const { result, error } = await rpc.request('eth_getCode', [bytesToHex(CONTRACT), 'latest'])
  return result ?? error?.code
}

/** Gives the response to a transaction after 200 ms, while the sequencer does not respond. */
async function sent(limits: Partial<Limits>) {
  const forward = { forward: () => new Promise<never>(() => {}) }
  const rpc = testRpc({ forward, limits })
  const response = rpc.request('eth_sendRawTransaction', [bytesToHex(transfer(0n).raw)])
  return within(
    200,
    undefined,
    response.then(({ error }) => error?.code),
  )
}

/**
 * Gives the error codes when these addresses request a proof at once, for which the upstream takes
 * 200 ms.
 */
async function proofs(limits: Partial<Limits>, ...clients: readonly string[]) {
  const { memory } = fourBlocks()
  const { reader, lazy } = lazyChain(memory)
  const forward = {
    forward: () => setTimeout(200, { result: '{}' }),
  }
  const source = { reader, onPublish: memory.onPublish }
  const rpc = testRpc({ source, memory, lazy, forward, limits })
  const requested = clients.map((address) =>
    rpc.request('eth_getProof', [bytesToHex(CONTRACT), [], 'latest'], { address }),
  )
  return (await Promise.all(requested)).map(({ error }) => error?.code)
}
const A = '10.0.0.1'
const B = '10.0.0.2'

export const LAZY = {
  forwardMs: row(50, [-32001], (limits) => proofs(limits, A)),
  forwardsPerClient: row(1, [undefined, -32005], (limits) => proofs(limits, A, A)),
  forwardsTotal: row(1, [undefined, -32005], (limits) => proofs(limits, A, B)),
  sequencerMs: row(50, -32000, sent),
  fetchRounds: row(1, -32002, code),
  fetchKeys: row(1, -32002, code),
} satisfies Some
