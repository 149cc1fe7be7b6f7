/** The rules of the tracker, one by one: upstreams answer at once, or when they are told to. */
import { describe, expect, test } from 'vitest'
import type { Hex } from '../../../engine/primitives/bytes.ts'
import type { FailureKind } from '../../../engine/sources/upstream/error.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import { createTracker } from '../../../engine/sources/upstream/tracker.ts'
import {
  type TrackedBlock,
  type TrackerEffect,
  type TrackerEvent,
  trackerTimes,
} from '../../../engine/sources/upstream/tracker-types.ts'

type Block = TrackedBlock & { readonly parent: Block | undefined }
type Effect = TrackerEffect<Block>
type Question = Effect & { readonly type: 'poll' | 'fetch' | 'ask' }

/** `count` blocks more, whose hashes begin with the digits of `name`. */
function grow(from: Block | undefined, count: number, name: string, bytes = 100): Block {
  let parent = from
  for (let at = 0; at < count; at++) {
    const number = parent === undefined ? 0 : parent.number + 1
    const hash: Hex = `0x${name}${number.toString(16).padStart(4, '0')}`
    const parentHash = parent?.hash ?? '0x'
    parent = { number, hash, parentHash, parent, gasUsed: 2_000_000, bytes }
  }
  return parent!
}
function at(block: Block, number: number): Block | undefined {
  let found: Block | undefined = number > block.number ? undefined : block
  while (found !== undefined && found.number > number) found = found.parent
  return found
}
const MAIN = grow(undefined, 101, 'aa')

class Source {
  head: Block = MAIN
  fails: FailureKind | undefined
  isHeld = false
  tags: { safe: number; finalized: number } | undefined
  readonly asked: Question[] = []
}

class Trial {
  now = 0
  canonical: Block
  readonly sources: readonly Source[]
  readonly sent: Block[] = []
  readonly effects: Effect[] = []
  isWriterHeld = false
  retryAfterMs = 0
  readonly #tracker
  readonly #waiting: (() => TrackerEvent<Block>)[] = []
  readonly #toWrite: Block[] = []
  #isDraining = false

  constructor(
    sources: number,
    more: {
      readonly head?: Block
      readonly finalized?: number
      readonly lazyStart?: number
      readonly stateDepth?: number
      readonly doubted?: ReadonlyMap<string, string>
    } = {},
  ) {
    const { head = MAIN, finalized = 20, lazyStart, stateDepth, doubted } = more
    this.canonical = head
    this.sources = Array.from({ length: sources }, () => new Source())
    this.#tracker = createTracker<Block>({
      upstreams: this.sources.map((_, index) => ({ name: `u${index}` })),
      now: () => this.now,
      hashOf: (number) => at(this.canonical, number)?.hash,
      head: { number: head.number, hash: head.hash },
      finalized,
      undoBlocks: 64,
      ...{ lazyStart, doubted },
      stateDepth: () => stateDepth,
      times: trackerTimes(1_000),
      limits: DEFAULT_UPSTREAM_LIMITS,
    })
  }

  apply(event: TrackerEvent<Block>): void {
    this.#waiting.push(() => event)
    if (this.#isDraining) return
    this.#isDraining = true
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift())
      for (const effect of this.#tracker.apply(next())) this.#carryOut(effect)
    this.#isDraining = false
  }
  tick(): this {
    this.apply({ type: 'tick' })
    return this
  }
  /** Time goes on as the tracker wants to be woken. */
  pass(ms: number): this {
    const until = this.now + ms
    for (;;) {
      const wake = Math.max(this.now + 1, this.#tracker.wakeAtMs())
      if (wake > until) break
      this.now = wake
      this.tick()
    }
    this.now = until
    return this.tick()
  }

  #carryOut(effect: Effect): void {
    if (effect.type === 'poll' || effect.type === 'fetch' || effect.type === 'ask') {
      const source = this.sources[effect.upstream]!
      source.asked.push(effect)
      if (!source.isHeld) this.#waiting.push(() => this.answerOf(effect))
      return
    }
    this.effects.push(effect)
    if (effect.type === 'sealed') {
      this.sent.push(effect.block)
      this.#toWrite.push(effect.block)
      if (!this.isWriterHeld) this.write()
    }
  }

  /** The writer takes what it has. */
  write(blocks = Number.POSITIVE_INFINITY): void {
    for (const block of this.#toWrite.splice(0, blocks))
      this.#waiting.push(() => {
        this.canonical = block
        return { type: 'published', head: { number: block.number, hash: block.hash } }
      })
    if (!this.#isDraining) this.tick()
  }
  refuse(block: Block, field = 'receiptsRoot'): void {
    this.#toWrite.length = 0
    this.apply({ type: 'refused', number: block.number, hash: block.hash, field })
  }

  answerOf(question: Question): TrackerEvent<Block> {
    const source = this.sources[question.upstream]!
    const { request } = question
    const { head, fails, tags } = source
    if (fails !== undefined)
      return {
        type: 'failed',
        request,
        kind: fails,
        message: fails,
        retryAfterMs: this.retryAfterMs,
      }
    if (question.type === 'ask')
      return { type: 'hash', request, hash: at(head, question.number)?.hash }
    if (question.type === 'poll') {
      const told = question.hasTags && tags !== undefined ? { tags: this.#tags(head, tags) } : {}
      return {
        type: 'head',
        upstream: question.upstream,
        request,
        head: { ...head, timestamp: 0 },
        ...told,
      }
    }
    const blocks: Block[] = []
    for (let number = question.first; number < question.first + question.count; number++) {
      const block = at(head, number)
      if (block === undefined) break
      blocks.push(block)
    }
    return { type: 'blocks', request, blocks }
  }
  #tags(head: Block, { safe, finalized }: { readonly safe: number; readonly finalized: number }) {
    return { safe: at(head, safe), finalized: at(head, finalized) }
  }
  push(upstream: number): void {
    const { head } = this.sources[upstream]!
    this.apply({ type: 'head', upstream, request: undefined, head: { ...head, timestamp: 0 } })
  }

  of<T extends Effect['type']>(type: T) {
    return this.effects.filter((one) => one.type === type) as (Effect & { readonly type: T })[]
  }
  get warnings(): readonly string[] {
    return this.of('warning').map(({ message }) => message)
  }
  get status() {
    return this.#tracker.status()
  }
  get shared() {
    return this.#tracker.shared()
  }
  get order() {
    return this.#tracker.order()
  }
  polls(upstream: number): readonly Question[] {
    return this.sources[upstream]!.asked.filter(({ type }) => type === 'poll')
  }
  fetches(upstream: number): readonly (Question & { readonly type: 'fetch' })[] {
    return this.sources[upstream]!.asked.filter((one) => one.type === 'fetch')
  }
}
const numbers = (blocks: readonly TrackedBlock[]) => blocks.map(({ number }) => number)

