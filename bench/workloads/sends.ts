/**
 * Rows of sends, each on its own servers, because they fill blocks. Processor time counts until the
 * last transaction is in a block.
 */
import { transfer } from './calldata.ts'
import { included } from './fill.ts'
import type { Group, Row } from './row.ts'
import { type Draft, SENDERS, sign } from './signed.ts'
import { holder, TOKENS } from './world.ts'

/** Fewer than the senders, so that the nonces of each sender arrive nearly in order. */
const CONNECTIONS = 8
/**
 * Garbage collection makes the processor time of two rounds differ: by half with 2,000, and by a
 * quarter with 8,000 (2026-12-01).
 */
const IN_ROUND = 8_000
const HOLDERS = 1_000

const plain = (at: number): Draft => ({
  to: holder(at % HOLDERS),
  value: 1n,
  gasLimit: 21_000n,
  data: '0x',
})
const token = (at: number): Draft => ({
  to: TOKENS[0],
  value: 0n,
  gasLimit: 60_000n,
  data: transfer(holder(at % HOLDERS), 1n),
})

function sending(name: string, draft: (at: number) => Draft): Row {
  /** Both servers get the same transactions, which are signed once. */
  const signed: ReturnType<typeof sign>[] = []
  const upTo = (at: number) => {
    for (let next = signed.length; next <= at; next++) {
      const signer = { account: next % SENDERS, nonce: Math.floor(next / SENDERS) }
      signed.push(sign(draft(next), signer))
    }
    return signed[at]!
  }
  return {
    name: `eth_sendRawTransaction, ${name}`,
    connections: CONNECTIONS,
    amount: IN_ROUND,
    question(at) {
      const { raw } = upTo(at)
      return { method: 'eth_sendRawTransaction', params: [raw] }
    },
    async settle(server, requested) {
      for (let at = requested - 1; at >= Math.max(0, requested - SENDERS); at--)
        await included(server, upTo(at).hash)
    },
  }
}

export const SENDS: readonly Group[] = [
  sending('transfer', plain),
  sending('ERC-20 transfer', token),
].map((row) => ({ rows: [row], holders: HOLDERS, hasBlocks: true }))
