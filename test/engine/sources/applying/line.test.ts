/** Messages of a real leader, read and held to their order; what is spoilt in one is found when it is read. */
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { HeldDiffs } from '../../../../engine/sources/applying/held.ts'
import { Leaders, MOST_MISSES } from '../../../../engine/sources/applying/leaders.ts'
import { LeaderLine } from '../../../../engine/sources/applying/line.ts'
import { readLeaderMessage } from '../../../../engine/sources/applying/message.ts'
import { LeaderError, type ToldDiff } from '../../../../engine/sources/applying/types.ts'
import { packChanges } from '../../../../engine/sources/writer/changes.ts'
import { WHOLE_INDEX } from '../../../../engine/views/whole-index.ts'
import { EnrichedFeed } from '../../../../rpc/feed/enriched.ts'
import { createProducer, type ProducedBlock, send } from '../../../fixtures/producer.ts'
import { toldOf } from '../../../fixtures/told.ts'
import { seal, show } from '../../../fixtures/writer-branches.ts'
import { WriterWorld } from '../../../fixtures/writer-world.ts'
import { MISTOLD, PLANTED } from '../../../outside/apply/plants.ts'

const RUN = '0x00000000000000aa'
let block: ProducedBlock
let honest: readonly ToldDiff[]
let packed: Uint8Array[]
let texts: readonly string[]
beforeAll(async () => {
  const producer = createProducer()
  block = await producer.build(producer.genesis, 1, [[send(0, 0), send(1, 0)], [], [send(0, 1)]])
  const second = await producer.build(block, 2, [[send(2, 0)]])
  honest = await toldOf(producer.genesis, block)
  const world = new WriterWorld({ tellsChanges: true })
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await show(world, block)
  await seal(world, block)
  await show(world, second)
  const feed = new EnrichedFeed(RUN)
  const messages = world.told.flatMap((effect) =>
    effect.type === 'changes' ? [feed.take(packChanges(effect.changes)).message] : [],
  )
  texts = messages.map((message) => Buffer.from(message.data()).toString())
  packed = messages.map((message) => message.packed())
})

/** All that the messages tell. @throws {LeaderError} */
function read(messages: readonly string[]): readonly ToldDiff[] {
  const line = new LeaderLine()
  return messages.flatMap((text) => line.take(readLeaderMessage(Buffer.from(text))))
}
const kindOf = (messages: readonly string[]): string => {
  try {
    read(messages)
    return 'none'
  } catch (error) {
    if (error instanceof LeaderError) return error.kind
    throw error
  }
}

test('what is read is what execution gave', () => {
  const told = read(texts).filter(({ number }) => number === 1)
  expect(told.map((one) => ({ ...one, isFinal: false, hash: null }))).toEqual(
    honest.map((one) => ({ ...one, isFinal: false, hash: null })),
  )
})

describe('packed', () => {
  test('it is read as the text is', () => {
    const all = packed.map((bytes) => readLeaderMessage(bytes))
    expect(all).toEqual(texts.map((text) => readLeaderMessage(Buffer.from(text))))
    expect(all.some(({ diffs }) => diffs.some(({ outcomes }) => outcomes.length > 0))).toBe(true)
  })
  test('property: whatever is cut or changed, it is read or refused', () => {
    const cut = (bytes: Uint8Array, at: number) => bytes.subarray(0, at % bytes.length)
    const changed = (bytes: Uint8Array, at: number, by: number) =>
      bytes.map((byte, place) => (place === at % bytes.length ? byte ^ by : byte))
    fc.assert(
      fc.property(fc.nat(), fc.nat(), fc.integer({ min: 1, max: 255 }), (which, at, by) => {
        const whole = packed[which % packed.length]!
        expect(refusalOf(cut(whole, at))).toBe('malformed')
        expect([undefined, 'malformed', 'version', 'account', 'code']).toContain(
          refusalOf(changed(whole, at, by)),
        )
      }),
    )
  })
})
function refusalOf(bytes: Uint8Array): string | undefined {
  try {
    readLeaderMessage(bytes)
    return undefined
  } catch (error) {
    if (error instanceof LeaderError) return error.kind
    throw error
  }
}

