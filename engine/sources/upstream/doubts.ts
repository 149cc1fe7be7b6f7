/** What of the upstreams is not as it should be, and why the chain stands still. */
import type { Doubt } from '../doubt.ts'
import { isUsable, type RestWhy, type Source } from './tracker-state.ts'
import type { Halt, Halted } from './tracker-types.ts'

export function degradedBy(sources: readonly Source[]): readonly Doubt[] {
  const told = (source: Source) => `${source.name}: ${source.rest!.message}`
  const resting = sources.filter((source) => !isUsable(source))
  if (resting.length === sources.length) {
    const outside = 'no upstream answers'
    return [{ text: `${outside}: ${resting.map(told).join('; ')}`, outside }]
  }
  return resting.flatMap((source) => {
    const outside = DOUBTS[source.rest!.why]
    return outside === undefined ? [] : [{ text: told(source), outside }]
  })
}

/** Of the reasons to rest those that somebody should look at. */
const DOUBTS: Readonly<Partial<Record<RestWhy, string>>> = {
  contradicts: 'an upstream contradicts the others',
  final: 'an upstream has another chain than what is final here',
  doubted: 'an upstream gives a block that is not what this node computes',
  foreign: 'an upstream has another chain',
}

export const haltDoubt = ({ why, message }: Halted): Doubt => ({
  text: message,
  outside: HALTS[why],
})

const HALTS: Readonly<Record<Halt, string>> = {
  deep: 'the chain was replaced deeper than this node can go back',
  refused: 'all upstreams give a block that is not what this node computes',
  type: 'the chain has a transaction of a type that this node does not support',
}

const BEGINS = 'the state begins anew'
export const beginsDoubt: Doubt = { text: BEGINS, outside: BEGINS }
