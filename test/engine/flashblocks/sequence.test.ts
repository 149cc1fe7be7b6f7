import { describe, expect, test } from 'vitest'
import {
  dropPayload,
  type EndVerdict,
  type FlashblockVerdict,
  judgeEnd,
  judgeFlashblock,
  type Sequence,
  startSequence,
} from '../../../engine/flashblocks/sequence.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'

const hash = (value: number) => new Uint8Array(32).fill(value)
type Sent = {
  readonly id?: string
  readonly height?: bigint
  readonly index: number
  readonly target?: number
  readonly hash?: number
  readonly gasUsed?: bigint
  readonly isWithoutHeight?: boolean
}

function flashblock(sent: Sent): Flashblock {
  const height = sent.height ?? 11n
  return {
    type: 'flashblock',
    payloadId: sent.id ?? 'a',
    index: sent.index,
    targetIndex: sent.target ?? 0,
    base:
      sent.index > 0
        ? undefined
        : {
            parentBeaconBlockRoot: hash(0),
            parentHash: hash(Number(height) - 1),
            feeRecipient: new Uint8Array(20),
            prevRandao: hash(0),
            blockNumber: height,
            gasLimit: 1n,
            timestamp: height,
            extraData: new Uint8Array(17),
            baseFeePerGas: 1n,
          },
    delta: {
      stateRoot: hash(0),
      receiptsRoot: hash(0),
      logsBloom: new Uint8Array(256),
      gasUsed: sent.gasUsed ?? 0n,
      blockHash: sent.hash === 0 ? undefined : hash(sent.hash ?? 100 + sent.index),
      transactions: [],
      withdrawalsRoot: hash(0),
      blobGasUsed: 0n,
    },
    blockNumber: sent.isWithoutHeight ? undefined : height,
  }
}

type Step = Sent | 'end' | { readonly end: string } | 'drop'
const heights = { canonical: 10n, complete: 10n }

function run(steps: readonly Step[], at = heights) {
  const verdicts: (FlashblockVerdict | EndVerdict)[] = []
  let sequence: Sequence = startSequence
  for (const step of steps) {
    if (step === 'drop') {
      sequence = dropPayload(sequence)
      continue
    }
    const judged =
      step === 'end' || 'end' in step
        ? judgeEnd(sequence, { type: 'end', payloadId: step === 'end' ? 'a' : step.end })
        : judgeFlashblock(sequence, flashblock(step), at)
    verdicts.push(judged.verdict)
    sequence = judged.sequence
  }
  return { verdicts, sequence }
}

const i = (index: number, more: Omit<Sent, 'index'> = {}): Sent => ({ index, ...more })

describe('the verdict on a message', () => {
  const cases: [name: string, steps: Step[], last: FlashblockVerdict | EndVerdict][] = [
    ['index 0 on the complete head', [i(0)], 'first'],
    ['the next index', [i(0), i(1)], 'next'],
    [
      'the next index without its own block number',
      [i(0), i(1, { isWithoutHeight: true })],
      'next',
    ],
    ['the first message in the middle of a block', [i(3)], 'missingFirst'],
    ['an unknown payload without a height', [i(3, { isWithoutHeight: true })], 'missingFirst'],
    ['the same packet again', [i(0), i(1), i(1)], 'duplicate'],
    ['index 0 again', [i(0), i(1), i(0)], 'duplicate'],
    ['the same flashblock as a subblock', [i(0), i(0, { hash: 0 })], 'duplicate'],
    ['a subblock again', [i(0, { hash: 0 }), i(0, { hash: 0 })], 'duplicate'],
    ['another flashblock at the same index', [i(0), i(0, { gasUsed: 9n })], 'equivocation'],
    [
      'another subblock at the same index, both without a hash',
      [i(0, { hash: 0 }), i(0, { hash: 0, gasUsed: 9n })],
      'equivocation',
    ],
    ['an index that arrives before an earlier one', [i(0), i(2)], 'early'],
    ['the earlier index after a later one', [i(0), i(2), i(1)], 'next'],
    ['the later index a second time', [i(0), i(2), i(1), i(2)], 'next'],
    [
      'the next block after a hole',
      [i(0), i(2), i(0, { id: 'b', height: 12n })],
      'firstOfNextBlock',
    ],
    ['at the canonical head', [i(0, { height: 10n })], 'stale'],
    ['below the canonical head', [i(2, { height: 9n })], 'stale'],
    ['one height above the payload', [i(0), i(0, { id: 'b', height: 12n })], 'firstOfNextBlock'],
    ['after End', [i(0), i(1), 'end', i(0, { id: 'b', height: 12n })], 'firstOfNextBlock'],
    ['another payload of the height', [i(0), i(1), i(0, { id: 'b' })], 'secondPayload'],
    ['the first payload after the second', [i(0), i(0, { id: 'b' }), i(1)], 'stale'],
    ['index 0 of the earlier payload again', [i(0), i(0, { id: 'b', height: 12n }), i(0)], 'stale'],
    ['the next index of the second payload', [i(0), i(0, { id: 'b' }), i(1, { id: 'b' })], 'next'],
    ['another payload whose index 0 is lost', [i(0), i(1, { id: 'b' })], 'missingFirst'],
    ['a height is missing', [i(0), i(0, { id: 'b', height: 13n })], 'ahead'],
    ['a height is missing at the start', [i(0, { height: 12n })], 'ahead'],
    ['the height changes', [i(0), i(1, { height: 12n })], 'heightChanged'],
    ['after the End of its payload', [i(0), i(1), 'end', i(2)], 'afterEnd'],
    ['after an End that came after index 0', [i(0), 'end', i(1)], 'next'],
    ['after the target index', [i(0), i(1, { target: 1 }), i(2, { target: 1 })], 'afterEnd'],
    ['End', [i(0), i(1), 'end'], 'complete'],
    ['End after index 0 alone', [i(0), 'end'], 'loneEnd'],
    ['End twice', [i(0), i(1), 'end', 'end'], 'alreadyComplete'],
    ['End after the target index', [i(0), i(1, { target: 1 }), 'end'], 'alreadyComplete'],
    ['End without any flashblock', ['end'], 'unknownEnd'],
    ['End of another payload', [i(0), { end: 'b' }], 'unknownEnd'],
    ['the next index of a dropped payload', [i(0), 'drop', i(1)], 'stale'],
    ['a new payload after a dropped one', [i(0), 'drop', i(0, { id: 'b' })], 'first'],
  ]
  test.each(cases)('is right: %s', (_, steps, last) => {
    expect(run(steps).verdicts.at(-1)).toBe(last)
  })
})