describe('spoilt', () => {
  test.each([...MISTOLD, ...PLANTED])('$name: $kind, or by the writer', ({ plant, kind }) => {
    let isSpoilt = false
    const spoilt = texts.map((text, at) => {
      const planted = isSpoilt ? undefined : plant(text, texts.slice(0, at))
      isSpoilt ||= planted !== undefined
      return planted ?? text
    })
    const isOfMessage = MISTOLD.some((one) => one.kind === kind) || kind === 'payload'
    if (isSpoilt) expect(kindOf(spoilt)).toBe(isOfMessage ? kind : 'none')
    else expect(isOfMessage).toBe(false)
  })
  const CASES: readonly (readonly [string, (text: string) => string, string])[] = [
    ['version', (text) => text.replace('"enriched":2', '"enriched":1'), 'version'],
    ['no snapshot', (text) => text.replace('"snapshot":true', '"snapshot":false'), 'sequence'],
    ['a member left out', (text) => text.replace('"heads"', '"hats"'), 'malformed'],
    ['hex', (text) => text.replace(/"before":"0x[0-9a-f]/, '"before":"0xg'), 'malformed'],
    ['short hex', (text) => text.replace(/"before":"0x[0-9a-f]/, '"before":"0x'), 'malformed'],
    [
      'a quantity with a zero before',
      (text) => text.replace('"cumulativeGasUsed":"0x', '"cumulativeGasUsed":"0x0'),
      'malformed',
    ],
    ['a status', (text) => text.replace('"status":"0x1"', '"status":"0x2"'), 'malformed'],
    [
      'an empty account',
      (text) =>
        text.replace(
          /"account":\{[^}]*\}/,
          '"account":{"nonce":"0x0","balance":"0x0","codeHash":"0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"}',
        ),
      'account',
    ],
    [
      'a code of another hash',
      (text) => text.replace(/("account":\{[^}]*\},"code":)null/, '$1"0x00"'),
      'code',
    ],
    ['no JSON', (text) => text.slice(1), 'malformed'],
    ['a list', () => '[]', 'malformed'],
  ]
  test.each(CASES)('%s', (_, spoil, kind) => {
    const at = texts.findIndex((text) => spoil(text) !== text)
    expect(at).toBeGreaterThanOrEqual(0)
    expect(kindOf(texts.map((text, index) => (index === at ? spoil(text) : text)))).toBe(kind)
  })
})

test('what flashblocks did not tell of a block comes last of it, under an index of its own', () => {
  const rest = (index: number) =>
    texts.map((text) =>
      text.replace(`"number":1,"index":${index},`, `"number":1,"index":${WHOLE_INDEX},`),
    )
  expect(rest(3)).not.toEqual(texts)
  expect([kindOf(rest(3)), kindOf(rest(2))]).toEqual(['none', 'index'])
})

test('what is held is bounded for each leader, and forgotten with its block', () => {
  const held = new HeldDiffs({ diffs: 2, bytes: 1_000_000 })
  const of = (leader: number, told: ToldDiff) => ({ leader, told, receivedAtMs: 0 })
  expect(honest.slice(0, 3).map((told) => held.add(of(0, told)))).toEqual([0, 0, 1])
  expect(held.add(of(1, honest[0]!))).toBe(0)
  expect(held.at(honest[0]!).map(({ leader }) => leader)).toEqual([1])
  held.add(of(1, honest[0]!))
  expect(held.size).toBe(3)
  held.forgetLeader(0)
  expect(held.size).toBe(1)
  held.forgetUpTo(1)
  expect(held.size).toBe(0)
})

test('who is waited for: connected, believed, in time, and not further already', () => {
  const leaders = new Leaders()
  const place = { number: 5, index: 2, payloadId: '0x0000000000000001' }
  expect([leaders.isLed, leaders.mayCome(place)]).toEqual([false, false])
  leaders.connected(0, true)
  expect([leaders.isLed, leaders.mayCome(place)]).toEqual([true, true])
  leaders.told(0, { ...place, index: 3 })
  expect(leaders.mayCome(place)).toBe(false)
  leaders.connected(1, true)
  for (let miss = 0; miss < MOST_MISSES; miss++) leaders.missed()
  expect([leaders.isLed, leaders.mayCome(place)]).toEqual([false, false])
  leaders.inTime(1)
  expect(leaders.mayCome(place)).toBe(true)
  expect([leaders.drop(1), leaders.drop(1), leaders.mayCome(place)]).toEqual([true, false, false])
  expect(leaders.counts()).toEqual({ connected: 1, dropped: 1 })
})