describe('forward', () => {
  test('a new head is fetched and sent once', () => {
    const trial = new Trial(1).tick()
    expect(trial.sent).toEqual([])
    trial.sources[0]!.head = grow(MAIN, 1, 'aa')
    trial.pass(600)
    expect(numbers(trial.sent)).toEqual([101])
    trial.pass(3_000)
    expect(numbers(trial.sent)).toEqual([101])
    expect(trial.status).toMatchObject({ head: 101, canonical: 101, degraded: [] })
  })
  test('heads are asked for at half the block time, where they are told only now and then', () => {
    const polled = new Trial(1).tick().pass(10_000)
    expect(polled.polls(0).length).toBeGreaterThanOrEqual(20)
    const told = new Trial(1).tick()
    for (let second = 0; second < 10; second++) {
      told.sources[0]!.head = grow(told.sources[0]!.head, 1, 'aa')
      told.push(0)
      told.pass(1_000)
    }
    expect(numbers(told.sent)).toEqual([101, 102, 103, 104, 105, 106, 107, 108, 109, 110])
    // For safe and finalized alone.
    expect(told.polls(0).length).toBeLessThanOrEqual(7)
    told.pass(10_000)
    expect(told.polls(0).length).toBeGreaterThan(15)
  })
  test('many blocks come in ranges through a window, as the writer goes on', () => {
    const trial = new Trial(1)
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(MAIN, 1_000, 'aa')
    trial.tick()
    expect(trial.sent.length).toBe(128)
    expect(trial.fetches(0).every(({ count }) => count <= 16)).toBe(true)
    trial.write(10)
    expect(trial.sent.length).toBe(138)
    trial.isWriterHeld = false
    trial.write()
    expect(numbers(trial.sent)).toEqual(Array.from({ length: 1_000 }, (_, index) => 101 + index))
  })
  test('no more is asked for while what waits is large', () => {
    const trial = new Trial(1)
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(MAIN, 1_000, 'aa', 2 * 1024 * 1024)
    trial.tick()
    // What is under way when the bound is met still comes.
    const first = trial.sent.length
    expect(first).toBeLessThan(100)
    trial.write(first - 31)
    expect(trial.sent.length).toBeGreaterThan(first)
  })
  test('so many ranges at a time, in whatever order they come', () => {
    const trial = new Trial(1)
    const [source] = trial.sources as [Source]
    source.head = grow(MAIN, 64, 'aa')
    source.isHeld = true
    trial.tick()
    trial.apply(trial.answerOf(source.asked[0]!))
    const fetches = trial.fetches(0)
    expect(fetches.map(({ first, count }) => [first, count])).toEqual([
      [101, 16],
      [117, 16],
      [133, 16],
      [149, 16],
    ])
    for (const one of fetches.toReversed()) trial.apply(trial.answerOf(one))
    expect(numbers(trial.sent)).toEqual(Array.from({ length: 64 }, (_, index) => 101 + index))
  })
  test('a range that ends early is asked for again from there, the ones below it go on', () => {
    const trial = new Trial(1)
    const [source] = trial.sources as [Source]
    source.head = grow(MAIN, 40, 'aa')
    source.isHeld = true
    trial.tick()
    trial.apply(trial.answerOf(source.asked[0]!))
    const [first, second, third] = trial.fetches(0)
    const short = trial.answerOf(second!) as TrackerEvent<Block> & { readonly type: 'blocks' }
    trial.apply({ ...short, blocks: short.blocks.slice(0, 3) })
    trial.apply(trial.answerOf(third!))
    trial.apply(trial.answerOf(first!))
    expect(numbers(trial.sent)).toEqual(Array.from({ length: 19 }, (_, index) => 101 + index))
    source.isHeld = false
    trial.pass(1_000)
    expect(trial.sent.length).toBe(40)
    expect(trial.warnings).toEqual([])
  })
  test('one that goes on not to give what it has told of rests', () => {
    const trial = new Trial(2)
    const [source, other] = trial.sources as [Source, Source]
    const head = grow(MAIN, 1, 'aa')
    source.head = head
    source.isHeld = true
    trial.tick()
    trial.apply(trial.answerOf(source.asked[0]!))
    source.isHeld = false
    trial.apply({ type: 'blocks', request: trial.fetches(0)[0]!.request, blocks: [] })
    const push = () =>
      trial.apply({
        type: 'head',
        upstream: 0,
        request: undefined,
        head: { ...head, timestamp: 0 },
      })
    source.head = MAIN
    for (let second = 0; second < 7; second++) {
      push()
      trial.pass(1_000)
    }
    expect(trial.warnings).toEqual([
      'u0 is not asked for a while: it does not give block 101, which it has told of',
    ])
    other.head = head
    trial.pass(3_000)
    expect(numbers(trial.sent)).toEqual([101])
  })
  test('a catch-up says how far it is', () => {
    const trial = new Trial(1)
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(MAIN, 400, 'aa')
    trial.tick()
    for (let second = 0; second < 5; second++) {
      trial.pass(1_000)
      trial.write(20)
    }
    trial.pass(1_000)
    const { catchUp } = trial.of('status').at(-1)!.status
    expect(catchUp).toMatchObject({ from: 100, at: 200, to: 500 })
    expect(catchUp!.blocksPerSecond).toBeGreaterThan(15)
    expect(catchUp!.blocksPerSecond).toBeLessThan(25)
    expect(catchUp!.mgasPerSecond).toBeCloseTo(2 * catchUp!.blocksPerSecond)
    expect(catchUp!.leftMs).toBeCloseTo((300 / catchUp!.blocksPerSecond) * 1_000)
    trial.isWriterHeld = false
    trial.write()
    expect(trial.status.catchUp).toBeUndefined()
  })
})

