/**
 * These clients read through HAProxy, each from its own address, and compare every response with
 * the chain.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Hex } from 'viem'
import { type Reply, sendRequest } from '../../../kit/batch.ts'
import { bodyOf } from '../../../kit/client.ts'
import {
  compare,
  type FlashblockId,
  parseFlashblockId,
} from '../../flashblock-ids/flashblock-id.ts'
import { differences } from '../../flashblock-ids/recorder.ts'
import { balanceOf, slotOf } from '../../soak/token.ts'
import type { Said } from '../client.ts'
import type { Entry, Journal } from './journal.ts'
import { type Observations, pause, request } from './observations.ts'

export type Subjects = {
  readonly senders: readonly Hex[]
  readonly holders: readonly Hex[]
  readonly token: Hex
  /** Gives the next nonce of a sender, including attempts. */
  nextNonce(sender: Hex): number
  /** The accepted hashes, the newest last. */
  readonly sent: readonly Hex[]
}
export type Around = {
  readonly url: string
  readonly dev: string
  readonly journal: Journal
  readonly observations: Observations
  readonly subjects: Subjects
  readonly random: () => number
  readonly isOver: () => boolean
  /** Gives the server at which HAProxy has the address now. */
  nodeOf(address: string): Promise<string>
  /** The present address of each reader, and the number of events before the reader took it. */
  readonly readers: Map<string, { readonly from: string; readonly round: number }>
}

const PACE_MS = 60
/** A FlashblockId of a replica must reach this process from the sequencer within this time. */
const EMITTED_MS = 15_000
/** Every replica that gets a request must know a block of this age. */
const LATE_MS = 9_000
/** Requests reach this many blocks below the head. */
const DEPTH = 25

type Client = {
  readonly from: string
  /** The client states the flashblock that it has seen. */
  readonly isRequesting: boolean
  newest: FlashblockId | undefined
}
type Question = readonly [method: string, params: readonly unknown[]]
/** A request on `pending`, with its expected result at a flashblock. */
type Pending = {
  readonly question: Question
  isRight(result: unknown, at: Entry): boolean
  expected(at: Entry): string
}

/** The addresses of one reader: as many as fit into 127.0.23.0/24 beside those of seven others. */
const ADDRESSES = 30

/**
 * Reads alone, and changes the address after each event. HAProxy keeps an address at its first
 * server, so replicas that were down would get no requests.
 * @param net the third byte of its addresses
 * @param which of `of` readers of that net
 */
export async function readAlone(
  around: Around,
  {
    net,
    which,
    of,
    isRequesting,
  }: {
    readonly net: number
    readonly which: number
    readonly of: number
    readonly isRequesting: boolean
  },
): Promise<void> {
  const { observations, readers } = around
  const clientOf = (round: number): Client => {
    const from = `127.0.${net}.${which + 1 + of * (round % ADDRESSES)}`
    readers.set(`${net} ${which}`, { from, round })
    return { from, isRequesting, newest: undefined }
  }
  let round = observations.ended()
  let client = clientOf(round)
  const judging = new Set<Promise<void>>()
  const judged = (work: Promise<void>) => {
    judging.add(work)
    void work.finally(() => judging.delete(work))
  }
  while (!around.isOver()) {
    if (round !== observations.ended()) {
      round = observations.ended()
      client = clientOf(round)
    }
    const isPending = isRequesting || around.random() < 0.6
    if (isPending) await readPending(around, client, judged)
    else await readSealed(around, client, judged)
    await pause(PACE_MS * 2 * around.random())
  }
  await Promise.all(judging)
}

type Judged = (work: Promise<void>) => void

