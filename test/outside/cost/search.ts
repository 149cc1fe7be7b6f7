/**
 * This search finds inputs that cost the front too much. Expensive inputs are grown, spliced and
 * mutated, and new ones are added.
 */
import type { Method } from '../../../rpc/method/method.ts'
import { type Found, repeated } from './confirm.ts'
import { bodyOf, kindsOf } from './grammar.ts'
import type { Cost, MeasuredNode } from './measured-node.ts'
import { grown, mutated } from './mutate.ts'
import type { Dice } from './random.ts'
import { lengthOf } from './rope.ts'
import { RULES, type Rule, ratiosOf, worstOf } from './rules.ts'
import { type Case, describe, framed } from './wire.ts'

export interface Search {
  /** Tries the next input, and gives it where it costs too much each time. */
  next(): Promise<Found | undefined>
  /**
   * Checks whether a case's framing is expensive around any body; such a framing is used no more.
   */
  blame(one: Case): Promise<void>
  readonly tried: number
  /** Lists the worst ten of distinct shapes. */
  worst(rule: Rule): readonly Found[]
}

const RETAINED = 14
const WORST = 10
/** The fixed cost, which says nothing about the cost of a longer input. */
const BASE_MS = 1
const BASE_BYTES = 2_000
const FULL_BYTES = 2_000_000
const POINT_CHARACTERS = 60_000
/** This many inputs are measured together first, if their bodies are no longer than SMALL. */
const GROUP = 8
const SMALL = 100_000
/**
 * A group below these limits is not examined further; the limits count for each input and each
 * byte.
 */
const DULL_MS = 0.5
const DULL_MS_PER_BYTE = 15e-6
const DULL_ALLOCATED = 60_000
const DULL_ALLOCATED_PER_BYTE = 10
/** The search drops a shape that was found this often. */
const ENOUGH = 2

type Entry = { readonly one: Case; readonly score: number; readonly shape: string }

