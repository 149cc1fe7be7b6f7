/**
 * These are requests that two nodes must respond to alike at blocks of both, from the first to the
 * newest.
 */
import type { Hex } from 'viem'
import { sendRequest } from '../../kit/batch.ts'
import type { World } from '../follow/load.ts'
import { slotOf } from '../soak/token.ts'

export type Question = { readonly method: string; readonly params: readonly unknown[] }

const hex = (number: number): Hex => `0x${number.toString(16)}`
/** `eth_getProof` reaches this many blocks below the persisted block. */
const PROOF_BLOCKS = 24
const IN_BATCH = 50

/**
 * Makes the requests.
 * @param blocks heights
 * @param plain addresses of accounts that exist since the first block
 */
export function questionsAt(
  blocks: readonly number[],
  { world, plain }: { readonly world: World; readonly plain: readonly Hex[] },
): readonly Question[] {
  const newest = Math.max(...blocks)
  const ranges = blocks.map((from) => ({
    method: 'eth_getLogs',
    params: [
      { fromBlock: hex(from), toBlock: hex(Math.min(from + 50, newest)), address: world.token },
    ],
  }))
  const each = blocks.flatMap((number) => {
    const at = hex(number)
    const addresses = [
      ...world.senders.slice(0, 2),
      ...world.holders.slice(0, 3),
      world.token,
      ...plain,
    ]
    const proofs = number > newest - PROOF_BLOCKS ? [proof(world, at)] : []
    return [
      { method: 'eth_getBlockByNumber', params: [at, true] },
      { method: 'eth_getBlockReceipts', params: [at] },
      { method: 'eth_getCode', params: [world.token, at] },
      ...addresses.map((address) => ({ method: 'eth_getBalance', params: [address, at] })),
      ...world.senders
        .slice(0, 2)
        .map((address) => ({ method: 'eth_getTransactionCount', params: [address, at] })),
      ...world.holders.slice(0, 3).map((holder) => ({
        method: 'eth_getStorageAt',
        params: [world.token, slotOf(holder), at],
      })),
      ...proofs,
    ]
  })
  const known = world.hashes
    .slice(0, 20)
    .map((hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] }))
  return [...each, ...ranges, ...known]
}

const proof = (world: World, at: Hex): Question => ({
  method: 'eth_getProof',
  params: [world.token, world.holders.slice(0, 2).map(slotOf), at],
})

export type Compared = { readonly total: number; readonly differences: readonly string[] }

export async function compareResponses(
  [ours, theirs]: readonly [string, string],
  questions: readonly Question[],
): Promise<Compared> {
  const differences: string[] = []
  for (let from = 0; from < questions.length; from += IN_BATCH) {
    const part = questions.slice(from, from + IN_BATCH)
    const [left, right] = await Promise.all(
      [ours, theirs].map((url) =>
        sendRequest(
          `${url}/`,
          part.map(({ method, params }) => [method, params] as const),
        ),
      ),
    )
    for (const [at, question] of part.entries()) {
      const [a, b] = [left!.replies[at], right!.replies[at]].map((reply) =>
        JSON.stringify(reply?.result ?? reply?.error),
      )
      if (a !== b || left!.replies[at]?.error !== undefined)
        differences.push(
          `${question.method} ${JSON.stringify(question.params)}: ${a?.slice(0, 300)} | ${b?.slice(0, 300)}`,
        )
    }
  }
  return { total: questions.length, differences }
}
