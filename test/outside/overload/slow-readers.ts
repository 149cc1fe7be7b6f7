/**
 * Clients request much and read a kilobyte a second. They may not lease a view, exceed their
 * memory, or delay other clients.
 */
import { connect, type Socket } from 'node:net'
import type { Check } from '../../kit/checks.ts'
import { besideText, isUntouched, startClients } from './beside.ts'
import { SMALL_LOGS } from './contracts.ts'
import {
  chain,
  front,
  metric,
  NO_QUOTA,
  type OverloadedNode,
  settled,
  startOverloaded,
} from './overloaded-node.ts'
import { createSender, mined } from './sender.ts'
import { leaseAge } from './workers.ts'

const READERS = 50
/** The limit is shorter than its documented default. */
const UNSENT_MS = 8_000
const SIP_BYTES = 1_024
const SIP_MS = 1_000
/** Requests in progress may lease this many pages of 64 KB. */
const PAGES = 16
/** The allowed memory counts the responses, intermediate results, and the caches of both ends. */
const TIMES = 3

export async function overloadBySlowReaders(
  check: Check,
  options: { readonly random: () => number; readonly flags: readonly string[] },
): Promise<void> {
  // The limits are long, so that a busy machine still gives logs and responses.
  const times = ['--limit-logs-ms', '60000', '--limit-trace-ms', '60000']
  const node = await startOverloaded(
    [...options.flags, ...times, '--limit-unsent-ms', String(UNSENT_MS)],
    NO_QUOTA,
  )
  const { hash, from, to } = await makeLogs(node)
  const bodies = Array.from({ length: READERS }, (_, index) =>
    // Each request is different, so that none comes from a cache.
    index % 10 > 0
      ? {
          method: 'eth_getLogs',
          params: [{ fromBlock: hex(Math.max(0, from - index)), toBlock: hex(to) }],
        }
      : { method: 'debug_traceTransaction', params: [hash, { limit: 10_000 - index }] },
  )
  const before = await memoryMb(node)
  const clients = startClients(node.url, options.random)
  const readers = await Promise.all(bodies.map((body) => openReader(node, body)))
  const waiting = await settled(
    async () => readers.filter(({ received }) => received() > 0).length,
    (count) => count === READERS,
  )
  const metrics = await node.metrics()
  const bytes = readers.reduce((sum, reader) => sum + reader.announced(), 0)
  check(
    `${READERS} readers of 1 KB/s receive the start of their responses`,
    waiting === READERS && metrics.get(front('unsent'))! > 0,
    `${waiting} of them, ${mb(bytes)} MB of answers, ${metrics.get(front('unsent'))} not taken`,
  )
  const age = await settled(
    () => leaseAge(node),
    (snapshots) => snapshots < 20,
  )
  const buffered = await settled(
    () => metric(node, chain('view_held_pages')),
    (pages) => pages <= PAGES,
  )
  check(
    'slow readers hold no lease and no page of a view',
    age < 20 && buffered <= PAGES,
    `the oldest lease is ${age} records old, ${buffered} pages held`,
  )
  const grown = (await memoryMb(node)) - before
  check(
    'slow readers need no more memory than their responses',
    grown < (TIMES * bytes) / 1e6 + 100,
    `${grown} MB for ${mb(bytes)} MB`,
  )
  // A small response that the kernel has taken completely is no longer unsent.
  const waits = await settled(
    () => metric(node, front('unsentBytes')),
    (left) => left === 0,
  )
  // Readers whose answers the kernel has taken completely end later, without being counted.
  const { cut, counted } = await settled(
    async () => ({
      counted: await metric(node, front('unsentCut')),
      cut: readers.filter((reader) => reader.isOver()).length,
    }),
    (seen) => seen.counted > READERS / 2 && seen.cut >= seen.counted,
  )
  check(
    'the node closes slow readers with unsent bytes',
    waits === 0 && cut >= counted && counted > READERS / 2,
    `${cut} have seen their end, ${counted} counted, ${waits} bytes still wait`,
  )
  const beside = await clients.stop()
  check(
    'other clients are served meanwhile',
    isUntouched(beside),
    `${besideText(beside)} ${beside.wrong.join('; ')}`,
  )
  check('the node ends with 0', (await node.stop()) === 0)
}

const hex = (number: number) => `0x${number.toString(16)}`
const mb = (bytes: number) => Math.round(bytes / 1e6)
const memoryMb = async (node: OverloadedNode) =>
  mb(await metric(node, 'process_resident_memory_bytes'))

/** Makes 9,700 logs in few blocks, 9 MB as a response, and a transaction of 9,000 steps. */
async function makeLogs(node: OverloadedNode) {
  const sender = createSender(node.url, 0)
  const numbers: number[] = []
  let hash = ''
  for (let count = 0; count < 8; count++) {
    hash = await sender.send({ to: SMALL_LOGS.address, gas: 3_000_000n })
    const { blockNumber } = await mined(node.url, hash)
    numbers.push(Number(blockNumber))
  }
  return { hash, from: numbers[0]!, to: numbers.at(-1)! }
}

type Reader = {
  /** Gives the received bytes; `announced` gives the length of the response. */
  received(): number
  announced(): number
  /** Whether the server has ended the connection. */
  isOver(): boolean
}

async function openReader(
  node: OverloadedNode,
  { method, params }: { readonly method: string; readonly params: readonly unknown[] },
): Promise<Reader> {
  const socket = await opened(Number(new URL(node.url).port))
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  socket.write(
    `POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )
  let received = 0
  let announced = 0
  let isOver = false
  const end = () => {
    isOver = true
    clearInterval(sip)
  }
  // A client that reads this little notices the end only when it writes.
  const sip = setInterval(() => {
    const bytes = socket.read(Math.min(SIP_BYTES, socket.readableLength)) as Buffer | null
    if (bytes !== null && announced === 0)
      announced = Number(/content-length: (\d+)/i.exec(bytes.toString('latin1'))?.[1] ?? 0)
    received += bytes?.length ?? 0
    if (received > 0) socket.write('\r\n')
  }, SIP_MS)
  socket.once('error', end)
  socket.once('close', end)
  return { received: () => received, announced: () => announced, isOver: () => isOver }
}

function opened(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.once('connect', () => {
      socket.off('error', reject)
      socket.pause()
      // The socket is paused, but without a listener nothing would be read from the system.
      socket.on('readable', () => {})
      resolve(socket)
    })
    socket.once('error', reject)
  })
}