async function readPending(around: Around, client: Client, judged: Judged): Promise<void> {
  const { observations, url } = around
  const requested = pendingQuestion(around)
  const started = performance.now()
  const before = client.newest
  const headers: Record<string, string> =
    client.isRequesting && before !== undefined
      ? { 'x-min-flashblock': `${before.number}:${before.index}` }
      : {}
  const body = bodyOf(...requested.question)
  const said = await request(observations, {
    url: `${url}/flashblocks`,
    body,
    from: client.from,
    headers,
  })
  if (said === undefined) return
  if (said.result === undefined) {
    refused(around, { client, question: requested.question, said, started })
    return
  }
  const flashblockId = flashblockIdOf(said.flashblockId)
  if (flashblockId === undefined) {
    observations.fault(
      'wrong',
      `${client.from} ${requested.question[0]} at no place: "${said.flashblockId}"`,
    )
    return
  }
  if (before !== undefined && compare(flashblockId, before) < 0) {
    const kind = client.isRequesting ? 'backwards although asked' : 'backwards'
    const after = `${before.number}:${before.index}`
    observations.count(kind)
    observations.fault(
      kind,
      `${client.from} saw ${said.flashblockId} after ${after}, asked at ${observations.seconds(started)}`,
    )
    if (!client.isRequesting) observations.count(`backwards ${client.from}`)
  }
  if (before === undefined || compare(flashblockId, before) > 0 || !client.isRequesting)
    client.newest = flashblockId
  judged(judgePending(around, { requested, said, client, started }))
}

/** A block that came as a whole has no payload. */
const flashblockIdOf = (text: string): FlashblockId | undefined =>
  parseFlashblockId(text.endsWith(':') ? `${text}0x0000000000000000` : text)

async function judgePending(
  { observations, journal, nodeOf }: Around,
  {
    requested,
    said,
    client,
    started,
  }: { requested: Pending; said: Said; client: Client; started: number },
): Promise<void> {
  const at = await journal.reached(said.flashblockId, EMITTED_MS)
  const question = JSON.stringify(requested.question)
  const what = async () =>
    `${client.from} at ${await nodeOf(client.from)}, ${question} asked at ${observations.seconds(started)}`
  if (at === undefined && journal.isPassedOver(said.flashblockId)) {
    observations.count('at a flashblock that the sequencer itself did not show')
    return
  }
  if (at === undefined) {
    observations.fault('wrong', `${await what()}: nobody has told of ${said.flashblockId}`)
    return
  }
  observations.count('compared on pending')
  if (requested.isRight(said.result, at)) return
  const got = JSON.stringify(said.result).slice(0, 200)
  observations.fault(
    'wrong',
    `${await what()} at ${said.flashblockId}: ${got}, expected ${requested.expected(at)}; ${journal.around(at)}`,
  )
}

const pick = <T>(items: readonly T[], random: () => number): T =>
  items[Math.floor(random() * items.length)]!

function pendingQuestion({ subjects, journal, random }: Around): Pending {
  const { senders, holders, token } = subjects
  const holder = pick(holders, random)
  const number = (question: Question, value: (at: Entry) => bigint): Pending => ({
    question,
    isRight: (result, at) => typeof result === 'string' && BigInt(result) === value(at),
    expected: (at) => `0x${value(at).toString(16)}`,
  })
  const kinds: readonly (() => Pending)[] = [
    () => {
      const who = random() < 0.5 ? pick(senders, random) : holder
      const value = (at: Entry) => journal.balance(who, at.position)
      return number(['eth_getBalance', [who, 'pending']], value)
    },
    () => {
      const own = slotOf(holder)
      const value = (at: Entry) => journal.slot(token, own, at.position)
      return number(['eth_getStorageAt', [token, own, 'pending']], value)
    },
    () => {
      const own = slotOf(holder)
      const value = (at: Entry) => journal.slot(token, own, at.position)
      const call = { to: token, data: balanceOf(holder) }
      return number(['eth_call', [call, 'pending']], value)
    },
    () => number(['eth_blockNumber', ['pending']], (at) => BigInt(at.number)),
    () => nonceQuestion(pick(senders, random), { subjects, journal }),
    () => blockQuestion(journal),
  ]
  return pick(kinds, random)()
}

/**
 * Makes a request for the nonce, which counts waiting transactions. It must be at least the
 * flashblock's, and at most the number of sent ones.
 */
function nonceQuestion(
  sender: Hex,
  { subjects, journal }: Pick<Around, 'subjects' | 'journal'>,
): Pending {
  const min = (at: Entry) => journal.nonce(sender, at.position)
  return {
    question: ['eth_getTransactionCount', [sender, 'pending']],
    isRight: (result, at) => {
      const nonce = Number(result)
      return nonce >= min(at) && nonce <= subjects.nextNonce(sender)
    },
    expected: (at) => `${min(at)} to ${subjects.nextNonce(sender)}`,
  }
}