describe('another chain', () => {
  const depths = [1, 2, 15, 16, 17, 33, 63, 64]
  test.each(depths)('of %i blocks is taken, oldest first', (depth) => {
    const trial = new Trial(1).tick()
    trial.sources[0]!.head = grow(at(MAIN, 100 - depth), depth + 1, 'bb')
    trial.pass(1_000)
    expect(numbers(trial.sent)).toEqual(
      Array.from({ length: depth + 1 }, (_, index) => 101 - depth + index),
    )
    expect(trial.canonical.hash).toBe('0xbb0065')
    expect(trial.warnings).toEqual([
      `the chain goes on from block ${100 - depth} in another way: ${depth} blocks are replaced`,
    ])
  })
  test.each([
    ['as high as ours', 3, 3],
    ['lower than ours', 5, 1],
  ])('%s is taken at once', (_, depth, length) => {
    const trial = new Trial(1).tick()
    trial.sources[0]!.head = grow(at(MAIN, 100 - depth), length, 'bb')
    trial.pass(600)
    expect(trial.canonical).toBe(trial.sources[0]!.head)
    // And goes on from there.
    trial.sources[0]!.head = grow(trial.canonical, depth + 3, 'bb')
    trial.pass(600)
    expect(trial.canonical).toBe(trial.sources[0]!.head)
  })
  test('a head that is lower, and ours, changes nothing', () => {
    const trial = new Trial(1).tick()
    trial.sources[0]!.head = at(MAIN, 90)!
    trial.pass(5_000)
    expect(trial.sent).toEqual([])
    expect(trial.warnings).toEqual([])
  })
  test('deeper than can be taken back: it halts and says what to do, until the chain is ours again', () => {
    const trial = new Trial(1).tick()
    trial.sources[0]!.head = grow(at(MAIN, 35), 70, 'bb')
    trial.pass(60_000)
    expect(trial.of('halted')).toEqual([
      {
        type: 'halted',
        why: 'deep',
        message:
          'block 36 is 0xaa0024 here and 0xbb0024 at u0: the chain was replaced deeper than the 64 blocks that can be taken back; start again with another --datadir',
      },
    ])
    expect(trial.sent).toEqual([])
    expect(trial.status.halted?.text).toContain('start again')
    // Looked at now and then.
    expect(trial.fetches(0).length).toBeLessThan(60)
    trial.sources[0]!.head = grow(MAIN, 1, 'aa')
    trial.pass(11_000)
    expect(trial.of('resumed').length).toBe(1)
    expect(numbers(trial.sent)).toEqual([101])
    expect(trial.status.halted).toBeUndefined()
  })
  test('to below the block at which a lazy state begins: it halts, and whoever drives is told to look', () => {
    const trial = new Trial(1, { lazyStart: 97 }).tick()
    trial.sources[0]!.head = grow(at(MAIN, 96), 5, 'bb')
    trial.pass(3_000)
    expect(trial.sent).toEqual([])
    expect(trial.status.halted?.text).toBe(
      'block 97 is 0xaa0061 here and 0xbb0061 at u0: the chain was replaced deeper than block 97, at which the state begins; the state begins anew where most upstreams say so',
    )
    expect(trial.of('left')).toEqual([
      { type: 'left', why: 'block 97 is 0xaa0061 here and 0xbb0061 at u0' },
    ])
    const other = new Trial(1, { lazyStart: 97 }).tick()
    other.sources[0]!.head = grow(at(MAIN, 97), 5, 'bb')
    other.pass(3_000)
    expect(other.canonical).toBe(other.sources[0]!.head)
  })
  test('says up to where both chains are one, while the writer goes over', () => {
    const trial = new Trial(1).tick()
    expect(trial.shared).toBe(100)
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(at(MAIN, 95), 8, 'bb')
    trial.pass(3_000)
    expect(trial.shared).toBe(95)
    trial.isWriterHeld = false
    trial.write()
    expect(trial.shared).toBe(103)
  })
  test('is not begun before the writer has what it was sent', () => {
    const trial = new Trial(1).tick()
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(MAIN, 3, 'aa')
    trial.pass(600)
    trial.sources[0]!.head = grow(MAIN, 5, 'bb')
    trial.pass(3_000)
    expect(numbers(trial.sent)).toEqual([101, 102, 103])
    trial.isWriterHeld = false
    trial.write()
    trial.pass(600)
    expect(numbers(trial.sent)).toEqual([101, 102, 103, 101, 102, 103, 104, 105])
  })
  test('whose upstream goes on to a third one while it is walked is given up for that', () => {
    const trial = new Trial(1).tick()
    const [source] = trial.sources as [Source]
    source.head = grow(at(MAIN, 60), 45, 'bb')
    source.isHeld = true
    trial.pass(600)
    trial.apply(trial.answerOf(source.asked.at(-1)!))
    // Blocks above ours do not stand on ours; the walk begins.
    trial.apply(trial.answerOf(source.asked.at(-1)!))
    const walked = trial.fetches(0).at(-1)!
    expect(walked.first).toBeLessThan(100)
    source.head = grow(at(MAIN, 70), 45, 'cc')
    source.isHeld = false
    trial.apply(trial.answerOf(walked))
    trial.pass(3_000)
    expect(trial.canonical.hash).toBe(source.head.hash)
    expect(trial.sent.every(({ hash }) => hash.startsWith('0xcc'))).toBe(true)
  })

  test('that has another final block counts for nothing, whoever is left is followed', () => {
    const trial = new Trial(2, { finalized: 90 }).tick()
    const [liar, honest] = trial.sources as [Source, Source]
    liar.head = grow(at(MAIN, 85), 30, 'bb')
    honest.head = grow(MAIN, 2, 'aa')
    trial.pass(5_000)
    expect(trial.canonical).toBe(honest.head)
    expect(trial.of('halted')).toEqual([])
    expect(trial.sent.some(({ hash }) => hash.startsWith('0xbb'))).toBe(false)
  })
  test('one of whose blocks is final by the time it is fetched is not taken', () => {
    const trial = new Trial(1).tick()
    const [source] = trial.sources as [Source]
    source.head = grow(at(MAIN, 95), 5, 'bb')
    source.isHeld = true
    trial.push(0)
    const walked = trial.answerOf(trial.fetches(0).at(-1)!)
    const tags = { safe: at(MAIN, 98), finalized: at(MAIN, 97) }
    const head = { ...MAIN, timestamp: 0 }
    trial.apply({ type: 'head', upstream: 0, request: undefined, head, tags })
    expect(trial.of('marks')).toMatchObject([{ safe: 98, finalized: 97 }])
    trial.apply(walked)
    expect(trial.sent).toEqual([])
    expect(trial.status.halted?.text).toContain('block 96 is final here and not what u0 has')
  })
  test('that has another final block, and nobody is left: it halts', () => {
    const trial = new Trial(1, { finalized: 90 }).tick()
    trial.sources[0]!.head = grow(at(MAIN, 85), 30, 'bb')
    trial.pass(5_000)
    expect(trial.sent).toEqual([])
    expect(trial.of('halted')).toMatchObject([
      {
        why: 'deep',
        message:
          'block 90 is final here and not what u0 has: give another --upstream, or start again with another --datadir',
      },
    ])
    expect(trial.status.degraded[0]?.text).toContain(
      'block 90, which is final, is 0xbb005a there, 0xaa005a here',
    )
  })
})

