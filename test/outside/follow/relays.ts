/** Feeds of followers: what a node relays can be followed itself, and a connection that ends costs nothing. */
import { WebSocket } from 'ws'
import { decodePacket } from '../../../engine/flashblocks/codec.ts'
import { HANGS_MS } from '../../kit/checks.ts'
import { cuttable } from './cuts.ts'
import { headOf, startFollower, temporary, until } from './nodes.ts'
import type { Section } from './section.ts'

const CUTS = 4
const BETWEEN_CUTS_MS = 1_700

type Reader = {
  /** Frames as they came, as base64. */
  readonly frames: readonly string[]
  /** Why it ended. */
  readonly closed: () => string | undefined
  close(): void
}

function readFeed(url: string): Promise<Reader> {
  const frames: string[] = []
  let closed: string | undefined
  const socket = new WebSocket(url, { perMessageDeflate: false })
  socket.on('message', (data: Buffer) => frames.push(data.toString('base64')))
  socket.on('close', (code, reason) => {
    closed = `${code} ${reason}`
  })
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('open', () =>
      resolve({ frames, closed: () => closed, close: () => socket.terminate() }),
    )
  })
}

const feedOf = (url: string, port?: number) => {
  const feed = new URL('/feed', url.replace('http', 'ws'))
  if (port !== undefined) feed.port = String(port)
  return feed.href
}

/** What of `all` is missing or in another order in `relayed`, from the frame `first` of both to the last one of `relayed`. */
function differenceOf(
  all: readonly string[],
  relayedAll: readonly string[],
  first: string,
): string {
  const begin = relayedAll.indexOf(first)
  if (begin < 0) return `${told(first)} was not relayed`
  const relayed = relayedAll.slice(begin)
  const from = all.indexOf(first)
  const expected = all.slice(from, from + relayed.length)
  const at = relayed.findIndex((frame, index) => frame !== expected[index])
  if (at < 0) return ''
  return `frame ${at} of ${relayed.length} is ${told(relayed[at])}, expected ${told(expected[at])}`
}
function told(frame: string | undefined): string {
  const decoded = decodePacket(Buffer.from(frame ?? '', 'base64'))
  if (!('message' in decoded)) return JSON.stringify(decoded)
  const { message } = decoded
  return `${message.payloadId} ${message.type === 'end' ? 'end' : message.index}`
}

/** The first follows through connections that are cut, the second follows the first and nobody else. */
const relays: Section = async ({ leader, check }) => {
  const { node } = leader
  const line = await cuttable(Number(new URL(node.url).port))
  const near = await startFollower(leader, {
    datadir: temporary('relay-1'),
    upstreams: [`${node.url}/`],
    feeds: [feedOf(node.url, line.port)],
    more: ['--state', 'whole'],
  })
  const far = await startFollower(leader, {
    datadir: temporary('relay-2'),
    upstreams: [`${near.url}/`],
    feeds: [feedOf(near.url)],
    more: ['--state', 'whole'],
  })
  const readers: Reader[] = []
  try {
    const isThere = await until(
      async () => (await headOf(far.url)) >= (await headOf(node.url)) - 2,
      HANGS_MS,
    )
    check('relays: a follower of a follower is at the head', isThere)
    for (const { url } of [node, near, far]) readers.push(await readFeed(feedOf(url)))
    const [sent, once, twice] = readers as [Reader, Reader, Reader]
    // The first one read may have been on its way while the others connected.
    const had = sent.frames.length
    await until(async () => sent.frames.length > had + 1, HANGS_MS)
    const first = sent.frames.at(-1)!
    for (let cut = 0; cut < CUTS; cut++) {
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_CUTS_MS))
      line.cut()
    }
    const before = sent.frames.length
    await until(async () => sent.frames.length > before + 1, HANGS_MS)
    const newest = sent.frames.at(-1)!
    const isBack = await until(
      async () => once.frames.includes(newest) && twice.frames.includes(newest),
      HANGS_MS,
    )
    check('relays: what is sent after the last cut goes all the way', isBack)
    check('relays: the feed was connected anew', line.connections > CUTS, String(line.connections))
    for (const [name, reader] of [
      ['a follower', once],
      ['a follower of it', twice],
    ] as const) {
      const difference = differenceOf(sent.frames, reader.frames, first)
      const isWhole = reader.closed() === undefined && difference === ''
      const detail = difference || (reader.closed() ?? `${reader.frames.length} frames`)
      check(`relays: ${name} has every frame over ${CUTS} cuts, as it was sent`, isWhole, detail)
    }
    check('relays: both end with 0', (await far.stop()) === 0 && (await near.stop()) === 0)
  } finally {
    for (const reader of readers) reader.close()
    line.close()
    await Promise.all([far.stop('SIGKILL'), near.stop('SIGKILL')])
  }
}

export const RELAYS: Readonly<Record<string, Section>> = { relays }