export function createSearch(options: {
  readonly node: MeasuredNode
  readonly methods: Iterable<Method>
  readonly dice: Dice
}): Search {
  const { node, dice } = options
  const kinds = kindsOf(options.methods)
  const corpus: Readonly<Record<Rule, Entry[]>> = { stretch: [], processor: [], allocation: [] }
  const worst: Readonly<Record<Rule, Found[]>> = { stretch: [], processor: [], allocation: [] }
  const found = new Map<string, number>()
  /** The parts of the framing that are expensive by themselves. */
  const causes = new Set<string>()
  const queue: Case[] = []
  const waiting: Case[] = []
  let tried = 0

  function choose(): Case {
    const one = proposed()
    // Framings that are expensive around any body would hide other findings.
    const times = causes.has(causeOf(one, 'times')) ? 1 : one.times
    const pieces = causes.has(causeOf(one, 'pieces')) ? [] : one.pieces
    return { ...one, times, pieces }
  }
  function proposed(): Case {
    const queued = queue.pop()
    if (queued !== undefined) return queued
    const entries = corpus[dice.pick(RULES)]
    if (entries.length < 3 || dice.chance(0.55)) return fresh()
    const { one } = dice.pick(entries)
    const other = dice.chance(0.5) ? dice.pick(corpus[dice.pick(RULES)] ?? entries) : undefined
    return mutated(dice, one, other?.one ?? fresh())
  }
  function fresh(): Case {
    // Most inputs are as long as one point pays for.
    const kind = dice.int(20)
    const characters =
      kind < 3
        ? POINT_CHARACTERS
        : kind < 19
          ? dice.size(100, POINT_CHARACTERS)
          : dice.chance(0.7)
            ? dice.size(POINT_CHARACTERS, 500_000)
            : FULL_BYTES - 10_000
    return framed(dice, bodyOf(dice, kinds, characters))
  }

  /** Retains a case that is among the most expensive of its kind. */
  function retain(one: Case, cost: Cost): void {
    const shape = shapeOf(one)
    if ((found.get(shape) ?? 0) >= ENOUGH) return
    const size = cost.bytes + cost.responseBytes + BASE_BYTES
    const scores: Record<Rule, number> = {
      stretch: Math.max(0, cost.stretchMs - BASE_MS) / size,
      processor: ratiosOf(cost).processor,
      allocation: cost.allocated / size,
    }
    for (const rule of RULES) add(corpus[rule], { one, shape, score: scores[rule] }, RETAINED)
  }
  function drop(shape: string): void {
    for (const rule of RULES)
      corpus[rule].splice(
        0,
        Number.POSITIVE_INFINITY,
        ...corpus[rule].filter((entry) => entry.shape !== shape),
      )
  }
  function record(found: Found): void {
    for (const rule of RULES) {
      const entry = { ...found, shape: shapeOf(found.one), score: found.ratios[rule] }
      add(worst[rule] as (Found & Entry)[], entry, WORST)
    }
  }
  async function blame(one: Case): Promise<void> {
    for (const [name, plain] of [
      ['times', { times: 1 }],
      ['pieces', { pieces: [] }],
    ] as const) {
      const isPlain = name === 'times' ? one.times === 1 : one.pieces.length === 0
      if (isPlain) continue
      const without = await repeated(node, { ...one, ...plain })
      if (worstOf(ratiosOf(without)) <= 1) causes.add(causeOf(one, name))
    }
  }
  /** Queues a longer version of a case whose slope may be too steep for a full body. */
  function growLater(one: Case, cost: Cost): void {
    const growth = Math.max(1, FULL_BYTES / cost.bytes)
    const wouldBe = (cost.stretchMs - BASE_MS) * growth
    const wouldAllocate = (cost.allocated - 200_000) / cost.bytes
    if (growth < 1.5 || queue.length > 20 || (wouldBe < 20 && wouldAllocate < 20)) return
    const longer = grown(one, Math.min(8, growth))
    if (longer !== undefined) queue.push(longer)
  }

  /** Measures small inputs as a group first, because most are cheap. */
  async function screen(): Promise<void> {
    const group = Array.from({ length: GROUP }, choose)
    tried += group.length
    const small = group.filter((one) => one.times === 1 && lengthOf(one.body) < SMALL)
    waiting.push(...group.filter((one) => !small.includes(one)))
    if (small.length === 0) return
    const { cpuMs, allocated, bytes, responseBytes } = await node.measureAll(small)
    const size = bytes + responseBytes
    const isDull =
      cpuMs < DULL_MS * small.length + DULL_MS_PER_BYTE * size &&
      allocated < DULL_ALLOCATED * small.length + DULL_ALLOCATED_PER_BYTE * size
    if (!isDull) waiting.push(...small)
  }

  async function tryOne(one: Case): Promise<Found | undefined> {
    const first = await node.measure(one)
    const ratios = ratiosOf(first)
    if (worstOf(ratios) <= 1) {
      retain(one, first)
      record({ one, cost: first, ratios })
      growLater(one, first)
      return undefined
    }
    const cost = await repeated(node, one, first)
    const confirmed = { one, cost, ratios: ratiosOf(cost) }
    record(confirmed)
    if (worstOf(confirmed.ratios) <= 1) {
      retain(one, cost)
      growLater(one, cost)
      return undefined
    }
    const shape = shapeOf(one)
    found.set(shape, (found.get(shape) ?? 0) + 1)
    if (found.get(shape)! >= ENOUGH) drop(shape)
    else retain(one, cost)
    return confirmed
  }

  return {
    get tried() {
      return tried
    },
    worst: (rule) => worst[rule],
    blame,
    async next() {
      while (waiting.length === 0) await screen()
      return tryOne(waiting.pop()!)
    },
  }
}

/** Names a part of the framing. Many small requests are another cause than a few large ones. */
function causeOf(one: Case, name: 'times' | 'pieces'): string {
  const size = name === 'times' ? one.times : Math.min(...one.pieces)
  return `${one.over} ${name} ${Math.ceil(Math.log2(Math.max(1, size)) / 4)}`
}

/** Describes a case without the lengths of its pieces. */
export function shapeOf(one: Case): string {
  return describe(one)
    .replace(/[0-9.]+/g, 'n')
    .slice(0, 120)
}

function add<E extends { readonly shape: string; readonly score: number }>(
  list: E[],
  entry: E,
  max: number,
): void {
  const same = list.findIndex(({ shape }) => shape === entry.shape)
  if (same >= 0) {
    if (list[same]!.score >= entry.score) return
    list.splice(same, 1)
  }
  const at = list.findIndex(({ score }) => score < entry.score)
  list.splice(at < 0 ? list.length : at, 0, entry)
  if (list.length > max) list.pop()
}
