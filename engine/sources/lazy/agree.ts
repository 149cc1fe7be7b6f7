/** Which block most upstreams have: asked of all of them where none is followed yet, or where much hangs on the answer. */

import type { Hex } from '../../primitives/bytes.ts'
import { quantity } from '../../primitives/hex.ts'
import { Refusal } from '../../primitives/json-fields.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import { decodeHead, type Head } from '../upstream/header-json.ts'
import type { CallOptions } from '../upstream/transport.ts'
import { mostVoices } from '../upstream/voices.ts'

/** An upstream that says something else than the others. */
export type Doubt = { readonly name: string; readonly message: string }

export type Agreed = {
  /** undefined: most have no block at that height. */
  readonly hash: Hex | undefined
  /** Those that say so, in the order of naming. */
  readonly by: readonly Upstream[]
  readonly doubts: readonly Doubt[]
}

type HeadAnswer = { readonly upstream: Upstream; readonly answer: Head }
type AgreedHead = Agreed & { readonly number: number; readonly hash: Hex }
type AgreeOptions = { readonly lagBlocks: number } & CallOptions

/**
 * The newest block that most of them have; of two the one that was named first is believed.
 * @param upstreams in the order of naming
 * @param lagBlocks between two heads of one chain
 * @throws {UpstreamError} where none answers, or no block is that of most
 */
export async function agreeOnHead(
  upstreams: readonly Upstream[],
  options: AgreeOptions,
): Promise<AgreedHead> {
  const heads = await answers(upstreams, async (upstream) => {
    const head = await headOf(upstream, 'latest', options)
    if (head === undefined) throw wrong(upstream, 'it has no latest block')
    return head
  })
  return agreeAmong(heads, options)
}

async function agreeAmong(
  heads: readonly HeadAnswer[],
  options: AgreeOptions,
): Promise<AgreedHead> {
  const { lagBlocks, ...callOptions } = options
  const number = newestOfMost(
    heads.map(({ answer }) => answer.number),
    lagBlocks,
  )
  const reaching = heads.filter(({ answer }) => answer.number >= number)
  const known = new Map(
    reaching.flatMap(({ upstream, answer }) =>
      answer.number === number ? [[upstream, answer.hash] as const] : [],
    ),
  )
  const agreed = await agreeOnBlock(
    reaching.map(({ upstream }) => upstream),
    number,
    { ...callOptions, known },
  )
  const { hash, by, doubts } = agreed
  if (hash === undefined) throw wrong(by[0]!, `it has no block ${number}, which it has told of`)
  // Each says something else: the first named of three would choose alone.
  if (doubts.length > by.length)
    throw wrong(by[0]!, `block ${number} is ${hash} there, and most others say something else`)
  if (doubts.length === 0) return { ...agreed, hash, number }
  // The head of one that is not believed does not hold the others back. Each turn has fewer of them.
  const rest = await agreeAmong(
    reaching.filter(({ upstream }) => by.includes(upstream)),
    options,
  )
  return { ...rest, doubts: [...doubts, ...rest.doubts] }
}

/** @param known what some have said already @throws {UpstreamError} where none answers */
export async function agreeOnBlock(
  upstreams: readonly Upstream[],
  number: number,
  { known, ...options }: { readonly known?: ReadonlyMap<Upstream, Hex> } & CallOptions = {},
): Promise<Agreed> {
  const told = await answers(
    upstreams,
    async (upstream) =>
      known?.get(upstream) ?? (await headOf(upstream, quantity(number), options))?.hash,
  )
  const { hash, by, doubts } = mostVoices(
    number,
    told.map(({ upstream, answer }) => [upstream, answer]),
  )
  return {
    ...{ hash, by },
    doubts: doubts.map(({ source: { name }, message }) => ({ name, message })),
  }
}

/** undefined: it has none. @throws {UpstreamError} */
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

/** The highest that more than half have come to: one of them alone cannot raise it. Of two the first, where they are far apart. */
function newestOfMost(numbers: readonly number[], lagBlocks: number): number {
  const [first, second] = numbers
  if (numbers.length === 2 && Math.abs(first! - second!) > lagBlocks) return first!
  return numbers.toSorted((a, b) => b - a)[numbers.length >> 1]!
}

/** Of those that answer. @throws {UpstreamError} that of the first, where none does */
async function answers<Answer>(
  upstreams: readonly Upstream[],
  ask: (upstream: Upstream) => Promise<Answer>,
): Promise<readonly { readonly upstream: Upstream; readonly answer: Answer }[]> {
  const settled = await Promise.allSettled(upstreams.map(ask))
  const found = settled.flatMap((one, at) =>
    one.status === 'fulfilled' ? [{ upstream: upstreams[at]!, answer: one.value }] : [],
  )
  const failures = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
  const bug = failures.find((reason) => !(reason instanceof UpstreamError))
  if (bug !== undefined) throw bug
  if (found.length === 0) throw failures[0] ?? new UpstreamError('silent', 'there is no upstream')
  return found
}