describe('who is right', () => {
  const heads = (trial: Trial, ...names: readonly string[]) => {
    for (const [index, name] of names.entries())
      trial.sources[index]!.head = grow(
        name === 'aa' ? MAIN : at(MAIN, 98),
        name === 'aa' ? 3 : 5,
        name,
      )
  }
  /** Upstreams by the chain that each has; which one is followed in the end, and who rests. */
  const cases: [heads: string[], followed: string, resting: number[]][] = [
    [['aa', 'aa', 'bb'], 'aa', [2]],
    [['bb', 'aa', 'aa'], 'aa', [0]],
    [['aa', 'bb', 'bb'], 'bb', [0]],
    [['bb', 'bb', 'aa'], 'bb', [2]],
    [['aa', 'bb'], 'aa', [1]],
    [['bb', 'aa'], 'bb', [1]],
    [['bb', 'cc', 'aa'], 'bb', [1, 2]],
    [['bb'], 'bb', []],
  ]
  test.each(cases)('%j', (names, followed, resting) => {
    const trial = new Trial(names.length).tick()
    heads(trial, ...names)
    trial.pass(10_000)
    expect(trial.canonical.hash.slice(2, 4)).toBe(followed)
    expect(
      trial.status.upstreams.flatMap(({ rests }, index) => (rests === undefined ? [] : [index])),
    ).toEqual(resting)
    expect(trial.status.degraded.length).toBe(resting.length)
    expect(trial.order).toEqual(
      names.flatMap((_, index) => (resting.includes(index) ? [] : [index])),
    )
  })
  /** The first is followed from its block 101 on, and goes on at this pace; the others are three blocks ahead. */
  const ahead = (names: readonly string[], perSecond: number) => {
    const trial = new Trial(names.length, { head: grow(MAIN, 1, names[0]!) }).tick()
    for (let second = 0; second < 20; second++) {
      for (const [index, name] of names.entries())
        trial.sources[index]!.head = grow(MAIN, 1 + second * perSecond + (index && 3), name)
      trial.pass(1_000)
    }
    return trial
  }
  test.each([0, 1])('two that are ahead of one that goes on by %i: it is outvoted', (perSecond) => {
    const trial = ahead(['bb', 'aa', 'aa'], perSecond)
    expect(trial.canonical.hash).toBe(trial.sources[1]!.head.hash)
    expect(trial.status.upstreams.map(({ rests }) => rests)).toEqual([
      expect.stringMatching(/^block 10\d is 0xbb006\d there, 0xaa006\d at u1 and u2$/),
      undefined,
      undefined,
    ])
  })
  test('one that is ahead of two others, or of an only one: nobody can tell', () => {
    const others = ahead(['aa', 'aa', 'bb'], 0)
    expect(others.canonical.hash).toBe('0xaa0065')
    const two = ahead(['bb', 'aa'], 0)
    expect(two.canonical.hash).toBe('0xbb0065')
    expect(two.warnings).toEqual([])
  })
  test('those that are one block ahead say by their parent that nobody needs to be asked', () => {
    const asked = (blocks: number) => {
      const trial = new Trial(3).tick()
      for (const one of trial.sources.slice(1)) one.head = grow(MAIN, blocks, 'aa')
      trial.pass(30_000)
      expect(trial.warnings).toEqual([])
      return trial.sources.map(({ asked }) => asked.filter(({ type }) => type === 'ask').length)
    }
    expect(asked(1)).toEqual([0, 0, 0])
    // All are asked at most each five seconds, and these tell of heads each two.
    expect(asked(2)).toEqual([5, 5, 5])
  })
  test('the others are asked where the branch begins: they may not have its top yet', () => {
    const trial = new Trial(3).tick()
    const [first, ...others] = trial.sources as [Source, ...Source[]]
    first.head = grow(MAIN, 3, 'aa')
    for (const one of others) one.head = grow(MAIN, 2, 'aa')
    trial.pass(600)
    expect(trial.canonical).toBe(first.head)
    first.head = grow(at(MAIN, 98), 5, 'bb')
    trial.pass(3_000)
    expect(trial.canonical.hash).toBe('0xaa0067')
    expect(trial.status.upstreams[0]!.rests).toBe(
      'block 99 is 0xbb0063 there, 0xaa0063 at u1 and u2',
    )
  })
  test('one that is silent has no voice', () => {
    const trial = new Trial(3).tick()
    heads(trial, 'bb', 'aa', 'aa')
    trial.sources[2]!.fails = 'silent'
    trial.pass(10_000)
    expect(trial.canonical.hash.slice(2, 4)).toBe('bb')
  })
  test('who contradicts rests a minute, then it is asked again', () => {
    const trial = new Trial(2).tick()
    heads(trial, 'aa', 'bb')
    trial.pass(5_000)
    expect(trial.status.upstreams[1]!.rests).toContain(
      'block 103 is 0xbb0067 there, 0xaa0067 at u0',
    )
    const polls = trial.polls(1).length
    trial.sources[1]!.head = trial.sources[0]!.head
    trial.pass(50_000)
    expect(trial.polls(1).length).toBe(polls)
    expect(trial.status.degraded.length).toBe(1)
    trial.pass(10_000)
    expect(trial.polls(1).length).toBeGreaterThan(polls)
    expect(trial.status.degraded).toEqual([])
  })
  test('what is under way from one that was outvoted is not taken', () => {
    const trial = new Trial(3).tick()
    heads(trial, 'aa', 'aa', 'aa')
    const [leader] = trial.sources as [Source]
    leader.head = grow(grow(at(MAIN, 98), 2, 'bb'), 20, 'bb')
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe('0xaa0067')
    expect(trial.sent.every(({ hash }) => hash.startsWith('0xaa'))).toBe(true)
  })
})

