/** Limits of what is fetched for a call where state is fetched as it is read. */

import { setTimeout } from 'node:timers/promises'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Limits } from '../../../rpc/seam/limits.ts'
import { CONTRACT, transfer } from '../../fixtures/executed.ts'
import { fourBlocks } from '../../fixtures/four-blocks.ts'
import { lazyChain } from '../../fixtures/lazy-state.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { row, type Some, within } from './row.ts'

/** What is said of a contract's code: it takes the account, and then the code. */
async function code(limits: Partial<Limits>) {
  const { memory } = fourBlocks()
  const { reader, lazy } = lazyChain(memory)
  const source = { reader, onPublish: memory.onPublish }
  const rpc = testRpc({ source, memory, lazy, limits })
  const { result, error } = await rpc.ask('eth_getCode', [bytesToHex(CONTRACT), 'latest'])
  return result ?? error?.code
}

/** What is said of a transaction after 200 ms, to which the sequencer says nothing. */
async function sent(limits: Partial<Limits>) {
  const forward = { forward: () => new Promise<never>(() => {}) }
  const rpc = testRpc({ forward, limits })
  const answer = rpc.ask('eth_sendRawTransaction', [bytesToHex(transfer(0n).raw)])
  return within(
    200,
    undefined,
    answer.then(({ error }) => error?.code),
  )
}

/** Codes of what is said to these addresses, which ask at once for a proof, for which the upstream takes 200 ms. */
async function proofs(limits: Partial<Limits>, ...clients: readonly string[]) {
  const { memory } = fourBlocks()
  const { reader, lazy } = lazyChain(memory)
  const forward = {
    forward: () => setTimeout(200, { result: '{}' }),
  }
  const source = { reader, onPublish: memory.onPublish }
  const rpc = testRpc({ source, memory, lazy, forward, limits })
  const asked = clients.map((address) =>
    rpc.ask('eth_getProof', [bytesToHex(CONTRACT), [], 'latest'], { address }),
  )
  return (await Promise.all(asked)).map(({ error }) => error?.code)
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
