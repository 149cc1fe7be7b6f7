/**
 * Subscribers of every kind receive a steady rate of transactions, and one in ten of them does not
 * read. All others must receive each event once and in order. The cost for the front is printed.
 * Usage: npm run subscribers [-- --short] [--count N of each kind] [--only KIND,…] [--tps N]
 * [--seconds N] [--seed S]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Hex } from 'viem'
import { checks } from '../kit/checks.ts'
import { call, KEYS } from '../kit/node.ts'
import { runOptions } from '../kit/run-options.ts'
import { processorOf, since } from './hostile/processor.ts'
import { front, metric, settled, startOverloaded } from './overload/overloaded-node.ts'
import { createSender } from './overload/sender.ts'
import { breakPromises } from './subscribers/broken.ts'
import { type Subscriber, subscribe } from './subscribers/client.ts'
import {
  grownTransactions,
  KINDS,
  type Kind,
  type SealedReceipt,
  topicOf,
  type World,
} from './subscribers/kinds.ts'

/** CALLDATALOAD 0 as the topic of a log without data: PUSH0 CALLDATALOAD PUSH0 PUSH0 LOG1 STOP. */
const LOGGER = { address: `0x${'10'.repeat(20)}`, code: '0x5f355f5fa100' } as const
/** One in this many subscribers does not read. */
const SLOW = 10
/** This many subscribers are sent more than they could take. */
const GLUTTED = 5
/**
 * Each of these has a history of this many blocks, which soon fills the system's buffers of a
 * connection.
 */
const SLOW_BLOCKS = 20
/** Seconds of load after the last broken promise. */
const AFTER_SECONDS = 3
/** No ping comes in between, because a client that does not read answers none. */
const FLAGS = ['--limit-ping-ms', '600000', '--limit-send-queue-bytes', '1000000']

const options = runOptions(
  'subscribers',
  { full: 60, short: 12 },
  { count: { type: 'string' }, only: { type: 'string' }, tps: { type: 'string' } },
)
const { random, seconds, own } = options
const count = Number(own['count'] ?? 50)
const tps = Number(own['tps'] ?? 50)
const names = own['only'] === undefined ? Object.keys(KINDS) : String(own['only']).split(',')
const { check, close } = checks('subscribers')

const directory = mkdtempSync(join(tmpdir(), 'flashnode-subscribers-'))
process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
const alloc = join(directory, 'alloc.json')
writeFileSync(alloc, JSON.stringify({ [LOGGER.address]: { balance: '0x0', code: LOGGER.code } }))
const connections = String(count * names.length + 50)
const node = await startOverloaded([
  ...FLAGS,
  ...['--genesis-alloc', alloc, '--limit-connections-per-client', connections],
  ...['--limit-connections-total', connections],
])
const url = `${node.url.replace('http', 'ws')}/flashblocks`
const senders = KEYS.map((_, which) => createSender(node.url, which))
const world: World = {
  senders: senders.map(({ address }) => address.toLowerCase() as Hex),
  contract: LOGGER.address,
}

const nonceOf = async (address: Hex) => ({
  nonce: Number(
    await call(`${node.url}/flashblocks`, 'eth_getTransactionCount', [address, 'pending']),
  ),
})

type Listener = { readonly kind: Kind; readonly at: number; readonly subscriber: Subscriber }

const numberOf = async (tag: string) =>
  Number(
    (
      (await call(`${node.url}/flashblocks`, 'eth_getBlockByNumber', [tag, false])) as {
        number: Hex
      }
    ).number,
  )

/**
 * Sends transactions.
 * @param isRequesting reads the nonce before each, because earlier transactions may have been
 * removed
 */
