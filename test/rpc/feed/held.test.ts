import { describe, expect, test } from 'vitest'
import type { FeedPlace } from '../../../engine/flashblocks/types.ts'
import { HeldMessages } from '../../../rpc/feed/held.ts'
import { readFeedQuery } from '../../../rpc/feed/query.ts'

const A = '0x00000000000000aa'
const B = '0x00000000000000bb'
/** `5.0a 5.1a 5.ea`: blocks, indices or the End, payloads. */
const placeOf = (text: string): FeedPlace => {
  const [number, index, payload] = /^(\d+)\.(\d|e)([ab])$/.exec(text)!.slice(1) as string[]
  return {
    number: Number(number),
    index: index === 'e' ? undefined : Number(index),
    payloadId: payload === 'a' ? A : B,
  }
}
function held(list: string, most = { messages: 100, bytes: 1_000 }) {
  const messages = new HeldMessages<string>(most, ({ length }) => length)
  for (const text of list.split(' ').filter((text) => text !== ''))
    messages.add({ place: placeOf(text), message: text })
  return messages
}
function after(list: string, since: string) {
  const query = readFeedQuery(`/feed?since=${since}`)
  if ('wrong' in query || query.since === undefined) throw new Error(since)
  const { messages, gap } = held(list).after(query.since)
  return [messages.join(' '), gap && (gap.next ?? 'nothing')]
}

const TWO = '5.0a 5.1a 5.ea 6.0a 6.1a'
const cases: [name: string, list: string, since: string, messages: string, gap: unknown][] = [
  ['it has the newest', TWO, '6:1', '', undefined],
  ['what came after it', TWO, '5:0', '5.1a 5.ea 6.0a 6.1a', undefined],
  ['after an End', TWO, '5:end', '6.0a 6.1a', undefined],
  ['by its payload too', TWO, `5:1:${A}`, '5.ea 6.0a 6.1a', undefined],
  ['what came after the newest of two payloads', '5.0a 5.1a 5.0b', '5:0', '', undefined],
  ['after the one that it has', '5.0a 5.1a 5.0b', `5:0:${A}`, '5.1a 5.0b', undefined],
  ['it has been further elsewhere', TWO, '6:3', '', undefined],
  ['and in a later block', TWO, `9:3:${B}`, '', undefined],
  ['it begins where the reader stopped', '5.3a 5.4a', '5:2', '5.3a 5.4a', undefined],
  ['and at a block', '6.0a', '5:end', '6.0a', undefined],
  ['but index 0 does not say that it came next', '6.0a', '5:4', '6.0a', placeOf('6.0a')],
  ['too old', '5.3a 5.4a', '5:0', '5.3a 5.4a', placeOf('5.3a')],
  ['much too old', TWO, '3:1', TWO, placeOf('5.0a')],
  ['its payload was never here', '5.0a 5.1a 5.ea', `5:4:${B}`, '5.0a 5.1a 5.ea', undefined],
  ['and the one here is not whole', '5.2a 5.ea', `5:4:${B}`, '5.2a 5.ea', placeOf('5.2a')],
  ['nothing is held', '', '5:4', '', 'nothing'],
]
test.each(cases)('%s', (_, list, since, messages, gap) => {
  expect(after(list, since)).toEqual([messages, gap])
})

test('the oldest go, by number and by bytes', () => {
  const texts = (most: { messages: number; bytes: number }) =>
    held(TWO, most).after({ number: 1, index: 0, payloadId: undefined }).messages.join(' ')
  expect(texts({ messages: 2, bytes: 1_000 })).toBe('6.0a 6.1a')
  expect(texts({ messages: 100, bytes: 15 })).toBe('5.ea 6.0a 6.1a')
  expect(held(TWO, { messages: 2, bytes: 1_000 }).oldest).toEqual(placeOf('6.0a'))
})

describe('queries', () => {
  const queries: [url: string, wrong: string | undefined][] = [
    ['/feed', undefined],
    ['/feed?', undefined],
    ['/feed?since=5:0', undefined],
    ['/feed?since=5:end:0x00000000000000aa', undefined],
    ['/feed?since=5', 'since: expected number:index or number:index:payload_id'],
    ['/feed?since=', 'since: expected number:index or number:index:payload_id'],
    ['/feed?since=-1:0', 'since: expected number:index or number:index:payload_id'],
    ['/feed?since=5:10000', 'since: expected number:index or number:index:payload_id'],
    ['/feed?since=5:0:0xAA', 'since: expected number:index or number:index:payload_id'],
    ['/feed?since=5:0&since=6:0', 'since is given more than once'],
    ['/feed?enrich=1', undefined],
    ['/feed?enrich=1&since=5:0&run=0x00000000000000aa', undefined],
    ['/feed?enrich=1&compress=1', undefined],
    ['/feed?enrich=1&compress=br', 'compress: expected 1, beside enrich only'],
    ['/feed?compress=1', 'compress: expected 1, beside enrich only'],
    ['/feed?enrich=true', 'enrich: expected 1'],
    ['/feed?since=5:0&run=0x00000000000000aa', 'run: expected beside enrich and since only'],
    ['/feed?enrich=1&run=0x00000000000000aa', 'run: expected beside enrich and since only'],
    ['/feed?enrich=1&since=5:0&run=1', 'run: expected 0x and 16 digits, as in the messages'],
    ['/feed?sinse=5:0', 'unknown key in the query, there are since, enrich, compress, run'],
  ]
  test.each(queries)('%s', (url, wrong) => {
    const query = readFeedQuery(url)
    expect('wrong' in query ? query.wrong : undefined).toBe(wrong)
  })
})