describe('rests', () => {
  const kinds: FailureKind[] = ['refused', 'silent', 'unreachable', 'large', 'broken', 'wrong']
  test.each(kinds)('one that fails (%s) is not asked for a minute; the next one is', (kind) => {
    const trial = new Trial(2).tick()
    const [first, second] = trial.sources as [Source, Source]
    first.fails = kind
    for (const one of [first, second]) one.head = grow(MAIN, 2, 'aa')
    trial.pass(3_000)
    expect(numbers(trial.sent)).toEqual([101, 102])
    expect(trial.warnings).toEqual([`u0 is not asked for a while: ${kind}`])
    expect(trial.status.upstreams[0]!.rests).toBe(kind)
    // It is a fault of one, and the other one has all: nothing is degraded.
    expect(trial.status.degraded).toEqual([])
    const polls = trial.polls(0).length
    trial.pass(55_000)
    expect(trial.polls(0).length).toBe(polls)
    first.fails = undefined
    trial.pass(5_000)
    expect(trial.polls(0).length).toBeGreaterThan(polls)
    expect(trial.order).toEqual([0, 1])
  })
  test('the only one is tried again soon, and said once', () => {
    const trial = new Trial(1).tick()
    const [source] = trial.sources as [Source]
    source.fails = 'unreachable'
    trial.pass(10_000)
    expect(trial.status.degraded).toEqual([
      { text: 'no upstream answers: u0: unreachable', outside: 'no upstream answers' },
    ])
    expect(trial.polls(0).length).toBeGreaterThan(4)
    source.fails = undefined
    source.head = grow(MAIN, 5, 'aa')
    trial.pass(8_500)
    expect(trial.canonical.hash).toBe(source.head.hash)
    expect(trial.status.degraded).toEqual([])
    expect(trial.warnings.length).toBe(1)
  })
  test('the only one, which tells of heads and gives no block, is said once as well', () => {
    const trial = new Trial(1).tick()
    const [source] = trial.sources as [Source]
    source.fails = 'broken'
    for (let second = 0; second < 10; second++) {
      source.head = grow(source.head, 1, 'aa')
      trial.push(0)
      trial.pass(1_000)
    }
    expect(trial.warnings).toEqual(['u0 is not asked for a while: broken'])
  })
  test('what comes late from one that has failed since is not taken', () => {
    const trial = new Trial(2).tick()
    const [first] = trial.sources as [Source]
    first.head = grow(at(MAIN, 99), 20, 'bb')
    first.isHeld = true
    trial.push(0)
    const [late] = trial.fetches(0)
    trial.pass(2_500)
    const poll = trial.polls(0).at(-1)!
    trial.apply({
      type: 'failed',
      request: poll.request,
      kind: 'silent',
      message: 'silent',
      retryAfterMs: 0,
    })
    trial.apply(trial.answerOf(late!))
    trial.pass(3_000)
    expect(trial.sources.flatMap(({ asked }) => asked).some(({ type }) => type === 'ask')).toBe(
      false,
    )
    expect(trial.warnings).toEqual(['u0 is not asked for a while: silent'])
  })
  test('the only one is tried at most each ten seconds', () => {
    const trial = new Trial(1).tick()
    trial.sources[0]!.fails = 'unreachable'
    trial.pass(120_000)
    const polls = trial.polls(0).length
    trial.pass(100_000)
    expect(trial.polls(0).length - polls).toBeLessThanOrEqual(11)
    expect(trial.polls(0).length - polls).toBeGreaterThanOrEqual(9)
  })
  test('one that wants fewer requests rests as long as it says, without a word', () => {
    const trial = new Trial(2).tick()
    trial.sources[0]!.fails = 'limited'
    trial.retryAfterMs = 20_000
    trial.pass(1_000)
    expect(trial.order).toEqual([1])
    const polls = trial.polls(0).length
    trial.pass(18_000)
    expect(trial.polls(0).length).toBe(polls)
    trial.sources[0]!.fails = undefined
    trial.pass(2_000)
    expect(trial.order).toEqual([0, 1])
    expect(trial.warnings).toEqual([])
  })
  test('so does the only one', () => {
    const trial = new Trial(1).tick()
    trial.sources[0]!.fails = 'limited'
    trial.retryAfterMs = 20_000
    trial.pass(1_000)
    const polls = trial.polls(0).length
    trial.pass(18_000)
    expect(trial.polls(0).length).toBe(polls)
    trial.pass(2_000)
    expect(trial.polls(0).length).toBe(polls + 1)
  })
  test.each([
    ['answers', undefined, true],
    ['wants fewer requests', 'limited', true],
    ['is not there', 'unreachable', false],
    ['answers what nobody understands', 'broken', false],
  ] as const)('whether it need not be waited for, where the other one %s', (_, fails, isSo) => {
    const trial = new Trial(2).tick()
    const [first, second] = trial.sources as [Source, Source]
    second.fails = fails
    trial.pass(5_000)
    first.asked.length = 0
    first.head = grow(MAIN, 20, 'aa')
    trial.pass(1_000)
    expect(trial.canonical).toBe(first.head)
    const told = first.asked.map(({ type, hasOthers }) => `${type} ${hasOthers}`)
    expect(new Set(told)).toEqual(new Set([`poll ${isSo}`, `fetch ${isSo}`]))
  })
  test('one that falls behind two others rests at once', () => {
    const trial = new Trial(3).tick()
    const [, second, third] = trial.sources as [Source, Source, Source]
    for (const one of [second, third]) one.head = grow(MAIN, 9, 'aa')
    trial.pass(3_000)
    expect(trial.warnings).toEqual([
      'u0 is not asked for a while: its head is 9 blocks behind that of others',
    ])
    expect(trial.canonical).toBe(second.head)
  })
  test('one that is a little behind does not', () => {
    const trial = new Trial(3).tick()
    for (const one of trial.sources.slice(1)) one.head = grow(MAIN, 8, 'aa')
    trial.pass(30_000)
    expect(trial.warnings).toEqual([])
    expect(trial.sent).toEqual([])
  })
  test('one far ahead does not make two others rest', () => {
    const trial = new Trial(3).tick()
    trial.sources[2]!.head = grow(MAIN, 900, 'cc')
    trial.pass(30_000)
    expect(trial.warnings).toEqual([])
  })
  test('of two, one rests that stands still far behind; one that moves does not', () => {
    const stands = new Trial(2).tick()
    stands.sources[1]!.head = grow(MAIN, 50, 'aa')
    stands.pass(4_000)
    expect(stands.warnings).toEqual([])
    stands.pass(3_000)
    expect(stands.warnings.length).toBe(1)
    expect(stands.canonical).toBe(stands.sources[1]!.head)
    const moves = new Trial(2).tick()
    moves.sources[1]!.head = grow(MAIN, 50, 'aa')
    for (let second = 0; second < 10; second++) {
      moves.sources[0]!.head = grow(moves.sources[0]!.head, 1, 'aa')
      moves.pass(1_000)
    }
    expect(moves.warnings).toEqual([])
  })
  test('of two, one that stood still on a chain of its own is not followed for a moment after its rest', () => {
    const trial = new Trial(2, { head: grow(MAIN, 1, 'bb') }).tick()
    const [first, second] = trial.sources as [Source, Source]
    first.head = trial.canonical
    for (let at = 0; at < 200; at++) {
      second.head = grow(MAIN, 1 + at, 'aa')
      trial.pass(1_000)
      if (at > 20) expect(trial.canonical.hash).toBe(second.head.hash)
    }
    const asked = trial.polls(0).length
    first.head = second.head
    trial.pass(60_000)
    expect(trial.polls(0).length).toBeGreaterThan(asked + 10)
    expect(trial.order).toEqual([0, 1])
  })
  test('one of another chain is never asked again', () => {
    const trial = new Trial(2)
    const [first] = trial.sources as [Source]
    first.isHeld = true
    trial.tick()
    trial.apply({ type: 'foreign', request: first.asked[0]!.request, message: 'it has chain 1' })
    trial.pass(200_000)
    expect(first.asked.length).toBe(1)
    expect(trial.warnings).toEqual(['u0 is not asked for a while: it has chain 1'])
  })
})