describe('the sequence', () => {
  test('completes at the last target index that is not 0', () => {
    expect(run([i(0), i(1, { target: 3 }), i(2), i(3)]).sequence.payload).toMatchObject({
      targetIndex: 3,
      isComplete: true,
    })
    expect(run([i(0), i(1)]).sequence.payload).toMatchObject({ isComplete: false })
  })

  test('is unchanged by a message that is ignored', () => {
    const before = run([i(0), i(1)]).sequence
    for (const step of [i(1), i(1, { gasUsed: 9n }), i(0, { height: 9n, id: 'z' })])
      expect(run([i(0), i(1), step]).sequence).toEqual(before)
  })

  test('keeps the block in progress through a hole and a missing height', () => {
    const { sequence } = run([i(0)])
    expect(run([i(0), i(2)]).sequence).toEqual(sequence)
    expect(run([i(0), i(0, { id: 'b', height: 13n })]).sequence).toEqual(sequence)
  })

  const ends: [sent: number | undefined, target: number, verdict: EndVerdict][] = [
    [2, 0, 'complete'],
    [3, 0, 'awaited'],
    [1, 0, 'shortEnd'],
    [undefined, 0, 'shortEnd'],
    [2, 3, 'shortEnd'],
    [4, 3, 'awaited'],
  ]
  test.each(ends)('judges an End after %s, with target %s: %s', (sent, target, verdict) => {
    const { sequence } = run([i(0), i(1, { target })])
    const judged = judgeEnd(sequence, { type: 'end', payloadId: 'a' }, { sent })
    expect(judged.verdict).toBe(verdict)
    const { payload } = judged.sequence
    expect([payload?.isComplete, payload?.size]).toEqual([
      verdict === 'complete',
      verdict === 'shortEnd' ? undefined : sent,
    ])
  })

  test('completes at the flashblock that an End has named as the last', () => {
    const { sequence } = run([i(0), i(1)])
    const { sequence: named } = judgeEnd(sequence, { type: 'end', payloadId: 'a' }, { sent: 3 })
    const judged = judgeFlashblock(named, flashblock(i(2)), heights)
    expect([judged.verdict, judged.sequence.payload?.isComplete]).toEqual(['next', true])
  })

  test('has the parent and the accepted flashblocks of its payload', () => {
    const { payload } = run([i(0), i(1), i(2)]).sequence
    expect(payload).toMatchObject({ number: 11n, parentHash: hash(10) })
    expect(payload?.taken).toHaveLength(3)
  })

  test('starts again when canonical blocks have passed its payload', () => {
    const { sequence } = run([i(0)])
    const far = { canonical: 13n, complete: 13n }
    const incoming = flashblock({ id: 'b', height: 14n, index: 0 })
    expect(judgeFlashblock(sequence, incoming, far).verdict).toBe('first')
  })

  test('lets a payload replace a complete block above the canonical one', () => {
    const at = { canonical: 9n, complete: 10n }
    expect(run([i(0, { height: 10n })], at).verdicts).toEqual(['secondPayload'])
  })

  test('lets an id from a wrong flashblock be used on another parent', () => {
    const wrong = i(0, { id: 'c' })
    const right = [0, 1].map((index) => i(index, { id: 'c', height: 12n }))
    const { verdicts } = run([wrong, 'drop', wrong, i(0, { id: 'b' }), ...right])
    expect(verdicts).toEqual(['first', 'stale', 'first', 'firstOfNextBlock', 'next'])
  })

  test('remembers a bounded number of payloads', () => {
    const steps = Array.from({ length: 40 }, (_, n) =>
      i(0, { id: `p${n}`, height: 11n + BigInt(n) }),
    )
    expect(run(steps).sequence.over).toHaveLength(16)
  })
})
