/**
 * Agreement of most upstreams on a block. All are asked when none is followed yet, or when much
 * depends on the response.
 */

import type { Hex } from '../../primitives/bytes.ts'
import { quantity } from '../../primitives/hex.ts'
import { Refusal } from '../../primitives/json-fields.ts'
import { plurality } from '../upstream/choice.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import { decodeHead, type Head } from '../upstream/header-json.ts'
import type { CallOptions } from '../upstream/messages.ts'

/** An upstream that contradicts the others. */
export type Suspicion = { readonly name: string; readonly message: string }

export type Agreed = {
  /** undefined: most upstreams have no block at that height. */
  readonly hash: Hex | undefined
  /** Upstreams that agree, in the order of naming. */
  readonly by: readonly Upstream[]
  readonly suspicions: readonly Suspicion[]
}

type HeadResponse = { readonly upstream: Upstream; readonly response: Head }
type AgreedHead = Agreed & { readonly number: number; readonly hash: Hex }
type AgreeOptions = { readonly lagBlocks: number } & CallOptions

/**
 * Returns the newest block that most upstreams have. Of two upstreams, the first named is believed.
 * A block that some contradict needs the majority of three or more, whether all answer or not.
 * @param upstreams in the order of naming
 * @param options `lagBlocks` is the allowed distance between two heads of one chain
 * @throws {UpstreamError} when none answers, or there is no majority
 */
export async function agreeOnHead(
  upstreams: readonly Upstream[],
  { lagBlocks, ...options }: AgreeOptions,
): Promise<AgreedHead> {
  const heads = await responsesOf(upstreams, async (upstream) => {
    const head = await headOf(upstream, 'latest', options)
    if (head === undefined) throw wrong(upstream, 'it has no latest block')
    return head
  })
  const min = upstreams.length > 2 ? (upstreams.length >> 1) + 1 : 1
  return agreeAmong(heads, { lagBlocks, min, options })
}

type Majority = {
  readonly lagBlocks: number
  /** The number of upstreams that must agree on a block that others contradict. */
  readonly min: number
  readonly options: CallOptions
}

async function agreeAmong(heads: readonly HeadResponse[], majority: Majority): Promise<AgreedHead> {
  const { lagBlocks, min, options } = majority
  const numbers = heads.map(({ response }) => response.number)
  const newest = newestOfMajority(numbers, lagBlocks)
  // If too few have reached a height to settle a contradiction, more have reached a lower one.
  const heights = new Set(numbers.filter((number) => number <= newest).toSorted((a, b) => b - a))
  let contradicted: AgreedHead | undefined
  for (const number of heights) {
    const agreed = await agreeAt(number, heads, options)
    const { by, suspicions } = agreed
    if (suspicions.length === 0) return agreed
    if (by.length >= min) return withoutSuspects(agreed, heads, majority)
    contradicted ??= agreed
  }
  const { by, number, hash } = contradicted!
  throw wrong(by[0]!, `block ${number} is ${hash} there, and most upstreams do not agree`)
}

/** @throws {UpstreamError} when the block is missing at most upstreams that have told of it */
async function agreeAt(
  number: number,
  heads: readonly HeadResponse[],
  options: CallOptions,
): Promise<AgreedHead> {
  const reaching = heads.filter(({ response }) => response.number >= number)
  const known = new Map(
    reaching.flatMap(({ upstream, response }) =>
      response.number === number ? [[upstream, response.hash] as const] : [],
    ),
  )
  const agreed = await agreeOnBlock(
    reaching.map(({ upstream }) => upstream),
    number,
    { ...options, known },
  )
  const { hash, by } = agreed
  if (hash === undefined) throw wrong(by[0]!, `it has no block ${number}, which it has told of`)
  return { ...agreed, hash, number }
}

/**
 * Agrees again among the upstreams that agree, because a suspect's head must not hold back the
 * others. Each round has fewer upstreams.
 */
async function withoutSuspects(
  { by, suspicions }: AgreedHead,
  heads: readonly HeadResponse[],
  majority: Majority,
): Promise<AgreedHead> {
  const rest = await agreeAmong(
    heads.filter(({ upstream }) => by.includes(upstream)),
    majority,
  )
  return { ...rest, suspicions: [...suspicions, ...rest.suspicions] }
}

/**
 * @param options `known` has hashes that upstreams have given already
 * @throws {UpstreamError} when none answers
 */
export async function agreeOnBlock(
  upstreams: readonly Upstream[],
  number: number,
  { known, ...options }: { readonly known?: ReadonlyMap<Upstream, Hex> } & CallOptions = {},
): Promise<Agreed> {
  const replies = await responsesOf(
    upstreams,
    async (upstream) =>
      known?.get(upstream) ?? (await headOf(upstream, quantity(number), options))?.hash,
  )
  const { hash, by, suspicions } = plurality(
    number,
    replies.map(({ upstream, response }) => [upstream, response]),
  )
  return {
    hash,
    by,
    suspicions: suspicions.map(({ source: { name }, message }) => ({ name, message })),
  }
}

/**
 * Returns a head; undefined: the upstream has no such block.
 * @throws {UpstreamError}
 */
export async function headOf(
  upstream: Pick<Upstream, 'name' | 'call'>,
  block: string,
  options: CallOptions,
): Promise<Head | undefined> {
  const json = await upstream.call('eth_getBlockByNumber', [block, false], options)
  try {
    return json === null ? undefined : decodeHead(json)
  } catch (error) {
    if (error instanceof Refusal) throw wrong(upstream, error.message)
    throw error
  }
}

export const wrong = (upstream: Pick<Upstream, 'name'>, what: string): UpstreamError =>
  new UpstreamError('wrong', `${upstream.name}: ${what}`)

/**
 * Returns the highest number that more than half have reached, so a single upstream cannot raise
 * it. Of two far apart, the first counts.
 */
function newestOfMajority(numbers: readonly number[], lagBlocks: number): number {
  const [first, second] = numbers
  if (numbers.length === 2 && Math.abs(first! - second!) > lagBlocks) return first!
  return numbers.toSorted((a, b) => b - a)[numbers.length >> 1]!
}

/**
 * Returns the responses of all upstreams that answer.
 * @throws {UpstreamError} of the first upstream, when none answers
 */
async function responsesOf<Result>(
  upstreams: readonly Upstream[],
  request: (upstream: Upstream) => Promise<Result>,
): Promise<readonly { readonly upstream: Upstream; readonly response: Result }[]> {
  const settled = await Promise.allSettled(upstreams.map(request))
  const found = settled.flatMap((one, at) =>
    one.status === 'fulfilled' ? [{ upstream: upstreams[at]!, response: one.value }] : [],
  )
  const failures = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
  const bug = failures.find((reason) => !(reason instanceof UpstreamError))
  if (bug !== undefined) throw bug
  if (found.length === 0) throw failures[0] ?? new UpstreamError('silent', 'there is no upstream')
  return found
}