async function load(
  during: number,
  isRequesting = false,
): Promise<{ readonly sent: number; readonly failures: readonly unknown[] }> {
  const busy = new Set<number>()
  const failures: unknown[] = []
  let sent = 0
  const startedAt = performance.now()
  for (let elapsed = 0; elapsed < during; elapsed = (performance.now() - startedAt) / 1_000) {
    const which = senders.findIndex((_, at) => !busy.has(at))
    if (which >= 0 && sent < elapsed * tps) {
      busy.add(which)
      sent++
      const to = random() < 0.8 ? LOGGER.address : world.senders[Math.floor(random() * 6)]!
      const topic = topicOf(Math.floor(random() * 1_000))
      const data = to === LOGGER.address ? { data: topic } : {}
      const sender = senders[which]!
      const request = isRequesting ? nonceOf(sender.address) : Promise.resolve({})
      void request
        .then((own) => sender.send({ to, gas: 60_000n, fee: 10n ** 11n, ...data, ...own }))
        .catch((error: unknown) => failures.push(error))
        .finally(() => busy.delete(which))
    } else await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await settled(
    async () => busy.size,
    (left) => left === 0,
  )
  return { sent, failures }
}

/** Waits until everything that is pending now is sealed, and gives the last block's number. */
async function sealedUpTo(): Promise<number> {
  const last = await numberOf('pending')
  await settled(
    async () => Number(await call(node.url, 'eth_blockNumber')),
    (number) => number > last,
  )
  return last
}

async function sealedReceipts(first: number, last: number): Promise<SealedReceipt[]> {
  const receipts: SealedReceipt[] = []
  for (let number = first; number <= last; number++) {
    const block = `0x${number.toString(16)}`
    receipts.push(...((await call(node.url, 'eth_getBlockReceipts', [block])) as SealedReceipt[]))
  }
  return receipts
}

/** Describes what is wrong with a subscriber's events; undefined: nothing. */
function wrongOf({ kind, at, subscriber }: Listener, receipts: readonly SealedReceipt[]) {
  const due = receipts.flatMap((receipt) => kind.due(receipt, at, world))
  const emitted =
    kind === KINDS['newFlashblocks'] ? grownTransactions(subscriber.emitted) : subscriber.emitted
  const from = emitted.indexOf(due[0]!)
  const until = emitted.lastIndexOf(due.at(-1)!)
  const within = emitted.slice(from, until + 1)
  if (due.length > 0 && from < 0) return 'was not told of the first'
  if (new Set(emitted).size !== emitted.length) return 'was told something twice'
  if (within.length !== due.length) return `was told ${within.length} of ${due.length}`
  return due.every((key, index) => key === within[index]) ? undefined : 'was told in another order'
}

async function run(kinds: readonly string[]): Promise<void> {
  const listeners: Listener[] = []
  for (const name of kinds)
    for (let at = 0; at < count; at++) {
      const kind = KINDS[name]
      if (kind === undefined) throw new Error(`--only: there are ${Object.keys(KINDS).join(', ')}`)
      const subscriber = await subscribe(url, kind.params(at, world), kind.keysOf)
      listeners.push({ kind, at, subscriber })
    }
  const isSlow = ({ at }: Listener) => at % SLOW === SLOW - 1
  const slow = listeners.filter(isSlow)
  const quick = listeners.filter((one) => !isSlow(one))
  const glutted = await Promise.all(
    Array.from({ length: GLUTTED }, async () => {
      const one = await subscribe(url, ['newFlashblocks'], () => [])
      for (let more = 1; more < SLOW_BLOCKS; more++) await one.more(['newFlashblocks'])
      one.pause()
      return one
    }),
  )
  for (const { subscriber } of slow) subscriber.pause()
  const first = (await numberOf('pending')) + 1
  const slowBefore = await metric(node, front('subscribersSlow'))
  const before = processorOf(node.pid)
  const startedAt = performance.now()
  const { sent, failures } = await load(seconds)
  const last = await sealedUpTo()
  check(`${kinds}: all transactions were accepted`, failures.length === 0, `${failures[0] ?? ''}`)
  const cost = since(before, processorOf(node.pid))
  const tookSeconds = (performance.now() - startedAt) / 1_000
  // A response comes after all earlier events of its connection.
  const ended = await Promise.allSettled(quick.map(({ subscriber }) => subscriber.reached()))
  const broken = ended.find((one) => one.status === 'rejected')
  check(
    `${kinds}: subscribers that read stay connected`,
    broken === undefined,
    `${broken?.reason ?? ''}`,
  )
  const receipts = await sealedReceipts(first, last)
  const wrong = quick.map((one) => wrongOf(one, receipts)).filter((one) => one !== undefined)
  check(
    `${kinds}: ${quick.length} subscribers got each event once and in order`,
    wrong.length === 0,
    `${sent} transactions sent, ${receipts.length} in blocks ${first} to ${last}; ${wrong.length} wrong${wrong[0] === undefined ? '' : `: ${wrong[0]}`}`,
  )
  await checkSlow(kinds, { slow, glutted, receipts, slowBefore })
  const bytes = quick.reduce((sum, { subscriber }) => sum + subscriber.bytes(), 0)
  const perSecond = (ms: number) => `${Math.round(ms / tookSeconds)} ms`
  console.log(
    `     ${kinds}: a second ${perSecond(cost.frontMs)} of the front's processor time (${perSecond(cost.nodeMs)} of the node's), ` +
      `${(bytes / 1e6 / tookSeconds).toFixed(2)} MB to ${quick.length} that read, ${Math.round(bytes / Math.max(1, quick.length) / tookSeconds)} bytes to each`,
  )
  for (const { subscriber } of listeners) subscriber.close()
  for (const one of glutted) one.close()
}

async function checkSlow(
  kinds: readonly string[],
  of: {
    readonly slow: readonly Listener[]
    readonly glutted: readonly Subscriber[]
    readonly receipts: readonly SealedReceipt[]
    readonly slowBefore: number
  },
): Promise<void> {
  const { slow, glutted, receipts } = of
  const counted = await settled(
    async () => (await metric(node, front('subscribersSlow'))) - of.slowBefore,
    (many) => many >= glutted.length,
  )
  for (const one of glutted) one.resume()
  const codes = await Promise.all(glutted.map(({ closed }) => closed))
  check(
    `${kinds}: subscribers with too many unsent bytes are closed with 1013`,
    counted >= glutted.length && codes.every((how) => how.startsWith('1013 too slow')),
    `${counted} counted, ${[...new Set(codes)].join('; ')}`,
  )
  for (const { subscriber } of slow) subscriber.resume()
  const ends = await Promise.all(
    slow.map(async (one) => {
      const ended = await one.subscriber.reached().then(
        () => wrongOf(one, receipts),
        ({ message }: Error) => message,
      )
      return ended === undefined || ended.startsWith('closed with 1013') ? undefined : ended
    }),
  )
  const wrong = ends.filter((end) => end !== undefined)
  check(
    `${kinds}: a late reader has all events, or was closed with 1013`,
    wrong.length === 0,
    wrong[0] ?? `${slow.length} of them`,
  )
}

// All kinds run at once, unless one at a time is requested.
if (own['only'] === undefined) {
  await run(names)
  await breakPromises(
    (what, isRight, detail) => check(`broken promises: ${what}`, isRight, detail),
    {
      url: node.url,
      world,
      random,
      sealed: sealedReceipts,
      first: async () => (await numberOf('pending')) + 1,
      load: () => load(seconds, true),
      last: async () => {
        // The blocks on top of the broken ones become the chain in the end.
        await load(AFTER_SECONDS, true)
        return sealedUpTo()
      },
    },
  )
} else for (const name of names) await run([name])
check('the node ends with 0', (await node.stop()) === 0)
close()
