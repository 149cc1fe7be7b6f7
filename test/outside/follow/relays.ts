/**
 * Followers of feeds: the feed that a node relays can be followed itself, and a connection that
 * ends loses nothing.
 */
import { WebSocket } from 'ws'
import { decodePacket } from '../../../engine/flashblocks/codec.ts'
import { HANGS_MS } from '../../kit/checks.ts'
import { cuttable } from './cuts.ts'
import { headOf, startFollower, temporary, until } from './nodes.ts'
import type { Section } from './section.ts'

const CUTS = 4
const BETWEEN_CUTS_MS = 1_700

type Reader = {
  /** The frames in order of arrival, as base64. */
  readonly frames: readonly string[]
  /** Gives the reason of the close. */
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

/**
 * Compares both lists from the frame `first` to the last one of `relayed`: nothing may be missing
 * or in another order.
 */
function differenceOf(
  all: readonly string[],
  relayedAll: readonly string[],
  first: string,
): string {
  const start = relayedAll.indexOf(first)
  if (start < 0) return `${frameText(first)} was not relayed`
  const relayed = relayedAll.slice(start)
  const from = all.indexOf(first)
  const expected = all.slice(from, from + relayed.length)
  const at = relayed.findIndex((frame, index) => frame !== expected[index])
  if (at < 0) return ''
  return `frame ${at} of ${relayed.length} is ${frameText(relayed[at])}, expected ${frameText(expected[at])}`
}
function frameText(frame: string | undefined): string {
  const decoded = decodePacket(Buffer.from(frame ?? '', 'base64'))
  if (!('message' in decoded)) return JSON.stringify(decoded)
  const { message } = decoded
  return `${message.payloadId} ${message.type === 'end' ? 'end' : message.index}`
}

/** The first follower uses connections that are cut; the second follows only the first. */
const relays: Section = async ({ leader, check }) => {
  const { node } = leader
  const line = await cuttable(Number(new URL(node.url).port))
  const direct = await startFollower(leader, {
    datadir: temporary('relay-1'),
    upstreams: [`${node.url}/`],
    feeds: [feedOf(node.url, line.port)],
    more: ['--state', 'whole'],
  })
  const far = await startFollower(leader, {
    datadir: temporary('relay-2'),
    upstreams: [`${direct.url}/`],
    feeds: [feedOf(direct.url)],
    more: ['--state', 'whole'],
  })
  const readers: Reader[] = []
  try {
    const isThere = await until(
      async () => (await headOf(far.url)) >= (await headOf(node.url)) - 2,
      HANGS_MS,
    )
    check('relays: a follower of a follower reaches the head', isThere)
    for (const { url } of [node, direct, far]) readers.push(await readFeed(feedOf(url)))
    const [sent, once, twice] = readers as [Reader, Reader, Reader]
    // The first frame read may have been on its way while the others connected.
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
    check('relays: frames sent after the last cut reach both followers', isBack)
    check(
      'relays: the follower connected again after each cut',
      line.connections > CUTS,
      String(line.connections),
    )
    for (const [name, reader] of [
      ['the first follower', once],
      ['the follower of the first', twice],
    ] as const) {
      const difference = differenceOf(sent.frames, reader.frames, first)
      const isComplete = reader.closed() === undefined && difference === ''
      const detail = difference || (reader.closed() ?? `${reader.frames.length} frames`)
      check(`relays: ${name} has every frame over ${CUTS} cuts, byte by byte`, isComplete, detail)
    }
    check(
      'relays: both followers end with 0',
      (await far.stop()) === 0 && (await direct.stop()) === 0,
    )
  } finally {
    for (const reader of readers) reader.close()
    line.close()
    await Promise.all([far.stop('SIGKILL'), direct.stop('SIGKILL')])
  }
}

export const RELAYS: Readonly<Record<string, Section>> = { relays }