function blockQuestion(journal: Journal): Pending {
  const hashesAt = (at: Entry) =>
    journal.entries
      .filter(({ number, position }) => number === at.number && position <= at.position)
      .flatMap(({ transactions }) => transactions)
  return {
    question: ['eth_getBlockByNumber', ['pending', false]],
    isRight: (result, at) => {
      const { number, transactions } = result as { number: string; transactions: string[] }
      return Number(number) === at.number && isDeepStrictEqual(transactions, hashesAt(at))
    },
    expected: (at) => `${at.number} with ${hashesAt(at).length}`,
  }
}

async function readSealed(around: Around, client: Client, judged: Judged): Promise<void> {
  const { observations, url, journal, random } = around
  const number = journal.canonical - Math.floor(random() * DEPTH)
  const canonicalAt = journal.canonicalAt(number)
  if (canonicalAt === undefined) return
  const question = sealedQuestion(around, number)
  const started = performance.now()
  // On a late replica a young block may be pending, with a partial hash.
  const path = started - canonicalAt < LATE_MS || random() < 0.5 ? '/' : '/flashblocks'
  const body = bodyOf(...question)
  const said = await request(observations, { url: `${url}${path}`, body, from: client.from })
  if (said === undefined) return
  const reply = JSON.parse(said.text) as Reply
  if (reply.error !== undefined || isNotThere(reply.result)) {
    if (started - canonicalAt < LATE_MS) observations.count('late')
    else refused(around, { client, question, said, started })
    return
  }
  judged(judgeSealed(around, { client, question, reply, started }))
}

/** Whether the result is empty, or a waiting transaction. */
const isNotThere = (result: unknown): boolean =>
  result === null || (result as { readonly blockNumber?: unknown }).blockNumber === null

async function judgeSealed(
  { dev, observations, nodeOf }: Around,
  requested: {
    readonly client: Client
    readonly question: Question
    readonly reply: Reply
    readonly started: number
  },
): Promise<void> {
  const { client, question, reply, started } = requested
  const { replies } = await sendRequest(`${dev}/`, [question])
  observations.count('compared on blocks')
  const expected = replies[0]!.result
  if (isDeepStrictEqual(expected, reply.result)) return
  const what = `${client.from} at ${await nodeOf(client.from)}, ${JSON.stringify(question)} asked at ${observations.seconds(started)}`
  observations.fault(
    'wrong',
    `${what}: ${differences(reply.result, expected).slice(0, 5).join('; ')}`,
  )
}

function sealedQuestion({ subjects, journal, random }: Around, number: number): Question {
  const { senders, holders, token } = subjects
  const at = `0x${number.toString(16)}`
  const holder = pick(holders, random)
  const own = journal.entries
    .filter((one) => one.number === number)
    .flatMap((one) => one.transactions)
  const kinds: readonly (() => Question)[] = [
    () => ['eth_getBalance', [random() < 0.5 ? holder : pick(senders, random), at]],
    () => ['eth_getTransactionCount', [pick(senders, random), at]],
    () => ['eth_getStorageAt', [token, slotOf(holder), at]],
    () => ['eth_call', [{ to: token, data: balanceOf(holder) }, at]],
    () => ['eth_getBlockByNumber', [at, random() < 0.3]],
    () => ['eth_getBlockReceipts', [at]],
    () => [
      'eth_getLogs',
      [{ fromBlock: `0x${Math.max(0, number - 4).toString(16)}`, toBlock: at }],
    ],
    ...(own.length === 0
      ? []
      : [
          (): Question => ['eth_getTransactionReceipt', [pick(own, random)]],
          (): Question => ['eth_getTransactionByHash', [pick(own, random)]],
        ]),
  ]
  return pick(kinds, random)()
}

/** Judges a refusal. −32001 is right for a client that states the flashblock it has seen. */
function refused(
  { observations }: Around,
  {
    client,
    question,
    said,
    started,
  }: { client: Client; question: Question; said: Said; started: number },
): void {
  if (client.isRequesting && said.text.includes('-32001')) {
    observations.count('not that new yet')
    return
  }
  const what = `${client.from} ${JSON.stringify(question)} asked at ${observations.seconds(started)}`
  observations.fault('refused', `${what}: ${said.status} ${said.text.slice(0, 300)}`)
}
