/**
 * This module sends the same requests to the leader and to its follower where both are at the same
 * flashblock.
 */
import { isDeepStrictEqual } from 'node:util'
import { type BatchReplies, type Reply, sendRequest } from '../../kit/batch.ts'
import { balanceOf, slotOf, transferTo } from '../soak/token.ts'
import type { World } from './load.ts'

export type Question = { readonly method: string; readonly params: readonly unknown[] }
export type Difference = {
  readonly where: string
  readonly question: Question
  readonly leader: unknown
  readonly follower: unknown
}
export type Compared = {
  readonly total: number
  /** The part of the compared responses on the pending block. */
  readonly pending: number
  readonly differences: readonly Difference[]
  /** Counts the follower's errors by message. */
  readonly refused: Readonly<Record<string, number>>
}

export interface Comparer {
  /**
   * Compares one round on the pending block. Gives the number of compared responses; 0 means that
   * the nodes were at different flashblocks.
   */
  pending(): Promise<number>
  /** Compares blocks that both nodes have. */
  sealed(): Promise<number>
  readonly compared: Compared
  /** Sets the URL of the follower, which was restarted and may have another port. */
  follow(url: string): void
}

type Options = {
  readonly leader: string
  readonly follower: string
  readonly world: World
  readonly random: () => number
  /** A lazy node has the state root of a block once the block is canonical. */
  readonly isLazy: boolean
  /** The oldest block of the follower that requests may name. */
  readonly oldest: number
}

const hex = (number: number) => `0x${number.toString(16)}`
const GIVEN_UP_MS = 120_000
/** Requests reach this many blocks below the head. */
const DEPTH = 20

export function createComparer(options: Options): Comparer {
  const { leader, random } = options
  let follower = options.follower
  const counts = { total: 0, pending: 0 }
  const differences: Difference[] = []
  const refused: Record<string, number> = {}

  /**
   * Compares two lists of responses.
   * @param where the name for the report
   */
  function compare(
    where: string,
    questions: readonly Question[],
    [ours, theirs]: readonly [readonly Reply[], readonly Reply[]],
  ): number {
    let compared = 0
    for (const [at, question] of questions.entries()) {
      const { result: wanted, error } = ours[at]!
      if (error !== undefined) throw new Error(`${question.method}: ${JSON.stringify(error)}`)
      const { result: found, error: refusal } = theirs[at]!
      if (refusal !== undefined) {
        const { message } = refusal as { message: string }
        const said = `${question.method}: ${message}`.replace(/0x[0-9a-f]{8,}|\d+/g, '…')
        refused[said] = (refused[said] ?? 0) + 1
        continue
      }
      compared++
      if (!isDeepStrictEqual(wanted, found))
        differences.push({ where, question, leader: wanted, follower: found })
    }
    counts.total += compared
    return compared
  }

  return {
    async pending() {
      const questions = pendingQuestions(options)
      const both = await Promise.all(
        [leader, follower].map((url) => request(`${url}/flashblocks`, questions)),
      )
      const [ours, theirs] = both as [BatchReplies, BatchReplies]
      if (ours.flashblockId !== theirs.flashblockId) return 0
      const [complete, theirComplete] = both.map(({ replies }) => numberOf(replies[0]))
      // One of the two has completed the pending block already, so its hash is final there.
      if (complete !== theirComplete) return 0
      const compared = compare(ours.flashblockId, questions.slice(1), [
        masked(ours.replies.slice(1), options),
        masked(theirs.replies.slice(1), options),
      ])
      counts.pending += compared
      return compared
    },
    async sealed() {
      const heads = await Promise.all([leader, follower].map((url) => headOf(`${url}/`)))
      const head = Math.min(...heads)
      const depth = Math.min(DEPTH, head - options.oldest)
      if (depth < 0) return 0
      const number = head - Math.floor(random() * (depth + 1))
      const questions = sealedQuestions(options, number)
      const path = random() < 0.5 ? '/' : '/flashblocks'
      const [ours, theirs] = await Promise.all([
        request(`${leader}${path}`, questions),
        request(`${follower}${path}`, questions),
      ])
      return compare(`block ${number}`, questions, [ours.replies, theirs.replies])
    },
    get compared() {
      return { ...counts, differences, refused }
    },
    follow(url) {
      follower = url
    },
  }
}

