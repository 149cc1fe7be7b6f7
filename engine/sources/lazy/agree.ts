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
 * Returns the newest block that most upstreams have. Of two, the first named is believed.
 * @param upstreams in the order of naming
 * @param options `lagBlocks` is the allowed distance between two heads of one chain
 * @throws {UpstreamError} when none answers, or there is no majority
 */
export async function agreeOnHead(
  upstreams: readonly Upstream[],
  options: AgreeOptions,
): Promise<AgreedHead> {
  const heads = await responsesOf(upstreams, async (upstream) => {
    const head = await headOf(upstream, 'latest', options)
    if (head === undefined) throw wrong(upstream, 'it has no latest block')
    return head
  })
  return agreeAmong(heads, options)
}

async function agreeAmong(
  heads: readonly HeadResponse[],
  options: AgreeOptions,
): Promise<AgreedHead> {
  const { lagBlocks, ...callOptions } = options
  const number = newestOfMajority(
    heads.map(({ response }) => response.number),
    lagBlocks,
  )
  const reaching = heads.filter(({ response }) => response.number >= number)
  const known = new Map(
    reaching.flatMap(({ upstream, response }) =>
      response.number === number ? [[upstream, response.hash] as const] : [],
    ),
  )
  const agreed = await agreeOnBlock(
    reaching.map(({ upstream }) => upstream),
    number,
    { ...callOptions, known },
  )
  const { hash, by, suspicions } = agreed
  if (hash === undefined) throw wrong(by[0]!, `it has no block ${number}, which it has told of`)
  // Without agreement, the first named of three would decide alone.
  if (suspicions.length > by.length)
    throw wrong(by[0]!, `block ${number} is ${hash} there, and most others say something else`)
  if (suspicions.length === 0) return { ...agreed, hash, number }
  // A disagreeing upstream's head must not hold back the others. Each round has fewer upstreams.
  const rest = await agreeAmong(
    reaching.filter(({ upstream }) => by.includes(upstream)),
    options,
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