describe('every ending of a question settles it', () => {
  const kinds: readonly FailureKind[] = [
    ...(['refused', 'limited', 'silent', 'unreachable', 'large', 'broken', 'wrong'] as const),
  ]
  type Ending = (question: Question) => TrackerEvent<Block>
  const endings: readonly (readonly [name: string, ending: Ending])[] = [
    ['foreign', ({ request }) => ({ type: 'foreign', request, message: 'it has chain 1' })],
    ...kinds.map((kind) => {
      const ending: Ending = ({ request }) => ({
        ...{ type: 'failed', request, kind, message: kind, retryAfterMs: 60_000 },
      })
      return [kind, ending] as const
    }),
  ]

  test.each(endings)('a poll: %s', (_, ending) => {
    const trial = new Trial(2)
    const [held, other] = trial.sources as [Source, Source]
    held.isHeld = true
    trial.tick()
    trial.apply(ending(held.asked[0]!))
    other.head = grow(MAIN, 3, 'aa')
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe(other.head.hash)
  })

  test.each(endings)('a range: %s', (_, ending) => {
    const trial = new Trial(2).tick()
    const [held, other] = trial.sources as [Source, Source]
    held.head = grow(MAIN, 3, 'aa')
    other.head = held.head
    trial.pass(490)
    held.isHeld = true
    trial.push(0)
    expect(trial.fetches(0)).toHaveLength(1)
    trial.apply(ending(trial.fetches(0)[0]!))
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe(other.head.hash)
  })

  test.each(endings)('a branch: %s', (_, ending) => {
    const trial = new Trial(2).tick()
    const [held, other] = trial.sources as [Source, Source]
    held.head = grow(at(MAIN, 60), 40, 'bb')
    other.head = held.head
    trial.pass(490)
    held.isHeld = true
    trial.push(0)
    const walked = trial.fetches(0).at(-1)!
    expect(walked.first + walked.count).toBe(101)
    trial.apply(ending(walked))
    trial.pass(20_000)
    expect(trial.canonical.hash).toBe(other.head.hash)
  })

  test.each(endings)('a vote: %s', (_, ending) => {
    const trial = new Trial(3)
    const [leader, other, held] = trial.sources as [Source, Source, Source]
    held.isHeld = true
    trial.tick()
    leader.head = grow(at(MAIN, 98), 5, 'bb')
    other.head = leader.head
    trial.pass(600)
    expect(held.asked.map(({ type }) => type)).toEqual(['poll', 'ask'])
    for (const question of held.asked) trial.apply(ending(question))
    trial.pass(20_000)
    expect(trial.canonical.hash).toBe(leader.head.hash)
  })

  test('a vote: no block at that height', () => {
    const trial = new Trial(2)
    const [leader, held] = trial.sources as [Source, Source]
    held.isHeld = true
    trial.tick()
    leader.head = grow(at(MAIN, 98), 5, 'bb')
    trial.pass(600)
    trial.apply({ type: 'hash', request: held.asked.at(-1)!.request, hash: undefined })
    trial.pass(1_000)
    expect(trial.canonical.hash).toBe(leader.head.hash)
  })

  test('a branch: no block, and it is not asked again at once', () => {
    const trial = new Trial(1).tick()
    const [source] = trial.sources as [Source]
    source.head = grow(at(MAIN, 60), 40, 'bb')
    trial.pass(490)
    source.isHeld = true
    trial.push(0)
    trial.apply({ type: 'blocks', request: trial.fetches(0).at(-1)!.request, blocks: [] })
    expect(trial.fetches(0)).toHaveLength(1)
    source.isHeld = false
    trial.apply(trial.answerOf(source.asked.at(-1)!))
    trial.pass(2_000)
    expect(trial.canonical.hash).toBe(source.head.hash)
  })

  test('a claim of one that turns out to be of another chain counts for nothing', () => {
    const trial = new Trial(2)
    const [foreign, held] = trial.sources as [Source, Source]
    trial.tick()
    held.isHeld = true
    foreign.head = grow(at(MAIN, 98), 2, 'bb')
    trial.pass(490)
    trial.push(0)
    foreign.isHeld = true
    trial.pass(3_000)
    const poll = foreign.asked.at(-1)!
    trial.apply({ type: 'foreign', request: poll.request, message: 'it has chain 1' })
    held.isHeld = false
    held.head = grow(MAIN, 2, 'aa')
    for (const question of held.asked) trial.apply(trial.answerOf(question))
    trial.pass(2_000)
    expect(trial.status.upstreams.map(({ rests }) => rests)).toEqual(['it has chain 1', undefined])
    expect(trial.canonical.hash).toBe(held.head.hash)
  })
})