const numberOf = (reply: Reply | undefined): number =>
  Number((reply?.result as { number?: string } | undefined)?.number)

/**
 * Masks hashes of a lazy node. While a block is pending, the node lacks the root of the block
 * before until that block is canonical. Hashes depend on the root.
 */
function masked(replies: readonly Reply[], { isLazy }: Options): readonly Reply[] {
  if (!isLazy) return replies
  return replies.map((reply) => ({ ...reply, result: withoutHashes(reply.result) }))
}

/** Removes the fields that a lazy node does not know before a block is canonical. */
export function withoutHashes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutHashes)
  if (typeof value !== 'object' || value === null) return value
  const isBlock = 'stateRoot' in value
  const entries = Object.entries(value)
    .filter(([key]) => !PARTIAL_FIELDS.includes(key) && !(isBlock && key === 'hash'))
    .map(([key, inner]) => [key, withoutHashes(inner)] as const)
  return Object.fromEntries(entries)
}
const PARTIAL_FIELDS: readonly string[] = ['blockHash', 'stateRoot', 'withdrawalsRoot']

function pick<T>(items: readonly T[], count: number, random: () => number): T[] {
  if (items.length === 0) return []
  return Array.from({ length: count }, () => items[Math.floor(random() * items.length)]!)
}

/** Makes the requests on the pending block; the first one tells which block is complete. */
function pendingQuestions({ world, random }: Options): readonly Question[] {
  return [
    { method: 'eth_getBlockByNumber', params: ['latest', false] },
    { method: 'eth_getBlockByNumber', params: ['pending', true] },
    { method: 'eth_getBlockReceipts', params: ['pending'] },
    { method: 'eth_getBlockTransactionCountByNumber', params: ['pending'] },
    { method: 'eth_getLogs', params: [{ fromBlock: 'pending', toBlock: 'pending' }] },
    ...stateQuestions(world, random, 'pending'),
    ...pick(world.senders, 1, random).map((from) => ({
      method: 'eth_estimateGas',
      params: [{ from, to: world.token, data: transferTo(world.holders[3]!, 1n) }, 'pending'],
    })),
  ]
}

function sealedQuestions({ world, random, isLazy }: Options, number: number): readonly Question[] {
  const at = hex(number)
  return [
    { method: 'eth_getBlockByNumber', params: [at, true] },
    { method: 'eth_getBlockReceipts', params: [at] },
    { method: 'eth_getLogs', params: [{ fromBlock: hex(Math.max(0, number - 3)), toBlock: at }] },
    ...stateQuestions(world, random, at),
    ...pick(world.senders, 4, random).map((sender) => ({
      method: 'eth_getTransactionCount',
      params: [sender, at],
    })),
    ...(isLazy
      ? []
      : pick(world.holders, 1, random).map((holder) => ({
          method: 'eth_getProof',
          params: [holder, [], at],
        }))),
  ]
}

function stateQuestions(world: World, random: () => number, at: string): readonly Question[] {
  const everybody = [...world.senders, ...world.holders, ...world.contracts, world.token]
  return [
    ...pick(everybody, 10, random).map((address) => ({
      method: 'eth_getBalance',
      params: [address, at],
    })),
    ...pick(world.holders, 8, random).map((holder) => ({
      method: 'eth_getStorageAt',
      params: [world.token, slotOf(holder), at],
    })),
    ...pick(world.contracts, 3, random).flatMap((address) => [
      { method: 'eth_getStorageAt', params: [address, '0x7', at] },
      { method: 'eth_getCode', params: [address, at] },
    ]),
    ...pick(world.holders, 8, random).map((holder) => ({
      method: 'eth_call',
      params: [{ to: world.token, data: balanceOf(holder) }, at],
    })),
  ]
}

async function headOf(url: string): Promise<number> {
  const { replies } = await request(url, [{ method: 'eth_blockNumber', params: [] }])
  return Number(replies[0]!.result)
}

const request = (url: string, questions: readonly Question[]): Promise<BatchReplies> =>
  sendRequest(
    url,
    questions.map(({ method, params }) => [method, params] as const),
    { givenUpMs: GIVEN_UP_MS },
  )
