/** The rules of the tracker are tested one by one: upstreams respond at once, or on demand. */
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

/** Makes `count` more blocks, whose hashes start with the digits of `name`. */
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
  isPaused = false
  tags: { safe: number; finalized: number } | undefined
  readonly requested: Question[] = []
}

class Trial {
  now = 0
  canonical: Block
  readonly sources: readonly Source[]
  readonly sent: Block[] = []
  readonly effects: Effect[] = []
  isWriterPaused = false
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
      readonly suspected?: ReadonlyMap<string, string>
    } = {},
  ) {
    const { head = MAIN, finalized = 20, lazyStart, stateDepth, suspected } = more
    this.canonical = head
    this.sources = Array.from({ length: sources }, () => new Source())
    this.#tracker = createTracker<Block>({
      upstreams: this.sources.map((_, index) => ({ name: `u${index}` })),
      now: () => this.now,
      hashOf: (number) => at(this.canonical, number)?.hash,
      head: { number: head.number, hash: head.hash },
      finalized,
      undoBlocks: 64,
      lazyStart,
      suspected,
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
  /** Lets time pass in the steps in which the tracker wants to wake. */
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
      source.requested.push(effect)
      if (!source.isPaused) this.#waiting.push(() => this.responseOf(effect))
      return
    }
    this.effects.push(effect)
    if (effect.type === 'sealed') {
      this.sent.push(effect.block)
      this.#toWrite.push(effect.block)
      if (!this.isWriterPaused) this.write()
    }
  }

  /** The writer takes blocks. */
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

  responseOf(question: Question): TrackerEvent<Block> {
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
      const reported =
        question.hasTags && tags !== undefined ? { tags: this.#tags(head, tags) } : {}
      return {
        type: 'head',
        upstream: question.upstream,
        request,
        head: { ...head, timestamp: 0 },
        ...reported,
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
    return this.sources[upstream]!.requested.filter(({ type }) => type === 'poll')
  }
  fetches(upstream: number): readonly (Question & { readonly type: 'fetch' })[] {
    return this.sources[upstream]!.requested.filter((one) => one.type === 'fetch')
  }
}
const numbers = (blocks: readonly TrackedBlock[]) => blocks.map(({ number }) => number)

describe('the tracker', () => {
  test('fetches a new head and sends it once', () => {
    const trial = new Trial(1).tick()
    expect(trial.sent).toEqual([])
    trial.sources[0]!.head = grow(MAIN, 1, 'aa')
    trial.pass(600)
    expect(numbers(trial.sent)).toEqual([101])
    trial.pass(3_000)
    expect(numbers(trial.sent)).toEqual([101])
    expect(trial.status).toMatchObject({ head: 101, canonical: 101, degraded: [] })
  })
  test('polls at half the block time while heads come rarely or not at all', () => {
    const polled = new Trial(1).tick().pass(10_000)
    expect(polled.polls(0).length).toBeGreaterThanOrEqual(20)
    const reported = new Trial(1).tick()
    for (let second = 0; second < 10; second++) {
      reported.sources[0]!.head = grow(reported.sources[0]!.head, 1, 'aa')
      reported.push(0)
      reported.pass(1_000)
    }
    expect(numbers(reported.sent)).toEqual([101, 102, 103, 104, 105, 106, 107, 108, 109, 110])
    // The polls are for safe and finalized only.
    expect(reported.polls(0).length).toBeLessThanOrEqual(7)
    reported.pass(10_000)
    expect(reported.polls(0).length).toBeGreaterThan(15)
  })
  test('fetches many blocks in ranges through a window that follows the writer', () => {
    const trial = new Trial(1)
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(MAIN, 1_000, 'aa')
    trial.tick()
    expect(trial.sent.length).toBe(128)
    expect(trial.fetches(0).every(({ count }) => count <= 16)).toBe(true)
    trial.write(10)
    expect(trial.sent.length).toBe(138)
    trial.isWriterPaused = false
    trial.write()
    expect(numbers(trial.sent)).toEqual(Array.from({ length: 1_000 }, (_, index) => 101 + index))
  })
  test('requests no more while the waiting blocks are large', () => {
    const trial = new Trial(1)
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(MAIN, 1_000, 'aa', 2 * 1024 * 1024)
    trial.tick()
    // Requests in progress at the limit still deliver their blocks.
    const first = trial.sent.length
    expect(first).toBeLessThan(100)
    trial.write(first - 31)
    expect(trial.sent.length).toBeGreaterThan(first)
  })
  test('requests four ranges at a time and sends their blocks in order', () => {
    const trial = new Trial(1)
    const [source] = trial.sources as [Source]
    source.head = grow(MAIN, 64, 'aa')
    source.isPaused = true
    trial.tick()
    trial.apply(trial.responseOf(source.requested[0]!))
    const fetches = trial.fetches(0)
    expect(fetches.map(({ first, count }) => [first, count])).toEqual([
      [101, 16],
      [117, 16],
      [133, 16],
      [149, 16],
    ])
    for (const one of fetches.toReversed()) trial.apply(trial.responseOf(one))
    expect(numbers(trial.sent)).toEqual(Array.from({ length: 64 }, (_, index) => 101 + index))
  })
  test('requests the rest of a range that ended early, and sends the blocks below', () => {
    const trial = new Trial(1)
    const [source] = trial.sources as [Source]
    source.head = grow(MAIN, 40, 'aa')
    source.isPaused = true
    trial.tick()
    trial.apply(trial.responseOf(source.requested[0]!))
    const [first, second, third] = trial.fetches(0)
    const short = trial.responseOf(second!) as TrackerEvent<Block> & { readonly type: 'blocks' }
    trial.apply({ ...short, blocks: short.blocks.slice(0, 3) })
    trial.apply(trial.responseOf(third!))
    trial.apply(trial.responseOf(first!))
    expect(numbers(trial.sent)).toEqual(Array.from({ length: 19 }, (_, index) => 101 + index))
    source.isPaused = false
    trial.pass(1_000)
    expect(trial.sent.length).toBe(40)
    expect(trial.warnings).toEqual([])
  })
  test('backs off from an upstream that does not give a block it reported', () => {
    const trial = new Trial(2)
    const [source, other] = trial.sources as [Source, Source]
    const head = grow(MAIN, 1, 'aa')
    source.head = head
    source.isPaused = true
    trial.tick()
    trial.apply(trial.responseOf(source.requested[0]!))
    source.isPaused = false
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
  test('reports the progress of a catch-up', () => {
    const trial = new Trial(1)
    trial.isWriterPaused = true
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
    trial.isWriterPaused = false
    trial.write()
    expect(trial.status.catchUp).toBeUndefined()
  })
})

describe('a reorg', () => {
  const depths = [1, 2, 15, 16, 17, 33, 63, 64]
  test.each(depths)('of %i blocks is followed, oldest block first', (depth) => {
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
    ['as high as the own chain', 3, 3],
    ['lower than the own chain', 5, 1],
  ])('to a chain that is %s is followed at once', (_, depth, length) => {
    const trial = new Trial(1).tick()
    trial.sources[0]!.head = grow(at(MAIN, 100 - depth), length, 'bb')
    trial.pass(600)
    expect(trial.canonical).toBe(trial.sources[0]!.head)
    // The chain goes on from there.
    trial.sources[0]!.head = grow(trial.canonical, depth + 3, 'bb')
    trial.pass(600)
    expect(trial.canonical).toBe(trial.sources[0]!.head)
  })
  test('is not assumed when an upstream has a lower head of our chain', () => {
    const trial = new Trial(1).tick()
    trial.sources[0]!.head = at(MAIN, 90)!
    trial.pass(5_000)
    expect(trial.sent).toEqual([])
    expect(trial.warnings).toEqual([])
  })
  test('beyond the undo window halts with advice, until the chain is ours again', () => {
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
    // The upstream is polled now and then.
    expect(trial.fetches(0).length).toBeLessThan(60)
    trial.sources[0]!.head = grow(MAIN, 1, 'aa')
    trial.pass(11_000)
    expect(trial.of('resumed').length).toBe(1)
    expect(numbers(trial.sent)).toEqual([101])
    expect(trial.status.halted).toBeUndefined()
  })
  test('below the start of a lazy state halts and asks for a resync', () => {
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
  test('lowers the shared block number until the writer has the new branch', () => {
    const trial = new Trial(1).tick()
    expect(trial.shared).toBe(100)
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(at(MAIN, 95), 8, 'bb')
    trial.pass(3_000)
    expect(trial.shared).toBe(95)
    trial.isWriterPaused = false
    trial.write()
    expect(trial.shared).toBe(103)
  })
  test('waits until the writer has all blocks that were sent before', () => {
    const trial = new Trial(1).tick()
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(MAIN, 3, 'aa')
    trial.pass(600)
    trial.sources[0]!.head = grow(MAIN, 5, 'bb')
    trial.pass(3_000)
    expect(numbers(trial.sent)).toEqual([101, 102, 103])
    trial.isWriterPaused = false
    trial.write()
    trial.pass(600)
    expect(numbers(trial.sent)).toEqual([101, 102, 103, 101, 102, 103, 104, 105])
  })
  test('is given up when its upstream moves to a third chain during the search', () => {
    const trial = new Trial(1).tick()
    const [source] = trial.sources as [Source]
    source.head = grow(at(MAIN, 60), 45, 'bb')
    source.isPaused = true
    trial.pass(600)
    trial.apply(trial.responseOf(source.requested.at(-1)!))
    // Blocks above ours do not have ours as an ancestor, so the ancestor search starts.
    trial.apply(trial.responseOf(source.requested.at(-1)!))
    const walked = trial.fetches(0).at(-1)!
    expect(walked.first).toBeLessThan(100)
    source.head = grow(at(MAIN, 70), 45, 'cc')
    source.isPaused = false
    trial.apply(trial.responseOf(walked))
    trial.pass(3_000)
    expect(trial.canonical.hash).toBe(source.head.hash)
    expect(trial.sent.every(({ hash }) => hash.startsWith('0xcc'))).toBe(true)
  })

  test('with another finalized block is ignored, and the other upstream is followed', () => {
    const trial = new Trial(2, { finalized: 90 }).tick()
    const [liar, honest] = trial.sources as [Source, Source]
    liar.head = grow(at(MAIN, 85), 30, 'bb')
    honest.head = grow(MAIN, 2, 'aa')
    trial.pass(5_000)
    expect(trial.canonical).toBe(honest.head)
    expect(trial.of('halted')).toEqual([])
    expect(trial.sent.some(({ hash }) => hash.startsWith('0xbb'))).toBe(false)
  })
  test('of a block that became final during the fetch is refused', () => {
    const trial = new Trial(1).tick()
    const [source] = trial.sources as [Source]
    source.head = grow(at(MAIN, 95), 5, 'bb')
    source.isPaused = true
    trial.push(0)
    const walked = trial.responseOf(trial.fetches(0).at(-1)!)
    const tags = { safe: at(MAIN, 98), finalized: at(MAIN, 97) }
    const head = { ...MAIN, timestamp: 0 }
    trial.apply({ type: 'head', upstream: 0, request: undefined, head, tags })
    expect(trial.of('marks')).toMatchObject([{ safe: 98, finalized: 97 }])
    trial.apply(walked)
    expect(trial.sent).toEqual([])
    expect(trial.status.halted?.text).toContain('block 96 is final here and not what u0 has')
  })
  test('with another finalized block halts when no other upstream is left', () => {
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

describe('the chain that is followed', () => {
  const heads = (trial: Trial, ...names: readonly string[]) => {
    for (const [index, name] of names.entries())
      trial.sources[index]!.head = grow(
        name === 'aa' ? MAIN : at(MAIN, 98),
        name === 'aa' ? 3 : 5,
        name,
      )
  }
  /**
   * Each case has the chain of each upstream and the chain that is followed in the end. It also has
   * the upstreams in backoff.
   */
  const cases: [heads: string[], followed: string, backedOff: number[]][] = [
    [['aa', 'aa', 'bb'], 'aa', [2]],
    [['bb', 'aa', 'aa'], 'aa', [0]],
    [['aa', 'bb', 'bb'], 'bb', [0]],
    [['bb', 'bb', 'aa'], 'bb', [2]],
    [['aa', 'bb'], 'aa', [1]],
    [['bb', 'aa'], 'bb', [1]],
    [['bb', 'cc', 'aa'], 'bb', [1, 2]],
    [['bb'], 'bb', []],
  ]
  test.each(cases)('is that of the majority or the first: %j', (names, followed, backedOff) => {
    const trial = new Trial(names.length).tick()
    heads(trial, ...names)
    trial.pass(10_000)
    expect(trial.canonical.hash.slice(2, 4)).toBe(followed)
    expect(
      trial.status.upstreams.flatMap(({ rests }, index) => (rests === undefined ? [] : [index])),
    ).toEqual(backedOff)
    expect(trial.status.degraded.length).toBe(backedOff.length)
    expect(trial.order).toEqual(
      names.flatMap((_, index) => (backedOff.includes(index) ? [] : [index])),
    )
  })
  /**
   * The first upstream is followed from its block 101 on, at this pace; the others are three blocks
   * ahead.
   */
  const leading = (names: readonly string[], perSecond: number) => {
    const trial = new Trial(names.length, { head: grow(MAIN, 1, names[0]!) }).tick()
    for (let second = 0; second < 20; second++) {
      for (const [index, name] of names.entries())
        trial.sources[index]!.head = grow(MAIN, 1 + second * perSecond + (index && 3), name)
      trial.pass(1_000)
    }
    return trial
  }
  test.each([0, 1])('is that of two ahead of a third, which advances by %i', (perSecond) => {
    const trial = leading(['bb', 'aa', 'aa'], perSecond)
    expect(trial.canonical.hash).toBe(trial.sources[1]!.head.hash)
    expect(trial.status.upstreams.map(({ rests }) => rests)).toEqual([
      expect.stringMatching(/^block 10\d is 0xbb006\d there, 0xaa006\d at u1 and u2$/),
      undefined,
      undefined,
    ])
  })
  test('stays the same when only one upstream is ahead', () => {
    const others = leading(['aa', 'aa', 'bb'], 0)
    expect(others.canonical.hash).toBe('0xaa0065')
    const two = leading(['bb', 'aa'], 0)
    expect(two.canonical.hash).toBe('0xbb0065')
    expect(two.warnings).toEqual([])
  })
  test('needs no vote when other heads are one block above ours', () => {
    const query = (blocks: number) => {
      const trial = new Trial(3).tick()
      for (const one of trial.sources.slice(1)) one.head = grow(MAIN, blocks, 'aa')
      trial.pass(30_000)
      expect(trial.warnings).toEqual([])
      return trial.sources.map(
        ({ requested }) => requested.filter(({ type }) => type === 'ask').length,
      )
    }
    expect(query(1)).toEqual([0, 0, 0])
    // All are polled at most each five seconds, and these report heads each two.
    expect(query(2)).toEqual([5, 5, 5])
  })
  test('is voted on at the first block of a branch, because others may lack its top', () => {
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
  test('is voted on without silent upstreams', () => {
    const trial = new Trial(3).tick()
    heads(trial, 'bb', 'aa', 'aa')
    trial.sources[2]!.fails = 'silent'
    trial.pass(10_000)
    expect(trial.canonical.hash.slice(2, 4)).toBe('bb')
  })
  test('is that of the majority once the third has the block, too', () => {
    const trial = new Trial(3).tick()
    const [wrong, right, late] = trial.sources as [Source, Source, Source]
    wrong.head = grow(MAIN, 3, 'bb')
    right.head = grow(MAIN, 3, 'aa')
    trial.pass(10_000)
    // Nobody else has the block yet, so the first named is believed.
    expect(trial.canonical.hash).toBe('0xbb0067')
    late.head = right.head
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe('0xaa0067')
    const rests = trial.status.upstreams.map(({ rests }) => rests)
    expect(rests).toEqual([
      'block 101 is 0xbb0065 there, 0xaa0065 at u1 and u2',
      undefined,
      undefined,
    ])
  })
  test('does not become that of an upstream that lost a vote before, by a tie', () => {
    const trial = new Trial(3).tick()
    const [wrong, first, second] = trial.sources as [Source, Source, Source]
    wrong.head = grow(MAIN, 5, 'bb')
    for (const one of [first, second]) one.head = grow(MAIN, 3, 'aa')
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe('0xaa0067')
    // A reorg at one of the two; the other has no block there any more.
    first.head = grow(at(MAIN, 99), 5, 'cc')
    second.head = at(MAIN, 99)!
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe('0xcc0068')
    expect(trial.status.upstreams[0]!.rests).toBe('block 100 is 0xaa0064 there, 0xcc0064 at u1')
  })
  test('does not change when an upstream that lost a vote fails in the next one', () => {
    const trial = new Trial(3).tick()
    const [wrong, right, late] = trial.sources as [Source, Source, Source]
    wrong.head = grow(MAIN, 3, 'bb')
    right.head = grow(MAIN, 3, 'aa')
    trial.pass(10_000)
    right.fails = 'silent'
    late.head = right.head
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe('0xbb0067')
    for (const { rests } of trial.status.upstreams.slice(1))
      expect(rests).toBe('block 103 is 0xaa0067 there, 0xbb0067 at u0')
  })
  test('makes an upstream that contradicts it back off for a minute', () => {
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
  test('gets no late block from an outvoted upstream', () => {
    const trial = new Trial(3).tick()
    heads(trial, 'aa', 'aa', 'aa')
    const [leader] = trial.sources as [Source]
    leader.head = grow(grow(at(MAIN, 98), 2, 'bb'), 20, 'bb')
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe('0xaa0067')
    expect(trial.sent.every(({ hash }) => hash.startsWith('0xaa'))).toBe(true)
  })
})

describe('an upstream', () => {
  const kinds: FailureKind[] = ['refused', 'silent', 'unreachable', 'large', 'broken', 'wrong']
  test.each(kinds)('that fails (%s) is not asked for a minute, and the next one is', (kind) => {
    const trial = new Trial(2).tick()
    const [first, second] = trial.sources as [Source, Source]
    first.fails = kind
    for (const one of [first, second]) one.head = grow(MAIN, 2, 'aa')
    trial.pass(3_000)
    expect(numbers(trial.sent)).toEqual([101, 102])
    expect(trial.warnings).toEqual([`u0 is not asked for a while: ${kind}`])
    expect(trial.status.upstreams[0]!.rests).toBe(kind)
    // One upstream has a fault and the other has everything, so nothing is degraded.
    expect(trial.status.degraded).toEqual([])
    const polls = trial.polls(0).length
    trial.pass(55_000)
    expect(trial.polls(0).length).toBe(polls)
    first.fails = undefined
    trial.pass(5_000)
    expect(trial.polls(0).length).toBeGreaterThan(polls)
    expect(trial.order).toEqual([0, 1])
  })
  test('that is the only one is retried soon, with one warning', () => {
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
  test('that is the only one and reports heads without blocks causes one warning', () => {
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
  test('that has failed has its late response ignored', () => {
    const trial = new Trial(2).tick()
    const [first] = trial.sources as [Source]
    first.head = grow(at(MAIN, 99), 20, 'bb')
    first.isPaused = true
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
    trial.apply(trial.responseOf(late!))
    trial.pass(3_000)
    expect(
      trial.sources.flatMap(({ requested }) => requested).some(({ type }) => type === 'ask'),
    ).toBe(false)
    expect(trial.warnings).toEqual(['u0 is not asked for a while: silent'])
  })
  test('that is the only one is retried each ten seconds', () => {
    const trial = new Trial(1).tick()
    trial.sources[0]!.fails = 'unreachable'
    trial.pass(120_000)
    const polls = trial.polls(0).length
    trial.pass(100_000)
    expect(trial.polls(0).length - polls).toBeLessThanOrEqual(11)
    expect(trial.polls(0).length - polls).toBeGreaterThanOrEqual(9)
  })
  test('with a rate limit backs off as long as it asks, without a warning', () => {
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
  test('with a rate limit that is the only one backs off as long', () => {
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
    ['cannot be reached', 'unreachable', false],
    ['gives invalid responses', 'broken', false],
  ] as const)(
    'need not be waited for if the other one is usable: the other %s',
    (_, fails, isSo) => {
      const trial = new Trial(2).tick()
      const [first, second] = trial.sources as [Source, Source]
      second.fails = fails
      trial.pass(5_000)
      first.requested.length = 0
      first.head = grow(MAIN, 20, 'aa')
      trial.pass(1_000)
      expect(trial.canonical).toBe(first.head)
      const reported = first.requested.map(({ type, hasOthers }) => `${type} ${hasOthers}`)
      expect(new Set(reported)).toEqual(new Set([`poll ${isSo}`, `fetch ${isSo}`]))
    },
  )
  test('that falls behind two others backs off at once', () => {
    const trial = new Trial(3).tick()
    const [, second, third] = trial.sources as [Source, Source, Source]
    for (const one of [second, third]) one.head = grow(MAIN, 9, 'aa')
    trial.pass(3_000)
    expect(trial.warnings).toEqual([
      'u0 is not asked for a while: its head is 9 blocks behind that of others',
    ])
    expect(trial.canonical).toBe(second.head)
  })
  test('that is a few blocks behind does not back off', () => {
    const trial = new Trial(3).tick()
    for (const one of trial.sources.slice(1)) one.head = grow(MAIN, 8, 'aa')
    trial.pass(30_000)
    expect(trial.warnings).toEqual([])
    expect(trial.sent).toEqual([])
  })
  test('that is far ahead does not make two others back off', () => {
    const trial = new Trial(3).tick()
    trial.sources[2]!.head = grow(MAIN, 900, 'cc')
    trial.pass(30_000)
    expect(trial.warnings).toEqual([])
  })
  test('of two backs off if it stands still far behind, and not if it moves', () => {
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
  test('of two that stands still on its own chain is not followed after its backoff', () => {
    const trial = new Trial(2, { head: grow(MAIN, 1, 'bb') }).tick()
    const [first, second] = trial.sources as [Source, Source]
    first.head = trial.canonical
    for (let at = 0; at < 200; at++) {
      second.head = grow(MAIN, 1 + at, 'aa')
      trial.pass(1_000)
      if (at > 20) expect(trial.canonical.hash).toBe(second.head.hash)
    }
    const requested = trial.polls(0).length
    first.head = second.head
    trial.pass(60_000)
    expect(trial.polls(0).length).toBeGreaterThan(requested + 10)
    expect(trial.order).toEqual([0, 1])
  })
  test('of another chain is never asked again', () => {
    const trial = new Trial(2)
    const [first] = trial.sources as [Source]
    first.isPaused = true
    trial.tick()
    trial.apply({
      type: 'foreign',
      request: first.requested[0]!.request,
      message: 'it has chain 1',
    })
    trial.pass(200_000)
    expect(first.requested.length).toBe(1)
    expect(trial.warnings).toEqual(['u0 is not asked for a while: it has chain 1'])
  })
})

describe('a request that ends badly does not block the tracker,', () => {
  const kinds: readonly FailureKind[] = [
    ...(['refused', 'limited', 'silent', 'unreachable', 'large', 'broken', 'wrong'] as const),
  ]
  type Ending = (question: Question) => TrackerEvent<Block>
  const endings: readonly (readonly [name: string, ending: Ending])[] = [
    ['foreign', ({ request }) => ({ type: 'foreign', request, message: 'it has chain 1' })],
    ...kinds.map((kind) => {
      const ending: Ending = ({ request }) => ({
        type: 'failed',
        request,
        kind,
        message: kind,
        retryAfterMs: 60_000,
      })
      return [kind, ending] as const
    }),
  ]

  test.each(endings)('if it polls a head: %s', (_, ending) => {
    const trial = new Trial(2)
    const [paused, other] = trial.sources as [Source, Source]
    paused.isPaused = true
    trial.tick()
    trial.apply(ending(paused.requested[0]!))
    other.head = grow(MAIN, 3, 'aa')
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe(other.head.hash)
  })

  test.each(endings)('if it fetches a range: %s', (_, ending) => {
    const trial = new Trial(2).tick()
    const [paused, other] = trial.sources as [Source, Source]
    paused.head = grow(MAIN, 3, 'aa')
    other.head = paused.head
    trial.pass(490)
    paused.isPaused = true
    trial.push(0)
    expect(trial.fetches(0)).toHaveLength(1)
    trial.apply(ending(trial.fetches(0)[0]!))
    trial.pass(10_000)
    expect(trial.canonical.hash).toBe(other.head.hash)
  })

  test.each(endings)('if it fetches a branch: %s', (_, ending) => {
    const trial = new Trial(2).tick()
    const [paused, other] = trial.sources as [Source, Source]
    paused.head = grow(at(MAIN, 60), 40, 'bb')
    other.head = paused.head
    trial.pass(490)
    paused.isPaused = true
    trial.push(0)
    const walked = trial.fetches(0).at(-1)!
    expect(walked.first + walked.count).toBe(101)
    trial.apply(ending(walked))
    trial.pass(20_000)
    expect(trial.canonical.hash).toBe(other.head.hash)
  })

  test.each(endings)('if it asks for a vote: %s', (_, ending) => {
    const trial = new Trial(3)
    const [leader, other, paused] = trial.sources as [Source, Source, Source]
    paused.isPaused = true
    trial.tick()
    leader.head = grow(at(MAIN, 98), 5, 'bb')
    other.head = leader.head
    trial.pass(600)
    expect(paused.requested.map(({ type }) => type)).toEqual(['poll', 'ask'])
    for (const question of paused.requested) trial.apply(ending(question))
    trial.pass(20_000)
    expect(trial.canonical.hash).toBe(leader.head.hash)
  })

  test('if it asks for a vote at a height where there is no block', () => {
    const trial = new Trial(2)
    const [leader, paused] = trial.sources as [Source, Source]
    paused.isPaused = true
    trial.tick()
    leader.head = grow(at(MAIN, 98), 5, 'bb')
    trial.pass(600)
    trial.apply({ type: 'hash', request: paused.requested.at(-1)!.request, hash: undefined })
    trial.pass(1_000)
    expect(trial.canonical.hash).toBe(leader.head.hash)
  })

  test('if it fetches a branch and gets no block, which is not repeated at once', () => {
    const trial = new Trial(1).tick()
    const [source] = trial.sources as [Source]
    source.head = grow(at(MAIN, 60), 40, 'bb')
    trial.pass(490)
    source.isPaused = true
    trial.push(0)
    trial.apply({ type: 'blocks', request: trial.fetches(0).at(-1)!.request, blocks: [] })
    expect(trial.fetches(0)).toHaveLength(1)
    source.isPaused = false
    trial.apply(trial.responseOf(source.requested.at(-1)!))
    trial.pass(2_000)
    expect(trial.canonical.hash).toBe(source.head.hash)
  })

  test('if its upstream reported a branch and then turns out to be foreign', () => {
    const trial = new Trial(2)
    const [foreign, paused] = trial.sources as [Source, Source]
    trial.tick()
    paused.isPaused = true
    foreign.head = grow(at(MAIN, 98), 2, 'bb')
    trial.pass(490)
    trial.push(0)
    foreign.isPaused = true
    trial.pass(3_000)
    const poll = foreign.requested.at(-1)!
    trial.apply({ type: 'foreign', request: poll.request, message: 'it has chain 1' })
    paused.isPaused = false
    paused.head = grow(MAIN, 2, 'aa')
    for (const question of paused.requested) trial.apply(trial.responseOf(question))
    trial.pass(2_000)
    expect(trial.status.upstreams.map(({ rests }) => rests)).toEqual(['it has chain 1', undefined])
    expect(trial.canonical.hash).toBe(paused.head.hash)
  })
})

describe('labelled heads', () => {
  const tagged = (trial: Trial, safe: number, finalized: number) => {
    for (const one of trial.sources) one.tags = { safe, finalized }
  }
  test('follow the upstream’s tags once our chain has reached them', () => {
    const trial = new Trial(1).tick()
    tagged(trial, 103, 90)
    trial.pass(3_000)
    expect(trial.of('marks')).toEqual([{ type: 'marks', safe: 90, finalized: 90 }])
    trial.sources[0]!.head = grow(MAIN, 5, 'aa')
    trial.pass(3_000)
    expect(trial.of('marks').at(-1)).toEqual({ type: 'marks', safe: 103, finalized: 90 })
  })
  test('of another chain are ignored', () => {
    const trial = new Trial(2).tick()
    const [liar] = trial.sources as [Source]
    tagged(trial, 99, 98)
    liar.head = grow(at(MAIN, 80), 30, 'bb')
    liar.isPaused = true
    trial.pass(3_000)
    trial.apply(trial.responseOf(liar.requested.find((one) => one.type === 'poll' && one.hasTags)!))
    expect(trial.of('marks')).toEqual([])
  })
  test('of an upstream that is no longer followed are ignored', () => {
    const trial = new Trial(2)
    const [first, second] = trial.sources as [Source, Source]
    first.isPaused = true
    trial.tick()
    second.isPaused = true
    tagged(trial, 95, 94)
    trial.pass(3_000)
    const late = second.requested.find((one) => one.type === 'poll' && one.hasTags)!
    trial.apply(trial.responseOf(first.requested[0]!))
    trial.apply(trial.responseOf(late))
    expect(trial.of('marks')).toEqual([])
  })
  test('never go back for finalized, and go back for safe with its chain', () => {
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
  test('stay the same when the upstream has no tags', () => {
    const trial = new Trial(1).tick().pass(10_000)
    expect(trial.of('marks')).toEqual([])
  })
})

describe('a block that the writer refuses', () => {
  test('is requested from another upstream, and the first one backs off', () => {
    const trial = new Trial(2).tick()
    const [first, second] = trial.sources as [Source, Source]
    trial.isWriterPaused = true
    first.head = grow(MAIN, 3, 'bb')
    second.head = grow(MAIN, 3, 'aa')
    trial.pass(600)
    expect(numbers(trial.sent)).toEqual([101, 102, 103])
    const [bad, child] = trial.sent as [Block, Block]
    trial.refuse(bad)
    trial.refuse(child, 'parentHash')
    trial.isWriterPaused = false
    trial.pass(3_000)
    expect(trial.canonical).toBe(second.head)
    expect(trial.status.upstreams[0]!.rests).toBe(
      'it gives block 101 as 0xbb0065, whose receiptsRoot is not what this node computes',
    )
    expect(trial.of('halted')).toEqual([])
    expect(trial.status.degraded.length).toBe(1)
  })
  test.each([
    ['its state cannot be fetched', 'state'],
    ['too many calls wait', 'queue'],
    ['a block before it was refused', 'parent'],
  ])('because %s is requested again without a backoff', (_, field) => {
    const trial = new Trial(2).tick()
    trial.isWriterPaused = true
    for (const one of trial.sources) one.head = grow(MAIN, 2, 'bb')
    trial.pass(600)
    trial.refuse(trial.sent[0]!, field)
    trial.pass(1_000)
    expect(numbers(trial.sent)).toEqual([101, 102, 101, 102])
    expect(trial.order).toEqual([0, 1])
    expect(trial.warnings).toEqual([])
    // If the chain has reorganised since, the new branch is taken.
    trial.refuse(trial.sent[2]!, field)
    trial.isWriterPaused = false
    for (const one of trial.sources) one.head = grow(at(MAIN, 99), 5, 'cc')
    trial.pass(3_000)
    expect(trial.canonical.hash).toBe('0xcc0068')
  })
  test.each([
    [3, 'aa', 'block 101 is 0xbb0065 there, 0xaa0065 at u1 and u2'],
    [2, 'bb', undefined],
  ])(
    'for missing state leads to a vote: of %i upstreams the chain %s wins',
    (count, next, rests) => {
      const trial = new Trial(count).tick()
      trial.isWriterPaused = true
      trial.sources.forEach((source, index) => {
        source.head = grow(MAIN, 3, index === 0 ? 'bb' : 'aa')
      })
      trial.pass(600)
      expect(trial.sent[0]!.hash).toBe('0xbb0065')
      const before = trial.sent.length
      trial.refuse(trial.sent[0]!, 'state')
      trial.pass(4_000)
      expect(trial.sent[before]!.hash).toBe(`0x${next}0065`)
      expect(trial.status.upstreams[0]!.rests).toEqual(rests)
    },
  )
  test('and that all upstreams have halts the chain until one has another block', () => {
    const trial = new Trial(3).tick()
    trial.isWriterPaused = true
    const bad = grow(MAIN, 2, 'bb')
    for (const one of trial.sources) one.head = bad
    trial.pass(3_000)
    trial.refuse(trial.sent[0]!)
    trial.pass(30_000)
    // The block was sent once.
    expect(numbers(trial.sent)).toEqual([101, 102])
    expect(trial.of('halted')).toMatchObject([
      {
        why: 'refused',
        message:
          'block 101 is 0xbb0065 at u0 and u1 and u2, but its receiptsRoot is not what this node computes',
      },
    ])
    // The upstreams agree, so none of them is at fault.
    expect(trial.order).toEqual([0, 1, 2])
    trial.isWriterPaused = false
    for (const one of trial.sources) one.head = grow(MAIN, 4, 'aa')
    trial.pass(11_000)
    expect(trial.canonical.hash).toBe('0xaa0068')
    expect(trial.of('resumed').length).toBe(1)
  })
  describe('for a transaction of an unknown type', () => {
    /** Block 102 has the transaction, and the upstreams have one more block. */
    const strange = (isClaimed: boolean): Block => ({
      ...grow(grow(MAIN, 1, 'aa'), 1, 'aa'),
      unknown: { type: 0x7b, at: 3, isClaimed },
    })
    const TEXT = 'but its type 0x7b of transaction 3 is not supported'

    test('halts a node with whole state, which says why', () => {
      const trial = new Trial(2).tick()
      const block = strange(false)
      for (const one of trial.sources) one.head = grow(block, 3, 'aa')
      trial.pass(60_000)
      expect(numbers(trial.sent)).toEqual([101])
      expect(trial.of('halted')).toEqual([
        {
          type: 'halted',
          why: 'type',
          message: `block 102 is 0xaa0066 at u0 and u1, ${TEXT}; a version that supports it goes on from this directory`,
        },
      ])
      expect(trial.status.halted?.outside).toBe(
        'the chain has a transaction of a type that this node does not support',
      )
      expect(trial.of('left')).toEqual([])
    })
    test('makes a lazy state resync after it, once there is a later block', () => {
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
    test('is ignored if its upstream cannot give the bytes and another one differs', () => {
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
  test('in a branch keeps the node on its chain', () => {
    const trial = new Trial(1).tick()
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(at(MAIN, 97), 5, 'bb')
    trial.pass(600)
    trial.refuse(trial.sent[0]!)
    expect(trial.of('halted').length).toBe(1)
    trial.sources[0]!.head = grow(MAIN, 1, 'aa')
    trial.isWriterPaused = false
    trial.pass(11_000)
    expect(trial.canonical.hash).toBe('0xaa0065')
    expect(trial.of('resumed').length).toBe(1)
  })
  test('in a branch ends that branch when it is followed again', () => {
    const trial = new Trial(2).tick()
    const [first, second] = trial.sources as [Source, Source]
    const branch = grow(at(MAIN, 97), 5, 'bb')
    second.fails = 'broken'
    trial.isWriterPaused = true
    first.head = branch
    trial.pass(3_000)
    trial.write(1)
    trial.refuse(at(branch, 99)!)
    trial.isWriterPaused = false
    second.fails = undefined
    second.head = grow(MAIN, 1, 'aa')
    trial.pass(20_000)
    expect(trial.canonical).toBe(second.head)
    // The first upstream is no longer in backoff, and the other one does not respond.
    second.fails = 'broken'
    trial.pass(60_000)
    expect(trial.canonical).toBe(at(branch, 98))
    second.fails = undefined
    second.head = grow(at(branch, 98), 9, 'cc')
    trial.pass(20_000)
    expect(trial.canonical).toBe(second.head)
  })
  test('and that no upstream has any more changes nothing', () => {
    const trial = new Trial(1).tick()
    trial.refuse(grow(MAIN, 1, 'dd'))
    expect(trial.of('halted')).toEqual([])
    expect(trial.warnings).toEqual([])
  })
})

describe('a resync of the state', () => {
  const started = (head: Block) => ({ number: head.number, hash: head.hash })

  test('is requested while our head is further behind than upstream state reaches', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 20 })
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(MAIN, 20, 'aa')
    trial.tick().pass(3_000)
    expect(trial.of('left')).toEqual([])
    trial.sources[0]!.head = grow(MAIN, 21, 'aa')
    trial.pass(3_000)
    const why = 'our head is 21 blocks behind u0, whose state reaches 20'
    expect(trial.of('left')).toEqual([{ type: 'left', why }])
    trial.pass(10_000)
    expect(trial.of('left').length).toBe(2)
    // The tracker goes on as far as possible until another upstream contradicts.
    expect(trial.sent.length).toBeGreaterThan(0)
  })

  test('stops all blocks until it ends, and the chain continues from the new head', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 20 })
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(MAIN, 200, 'aa')
    trial.tick().apply({ type: 'beginning' })
    const before = trial.sent.length
    trial.pass(3_000)
    expect(trial.sent.length).toBe(before)
    expect(trial.status.halted?.text).toBe('the state begins anew')
    const start = at(trial.sources[0]!.head, 295)!
    trial.canonical = start
    trial.isWriterPaused = false
    trial.apply({ type: 'begun', head: started(start), safe: 290, finalized: 280 })
    trial.pass(3_000)
    expect(numbers(trial.sent.slice(before))).toEqual([296, 297, 298, 299, 300])
    expect(trial.status.halted).toBeUndefined()
    // Nothing is unwound below the new start.
    trial.sources[0]!.head = grow(at(start, 279), 30, 'bb')
    trial.pass(3_000)
    expect(trial.of('halted').at(-1)?.message).toMatch(/deeper than block 295, at which/)
  })

  test('is not needed when the upstream with a deeper reorg has our chain again', () => {
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

  test('discards heads that were reported before it', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 20 })
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(MAIN, 1, 'bb')
    trial.tick().pass(1_000)
    trial.apply({ type: 'beginning' })
    const start = grow(MAIN, 195, 'aa')
    trial.canonical = start
    trial.sources[0]!.head = start
    trial.apply({ type: 'begun', head: started(start), safe: 290, finalized: 280 })
    trial.pass(3_000)
    expect(trial.of('halted')).toEqual([])
    expect(trial.status.head).toBe(start.number)
  })

  test('that the writer refuses lets the chain continue as before', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 20 }).tick()
    trial.apply({ type: 'beginning' })
    trial.sources[0]!.head = grow(MAIN, 3, 'aa')
    trial.pass(3_000)
    expect(trial.sent).toEqual([])
    trial.apply({ type: 'notBegun' })
    trial.pass(1_000)
    expect(numbers(trial.sent)).toEqual([101, 102, 103])
  })

  test('is requested when the state of a block is missing twice in a row', () => {
    const trial = new Trial(1, { lazyStart: 50, stateDepth: 64 })
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(MAIN, 1, 'aa')
    trial.tick().pass(1_000)
    trial.refuse(trial.sources[0]!.head, 'state')
    trial.pass(2_000)
    expect(trial.of('left')).toEqual([])
    trial.refuse(trial.sources[0]!.head, 'state')
    trial.pass(1_000)
    expect(trial.of('left').map(({ why }) => why)).toEqual(['the state of block 100 cannot be had'])
  })

  test('is never requested with whole state', () => {
    const trial = new Trial(1)
    trial.isWriterPaused = true
    trial.sources[0]!.head = grow(MAIN, 9_000, 'aa')
    trial.tick().pass(3_000)
    expect(trial.of('left')).toEqual([])
  })
})

test('an upstream that was outvoted at the start is in backoff and degraded at first', () => {
  const suspected = new Map([['u0', 'block 100 is another one there']])
  const trial = new Trial(3, { suspected }).tick()
  expect(trial.order).toEqual([1, 2])
  expect(trial.status.degraded.map(({ text }) => text)).toEqual([
    'u0: block 100 is another one there',
  ])
  trial.pass(61_000)
  expect(trial.order).toEqual([0, 1, 2])
})