describe('marks', () => {
  const tagged = (trial: Trial, safe: number, finalized: number) => {
    for (const one of trial.sources) one.tags = { safe, finalized }
  }
  test('are those of the upstream’s tags, once our chain has come to them', () => {
    const trial = new Trial(1).tick()
    tagged(trial, 103, 90)
    trial.pass(3_000)
    expect(trial.of('marks')).toEqual([{ type: 'marks', safe: 90, finalized: 90 }])
    trial.sources[0]!.head = grow(MAIN, 5, 'aa')
    trial.pass(3_000)
    expect(trial.of('marks').at(-1)).toEqual({ type: 'marks', safe: 103, finalized: 90 })
  })
  test('of another chain than ours count for nothing', () => {
    const trial = new Trial(2).tick()
    const [liar] = trial.sources as [Source]
    tagged(trial, 99, 98)
    liar.head = grow(at(MAIN, 80), 30, 'bb')
    liar.isHeld = true
    trial.pass(3_000)
    trial.apply(trial.answerOf(liar.asked.find((one) => one.type === 'poll' && one.hasTags)!))
    expect(trial.of('marks')).toEqual([])
  })
  test('of one that is not followed any more count for nothing', () => {
    const trial = new Trial(2)
    const [first, second] = trial.sources as [Source, Source]
    first.isHeld = true
    trial.tick()
    second.isHeld = true
    tagged(trial, 95, 94)
    trial.pass(3_000)
    const late = second.asked.find((one) => one.type === 'poll' && one.hasTags)!
    trial.apply(trial.answerOf(first.asked[0]!))
    trial.apply(trial.answerOf(late))
    expect(trial.of('marks')).toEqual([])
  })
  test('finalized never goes back, safe goes back with its chain', () => {
    const trial = new Trial(1).tick()
    tagged(trial, 95, 90)
    trial.pass(3_000)
    tagged(trial, 93, 85)
    trial.pass(3_000)
    expect(trial.of('marks').at(-1)).toEqual({ type: 'marks', safe: 93, finalized: 90 })
    trial.sources[0]!.head = grow(at(MAIN, 91), 12, 'bb')
    trial.pass(600)
    const kinds = trial.effects.filter(({ type }) => type === 'marks' || type === 'sealed')
    expect(kinds.slice(2, 4)).toMatchObject([
      { type: 'marks', safe: 91, finalized: 90 },
      { type: 'sealed' },
    ])
  })
  test('an upstream without tags leaves them where they were', () => {
    const trial = new Trial(1).tick().pass(10_000)
    expect(trial.of('marks')).toEqual([])
  })
})

describe('what the writer refuses', () => {
  test('is asked of another upstream; who gave it rests', () => {
    const trial = new Trial(2).tick()
    const [first, second] = trial.sources as [Source, Source]
    trial.isWriterHeld = true
    first.head = grow(MAIN, 3, 'bb')
    second.head = grow(MAIN, 3, 'aa')
    trial.pass(600)
    expect(numbers(trial.sent)).toEqual([101, 102, 103])
    const [bad, child] = trial.sent as [Block, Block]
    trial.refuse(bad)
    trial.refuse(child, 'parentHash')
    trial.isWriterHeld = false
    trial.pass(3_000)
    expect(trial.canonical).toBe(second.head)
    expect(trial.status.upstreams[0]!.rests).toBe(
      'it gives block 101 as 0xbb0065, whose receiptsRoot is not what this node computes',
    )
    expect(trial.of('halted')).toEqual([])
    expect(trial.status.degraded.length).toBe(1)
  })
  test.each([
    ['its state cannot be had', 'state'],
    ['too many wait', 'queue'],
  ])('because %s is asked for again, and nobody rests', (_, field) => {
    const trial = new Trial(2).tick()
    trial.isWriterHeld = true
    for (const one of trial.sources) one.head = grow(MAIN, 2, 'bb')
    trial.pass(600)
    trial.refuse(trial.sent[0]!, field)
    trial.pass(1_000)
    expect(numbers(trial.sent)).toEqual([101, 102, 101, 102])
    expect(trial.order).toEqual([0, 1])
    expect(trial.warnings).toEqual([])
    // Where the chain has gone another way since, that one is taken.
    trial.refuse(trial.sent[2]!, field)
    trial.isWriterHeld = false
    for (const one of trial.sources) one.head = grow(at(MAIN, 99), 5, 'cc')
    trial.pass(3_000)
    expect(trial.canonical.hash).toBe('0xcc0068')
  })
  test('and all give halts the chain, until one gives another', () => {
    const trial = new Trial(3).tick()
    trial.isWriterHeld = true
    const bad = grow(MAIN, 2, 'bb')
    for (const one of trial.sources) one.head = bad
    trial.pass(3_000)
    trial.refuse(trial.sent[0]!)
    trial.pass(30_000)
    // Sent once.
    expect(numbers(trial.sent)).toEqual([101, 102])
    expect(trial.of('halted')).toMatchObject([
      {
        why: 'refused',
        message:
          'block 101 is 0xbb0065 at u0 and u1 and u2, but its receiptsRoot is not what this node computes',
      },
    ])
    // They agree: none of them is at fault.
    expect(trial.order).toEqual([0, 1, 2])
    trial.isWriterHeld = false
    for (const one of trial.sources) one.head = grow(MAIN, 4, 'aa')
    trial.pass(11_000)
    expect(trial.canonical.hash).toBe('0xaa0068')
    expect(trial.of('resumed').length).toBe(1)
  })
  describe('for a transaction of an unknown type', () => {
    /** Block 102 has it, and the upstreams have a block more. */
    const strange = (isClaimed: boolean): Block => ({
      ...grow(grow(MAIN, 1, 'aa'), 1, 'aa'),
      unknown: { type: 0x7b, at: 3, isClaimed },
    })
    const TEXT = 'but its type 0x7b of transaction 3 is not supported'

    test('a whole state stands still and says why', () => {
      const trial = new Trial(2).tick()
      const block = strange(false)
      for (const one of trial.sources) one.head = grow(block, 3, 'aa')
      trial.pass(60_000)
      expect(numbers(trial.sent)).toEqual([101])
      expect(trial.of('halted')).toEqual([
        {
          ...{ type: 'halted', why: 'type' },
          message: `block 102 is 0xaa0066 at u0 and u1, ${TEXT}; a version that supports it goes on from this directory`,
        },
      ])
      expect(trial.status.halted?.outside).toBe(
        'the chain has a transaction of a type that this node does not support',
      )
      expect(trial.of('left')).toEqual([])
    })
    test('a state that is fetched begins after it, once there is a block after it', () => {
      const trial = new Trial(1, { lazyStart: 50 }).tick()
      const [source] = trial.sources as [Source]
      source.head = strange(false)
      trial.pass(3_000)
      expect([trial.of('halted').length, trial.of('left')]).toEqual([1, []])
      source.head = grow(source.head, 1, 'aa')
      trial.pass(1_000)
      expect(trial.of('left')).toMatchObject([{ past: 102, why: expect.stringContaining(TEXT) }])
      trial.apply({ type: 'beginning' })
      source.head = grow(source.head, 2, 'aa')
      trial.canonical = at(source.head, 103)!
      const { number, hash } = trial.canonical
      trial.apply({ type: 'begun', head: { number, hash }, safe: 20, finalized: 20 })
      trial.pass(3_000)
      expect(trial.canonical.number).toBe(105)
      expect(trial.of('resumed').length).toBe(1)
    })
    test('that one upstream claims without its bytes, another one is asked', () => {
      const trial = new Trial(2).tick()
      const [liar, other] = trial.sources as [Source, Source]
      liar.head = strange(true)
      other.head = grow(MAIN, 2, 'aa')
      trial.pass(5_000)
      expect(trial.canonical.number).toBe(102)
      expect(trial.of('halted')).toEqual([])
      expect(trial.order).toEqual([1])
    })
  })
  test('in a branch does not take the branch', () => {
    const trial = new Trial(1).tick()
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(at(MAIN, 97), 5, 'bb')
    trial.pass(600)
    trial.refuse(trial.sent[0]!)
    expect(trial.of('halted').length).toBe(1)
    trial.sources[0]!.head = grow(MAIN, 1, 'aa')
    trial.isWriterHeld = false
    trial.pass(11_000)
    expect(trial.canonical.hash).toBe('0xaa0065')
    expect(trial.of('resumed').length).toBe(1)
  })
  test('in a branch that is taken again ends it there, and what comes after is asked for anew', () => {
    const trial = new Trial(2).tick()
    const [first, second] = trial.sources as [Source, Source]
    const branch = grow(at(MAIN, 97), 5, 'bb')
    second.fails = 'broken'
    trial.isWriterHeld = true
    first.head = branch
    trial.pass(3_000)
    trial.write(1)
    trial.refuse(at(branch, 99)!)
    trial.isWriterHeld = false
    second.fails = undefined
    second.head = grow(MAIN, 1, 'aa')
    trial.pass(20_000)
    expect(trial.canonical).toBe(second.head)
    // The first one rests no more, and the other one does not answer.
    second.fails = 'broken'
    trial.pass(60_000)
    expect(trial.canonical).toBe(at(branch, 98))
    second.fails = undefined
    second.head = grow(at(branch, 98), 9, 'cc')
    trial.pass(20_000)
    expect(trial.canonical).toBe(second.head)
  })
  test('of a chain that is not followed any more is nothing', () => {
    const trial = new Trial(1).tick()
    trial.refuse(grow(MAIN, 1, 'dd'))
    expect(trial.of('halted')).toEqual([])
    expect(trial.warnings).toEqual([])
  })
})

