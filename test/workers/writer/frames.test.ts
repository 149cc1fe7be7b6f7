/** Executed flashblocks are restored after a restart, until they are canonical. */
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MessageChannel } from 'node:worker_threads'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import {
  type FeedPacket,
  JOURNAL_FEED,
  type WriterEffect,
  type WriterEvent,
} from '../../../engine/sources/writer/types.ts'
import { type Frames, openFrames } from '../../../workers/writer/frames.ts'
import { followedSource } from '../../../workers/writer/sources.ts'
import type { ProducedBlock } from '../../fixtures/producer.ts'
import { createBranches, worldWith } from '../../fixtures/writer-branches.ts'
import { digestOf, hex } from '../../fixtures/writer-world.ts'

let a: readonly ProducedBlock[]
let b: readonly ProducedBlock[]
let folder: string
let path: string
let warned: string[]
beforeAll(async () => {
  ;({ a, b } = await createBranches())
})
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'frames-'))
  path = join(folder, 'flashblocks.journal')
  warned = []
})
afterEach(() => rmSync(folder, { recursive: true }))

const packet = (message: FeedMessage): FeedPacket => ({
  feed: 0,
  message,
  digest: digestOf(message),
  receivedAtMs: 0,
})
const open = (): Frames => openFrames(path, (message) => void warned.push(message))
const textOf = (packets: readonly FeedPacket[]) =>
  packets.map(({ feed, message }) => [
    feed,
    Number(message.payloadId),
    message.type === 'flashblock' ? message.index : 'end',
  ])
function retain(...blocks: readonly ProducedBlock[]): void {
  const frames = open()
  for (const { flashblocks } of blocks)
    for (const message of flashblocks) frames.executed(packet(message))
  frames.close()
}

test('executed flashblocks are restored unchanged and in order', () => {
  retain(a[1]!, a[2]!)
  const { found, close } = open()
  close()
  expect(textOf(found)).toEqual([
    ...[0, 1, 2].map((index) => [JOURNAL_FEED, 2, index]),
    ...[0, 1, 2].map((index) => [JOURNAL_FEED, 3, index]),
  ])
  const sent = [...a[1]!.flashblocks, ...a[2]!.flashblocks]
  expect(found.map(({ message }) => message)).toEqual(sent)
})

test('restored flashblocks are not stored twice', () => {
  retain(a[1]!)
  const size = statSync(path).size
  const frames = open()
  for (const one of frames.found) frames.executed(one)
  frames.close()
  expect(statSync(path).size).toBe(size)
})

test('canonical flashblocks are removed before the journal grows large', () => {
  const frames = open()
  for (let n = 0; n < 300; n++) {
    const payloadId = `0x${n.toString(16).padStart(16, '0')}`
    for (const { flashblocks } of a.slice(0, 2))
      for (const message of flashblocks) frames.executed(packet({ ...message, payloadId }))
    frames.canonical(1)
  }
  frames.close()
  const { length } = open().found
  expect(length).toBeGreaterThanOrEqual(300 * 3)
  expect(length).toBeLessThan(300 * 3 + 260)
})

describe('the journal', () => {
  test('starts empty when its file is something else', () => {
    writeFileSync(path, 'not a journal of anybody, and longer than its first line')
    const frames = open()
    frames.executed(packet(a[1]!.flashblocks[0]!))
    frames.close()
    expect([frames.found, warned.length]).toEqual([[], 1])
  })
  test('starts without an end that a crash has cut off', () => {
    retain(a[1]!)
    truncateSync(path, statSync(path).size - 7)
    expect(open().found).toHaveLength(2)
    expect(warned).toEqual([])
  })
  test('starts without the rest after a damaged flashblock, and copies the file', () => {
    retain(a[1]!, a[2]!)
    const spoilt = readFileSync(path)
    spoilt[spoilt.length >> 1]! ^= 8
    writeFileSync(path, spoilt)
    const frames = open()
    frames.close()
    const all = [2, 3].flatMap((payload) =>
      [0, 1, 2].map((index) => [JOURNAL_FEED, payload, index]),
    )
    expect(frames.found.length).toBeGreaterThan(0)
    expect(textOf(frames.found)).toEqual(all.slice(0, frames.found.length))
    expect(readFileSync(`${path}.damaged-1`)).toEqual(spoilt)
    expect(warned).toEqual([expect.stringContaining(`kept as ${path}.damaged-1`)])
  })
})

test('a source stores executed flashblocks, and starts with them after a restart', () => {
  const start = () => {
    const [follower, feed] = [new MessageChannel(), new MessageChannel()]
    const source = followedSource({ follower: follower.port1, feeds: [feed.port1], frames: path })
    const events: WriterEvent[] = []
    source.listen(
      (event) => void events.push(event),
      () => {},
      (message) => void warned.push(message),
    )
    return { source, events }
  }
  const first = start()
  expect(first.events).toEqual([])
  for (const message of a[1]!.flashblocks)
    first.source.onEffect({ type: 'executed', packet: packet(message) } satisfies WriterEffect)
  first.source.close()
  const second = start()
  second.source.close()
  expect(
    textOf(second.events.flatMap((event) => (event.type === 'packet' ? [event.packet] : []))),
  ).toEqual([0, 1, 2].map((index) => [JOURNAL_FEED, 2, index]))
})

describe('a writer that starts with restored flashblocks', () => {
  const resume = async () => {
    const world = await worldWith(a.slice(0, 1))
    for (const { flashblocks } of [a[1]!, { flashblocks: a[2]!.flashblocks.slice(0, 2) }])
      for (const message of flashblocks)
        await world.packet(message, digestOf(message), JOURNAL_FEED)
    await world.settle()
    return world
  }
  test('publishes them, and continues with the feed', async () => {
    const world = await resume()
    expect(world.heads()).toMatchObject({ complete: [2, hex(a[1]!.hash)], pending: [3, 1] })
    await world.packet(a[2]!.flashblocks[2]!)
    await world.settle()
    expect(world.heads().complete).toEqual([3, hex(a[2]!.hash)])
  })
  test('replaces them with competing payloads of a feed', async () => {
    const world = await resume()
    for (const message of b[0]!.flashblocks) await world.packet(message)
    await world.settle()
    expect(world.heads().complete).toEqual([2, hex(b[0]!.hash)])
  })
  test('skips those of canonical blocks', async () => {
    const world = await worldWith(a.slice(0, 2))
    world.start()
    for (const message of a[1]!.flashblocks)
      await world.packet(message, digestOf(message), JOURNAL_FEED)
    expect([world.heads().pending[0], world.count('feed_stale')]).toEqual([2, 3])
  })
})
