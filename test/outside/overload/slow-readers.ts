/** Clients that ask for much and take a kilobyte a second: they hold no view, no more memory than they may, and nobody else up. */
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
/** The documented limit, shortened. */
const UNSENT_MS = 8_000
const SIP_BYTES = 1_024
const SIP_MS = 1_000
/** Of 64 KB: what requests of the moment may hold. */
const PAGES = 16
/** Of the answers themselves, what is built on the way, and the caches of both ends. */
const TIMES = 3

export async function overloadBySlowReaders(
  check: Check,
  options: { readonly random: () => number; readonly flags: readonly string[] },
): Promise<void> {
  // However busy the machine is, there are logs and answers.
  const times = ['--limit-logs-ms', '60000', '--limit-trace-ms', '60000']
  const node = await startOverloaded(
    [...options.flags, ...times, '--limit-unsent-ms', String(UNSENT_MS)],
    NO_QUOTA,
  )
  const { hash, from, to } = await makeLogs(node)
  const bodies = Array.from({ length: READERS }, (_, index) =>
    // Each a little different, so that each is worked out.
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
    `${READERS} readers of 1 KB/s have their answers begun`,
    waiting === READERS && metrics.get(front('unsent'))! > 0,
    `${waiting} of them, ${mb(bytes)} MB of answers, ${metrics.get(front('unsent'))} not taken`,
  )
  const age = await settled(
    () => leaseAge(node),
    (records) => records < 20,
  )
  const held = await settled(
    () => metric(node, chain('view_held_pages')),
    (pages) => pages <= PAGES,
  )
  check(
    'they hold no view and no page of one',
    age < 20 && held <= PAGES,
    `the oldest lease is ${age} records old, ${held} pages held`,
  )
  const grown = (await memoryMb(node)) - before
  check(
    'they cost no more memory than their answers',
    grown < (TIMES * bytes) / 1e6 + 100,
    `${grown} MB for ${mb(bytes)} MB`,
  )
  // An answer that the kernel has taken whole is nobody's burden: some are small enough.
  const waits = await settled(
    () => metric(node, front('unsentBytes')),
    (left) => left === 0,
  )
  // On a busy machine some are cut off, and counted, after all have been looked at once.
  const { cut, counted } = await settled(
    async () => ({
      counted: await metric(node, front('unsentCut')),
      cut: readers.filter((reader) => reader.isOver()).length,
    }),
    (seen) => seen.cut === seen.counted,
  )
  check(
    'each that waits is cut off',
    waits === 0 && cut === counted && counted > READERS / 2,
    `${cut} have seen their end, ${counted} counted, ${waits} bytes still wait`,
  )
  const beside = await clients.stop()
  check(
    'others are served meanwhile',
    isUntouched(beside),
    `${besideText(beside)} ${beside.wrong.join('; ')}`,
  )
  check('the node ends with 0', (await node.stop()) === 0)
}

const hex = (number: number) => `0x${number.toString(16)}`
const mb = (bytes: number) => Math.round(bytes / 1e6)
const memoryMb = async (node: OverloadedNode) =>
  mb(await metric(node, 'process_resident_memory_bytes'))

/** 9,700 logs in few blocks, 9 MB as an answer, and a transaction of 9,000 steps. */
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
  /** Bytes that it has read, and that its answer has. */
  received(): number
  announced(): number
  /** The server has ended the connection. */
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
  // Whoever reads so little hears of the end only when he writes.
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
      // Paused, and yet read from: without a listener nothing is taken from the system.
      socket.on('readable', () => {})
      resolve(socket)
    })
    socket.once('error', reject)
  })
}