describe('a state that is fetched', () => {
  const begun = (head: Block) => ({ number: head.number, hash: head.hash })

  test('is left when our head is further behind than it reaches, and told again while it is', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 20 })
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(MAIN, 20, 'aa')
    trial.tick().pass(3_000)
    expect(trial.of('left')).toEqual([])
    trial.sources[0]!.head = grow(MAIN, 21, 'aa')
    trial.pass(3_000)
    const why = 'our head is 21 blocks behind u0, whose state reaches 20'
    expect(trial.of('left')).toEqual([{ type: 'left', why }])
    trial.pass(10_000)
    expect(trial.of('left').length).toBe(2)
    // It goes on as it can until somebody says otherwise.
    expect(trial.sent.length).toBeGreaterThan(0)
  })

  test('nothing is sent while it begins anew; then the chain goes on from there', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 20 })
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(MAIN, 200, 'aa')
    trial.tick().apply({ type: 'beginning' })
    const before = trial.sent.length
    trial.pass(3_000)
    expect(trial.sent.length).toBe(before)
    expect(trial.status.halted?.text).toBe('the state begins anew')
    const start = at(trial.sources[0]!.head, 295)!
    trial.canonical = start
    trial.isWriterHeld = false
    trial.apply({ type: 'begun', head: begun(start), safe: 290, finalized: 280 })
    trial.pass(3_000)
    expect(numbers(trial.sent.slice(before))).toEqual([296, 297, 298, 299, 300])
    expect(trial.status.halted).toBeUndefined()
    // Nothing is taken back to before the new beginning.
    trial.sources[0]!.head = grow(at(start, 279), 30, 'bb')
    trial.pass(3_000)
    expect(trial.of('halted').at(-1)?.message).toMatch(/deeper than block 295, at which/)
  })

  test('goes on as soon as who told of a deeper branch has our chain again', () => {
    const trial = new Trial(1, { lazyStart: 95 })
    const ours = trial.sources[0]!.head
    trial.sources[0]!.head = grow(at(MAIN, 90), 20, 'bb')
    trial.tick().pass(3_000)
    expect(trial.of('halted').at(-1)?.message).toMatch(/deeper than block 95, at which/)
    expect(trial.status.halted).toBeDefined()
    trial.sources[0]!.head = ours
    trial.pass(20_000)
    expect(trial.status.halted).toBeUndefined()
    expect(trial.of('resumed')).toHaveLength(1)
  })

  test('begun anew, nothing is made of a head that was told before', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 20 })
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(MAIN, 1, 'bb')
    trial.tick().pass(1_000)
    trial.apply({ type: 'beginning' })
    const start = grow(MAIN, 195, 'aa')
    trial.canonical = start
    trial.sources[0]!.head = start
    trial.apply({ type: 'begun', head: begun(start), safe: 290, finalized: 280 })
    trial.pass(3_000)
    expect(trial.of('halted')).toEqual([])
    expect(trial.status.head).toBe(start.number)
  })

  test('goes on where the writer has not begun', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 20 }).tick()
    trial.apply({ type: 'beginning' })
    trial.sources[0]!.head = grow(MAIN, 3, 'aa')
    trial.pass(3_000)
    expect(trial.sent).toEqual([])
    trial.apply({ type: 'notBegun' })
    trial.pass(1_000)
    expect(numbers(trial.sent)).toEqual([101, 102, 103])
  })

  test('is left when it cannot be had twice in a row', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 64 })
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(MAIN, 1, 'aa')
    trial.tick().pass(1_000)
    trial.refuse(trial.sources[0]!.head, 'state')
    trial.pass(2_000)
    expect(trial.of('left')).toEqual([])
    trial.refuse(trial.sources[0]!.head, 'state')
    trial.pass(1_000)
    expect(trial.of('left').map(({ why }) => why)).toEqual(['the state of block 100 cannot be had'])
  })

  test('a whole state is never left', () => {
    const trial = new Trial(1)
    trial.isWriterHeld = true
    trial.sources[0]!.head = grow(MAIN, 9_000, 'aa')
    trial.tick().pass(3_000)
    expect(trial.of('left')).toEqual([])
  })
})

test('whom most others contradicted at the start rests at first, and is degraded', () => {
  const doubted = new Map([['u0', 'block 100 is another one there']])
  const trial = new Trial(3, { doubted }).tick()
  expect(trial.order).toEqual([1, 2])
  expect(trial.status.degraded.map(({ text }) => text)).toEqual([
    'u0: block 100 is another one there',
  ])
  trial.pass(61_000)
  expect(trial.order).toEqual([0, 1, 2])
})
