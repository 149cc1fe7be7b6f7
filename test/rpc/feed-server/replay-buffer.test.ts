import { describe, expect, test } from 'vitest'
import type { FeedMessageId } from '../../../engine/flashblocks/types.ts'
import { readFeedQuery } from '../../../rpc/feed-server/query.ts'
import { ReplayBuffer } from '../../../rpc/feed-server/replay-buffer.ts'

const A = '0x00000000000000aa'
const B = '0x00000000000000bb'
/** Parses ids like `5.0a 5.1a 5.ea`: block, index or End, payload. */
const messageIdOf = (text: string): FeedMessageId => {
  const [number, index, payload] = /^(\d+)\.(\d|e)([ab])$/.exec(text)!.slice(1) as string[]
  return {
    number: Number(number),
    index: index === 'e' ? undefined : Number(index),
    payloadId: payload === 'a' ? A : B,
  }
}
function buffered(list: string, max = { messages: 100, bytes: 1_000 }) {
  const messages = new ReplayBuffer<string>(max, ({ length }) => length)
  for (const text of list.split(' ').filter((text) => text !== ''))
    messages.add({ messageId: messageIdOf(text), message: text })
  return messages
}
function after(list: string, since: string) {
  const query = readFeedQuery(`/feed?since=${since}`)
  if ('wrong' in query || query.since === undefined) throw new Error(since)
  const { messages, gap } = buffered(list).after(query.since)
  return [messages.join(' '), gap && (gap.next ?? 'nothing')]
}

const TWO = '5.0a 5.1a 5.ea 6.0a 6.1a'
const cases: [name: string, list: string, since: string, messages: string, gap: unknown][] = [
  ['the id is the newest message', TWO, '6:1', '', undefined],
  ['later messages', TWO, '5:0', '5.1a 5.ea 6.0a 6.1a', undefined],
  ['messages after an End', TWO, '5:end', '6.0a 6.1a', undefined],
  ['messages after an id with its payload', TWO, `5:1:${A}`, '5.ea 6.0a 6.1a', undefined],
  ['messages after the newer of two payloads', '5.0a 5.1a 5.0b', '5:0', '', undefined],
  [
    'messages after the older of two payloads',
    '5.0a 5.1a 5.0b',
    `5:0:${A}`,
    '5.1a 5.0b',
    undefined,
  ],
  ['an id after the newest message', TWO, '6:3', '', undefined],
  ['an id of a later block', TWO, `9:3:${B}`, '', undefined],
  ['the buffer starts right after the id', '5.3a 5.4a', '5:2', '5.3a 5.4a', undefined],
  ['the buffer starts at the next block', '6.0a', '5:end', '6.0a', undefined],
  ['index 0 does not prove that it follows the id', '6.0a', '5:4', '6.0a', messageIdOf('6.0a')],
  ['the id is older than the buffer', '5.3a 5.4a', '5:0', '5.3a 5.4a', messageIdOf('5.3a')],
  ['the id is several blocks older', TWO, '3:1', TWO, messageIdOf('5.0a')],
  [
    'another payload of the block is complete',
    '5.0a 5.1a 5.ea',
    `5:4:${B}`,
    '5.0a 5.1a 5.ea',
    undefined,
  ],
  [
    'another payload of the block is incomplete',
    '5.2a 5.ea',
    `5:4:${B}`,
    '5.2a 5.ea',
    messageIdOf('5.2a'),
  ],
  ['the buffer is empty', '', '5:4', '', 'nothing'],
]
test.each(cases)('a replay gives the messages since an id: %s', (_, list, since, messages, gap) => {
  expect(after(list, since)).toEqual([messages, gap])
})

test('the oldest messages are evicted by number and by bytes', () => {
  const texts = (max: { messages: number; bytes: number }) =>
    buffered(TWO, max).after({ number: 1, index: 0, payloadId: undefined }).messages.join(' ')
  expect(texts({ messages: 2, bytes: 1_000 })).toBe('6.0a 6.1a')
  expect(texts({ messages: 100, bytes: 15 })).toBe('5.ea 6.0a 6.1a')
  expect(buffered(TWO, { messages: 2, bytes: 1_000 }).oldest).toEqual(messageIdOf('6.0a'))
})

describe('a feed query', () => {
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
    ['/feed?enrich=1&compress=br', 'compress: expected 1, and only together with enrich=1'],
    ['/feed?compress=1', 'compress: expected 1, and only together with enrich=1'],
    ['/feed?enrich=true', 'enrich: expected 1'],
    [
      '/feed?since=5:0&run=0x00000000000000aa',
      'run: expected only together with enrich=1 and since',
    ],
    [
      '/feed?enrich=1&run=0x00000000000000aa',
      'run: expected only together with enrich=1 and since',
    ],
    [
      '/feed?enrich=1&since=5:0&run=1',
      'run: expected 0x and 16 hex digits, as in the messages of the feed',
    ],
    ['/feed?sinse=5:0', 'unknown key in the query, expected one of since, enrich, compress, run'],
  ]
  test.each(queries)('is accepted or refused with the reason: %s', (url, wrong) => {
    const query = readFeedQuery(url)
    expect('wrong' in query ? query.wrong : undefined).toBe(wrong)
  })
})
