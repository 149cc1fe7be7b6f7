/** Which block most upstreams have at a height: while the chain is followed, and before. */
import type { Hex } from '../../primitives/bytes.ts'

/** What one says; undefined: it has none at that height. */
export type Claim<One> = readonly [source: One, hash: Hex | undefined]
export type Voices<One> = {
  readonly hash: Hex | undefined
  /** Those that say so, in the order of naming. */
  readonly by: readonly One[]
  /** Those that say something else. */
  readonly doubts: readonly { readonly source: One; readonly message: string }[]
}

/** Most voices win; among equally many the one with the upstream that was named first. @param claims at least one, in the order of naming */
export function mostVoices<One extends { readonly name: string }>(
  number: number,
  claims: readonly Claim<One>[],
): Voices<One> {
  // By hash in the order of the first named of each: the first of the largest wins.
  const groups = [...Map.groupBy(claims, ([, hash]) => hash)].toSorted(
    ([, a], [, b]) => b.length - a.length,
  )
  const [hash, winners] = groups[0]!
  const by = winners.map(([source]) => source)
  const names = by.map(({ name }) => name).join(' and ')
  const what = (one: Hex | undefined) => one ?? 'not there'
  const doubts = groups
    .slice(1)
    .flatMap(([, losers]) => losers)
    .map(([source, other]) => ({
      source,
      message: `block ${number} is ${what(other)} there, ${what(hash)} at ${names}`,
    }))
  return { hash, by, doubts }
}
