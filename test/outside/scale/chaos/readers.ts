/** Clients that read through HAProxy, each from an address of its own, and hold every answer against the chain. */
import { isDeepStrictEqual } from 'node:util'
import type { Hex } from 'viem'
import { ask as askBatch, type Reply } from '../../../kit/batch.ts'
import { bodyOf } from '../../../kit/client.ts'
import { compare, type Place, parsePlace } from '../../places/place.ts'
import { differences } from '../../places/recorder.ts'
import { balanceOf, slotOf } from '../../soak/token.ts'
import type { Said } from '../client.ts'
import type { Entry, Journal } from './journal.ts'
import { ask, type Notes, pause } from './notes.ts'

export type Subjects = {
  readonly senders: readonly Hex[]
  readonly holders: readonly Hex[]
  readonly token: Hex
  /** The nonce that a sender uses next, attempts included. */
  nextNonce(sender: Hex): number
  /** Hashes that were taken, the newest last. */
  readonly sent: readonly Hex[]
}
export type Around = {
  readonly url: string
  readonly dev: string
  readonly journal: Journal
  readonly notes: Notes
  readonly subjects: Subjects
  readonly random: () => number
  readonly isOver: () => boolean
  /** Where HAProxy has the address now. */
  nodeOf(address: string): Promise<string>
  /** From where each reader asks now, and since how many events. */
  readonly readers: Map<string, { readonly from: string; readonly round: number }>
}

const PACE_MS = 60
/** Of a place that a replica names and the sequencer has not told this process yet. */
const TOLD_MS = 15_000
/** A block so old has to be known to every replica that is asked. */
const LATE_MS = 9_000
/** Asked for within so many blocks of the head. */
const DEPTH = 25

type Client = {
  readonly from: string
  /** It says what it has seen. */
  readonly isAsking: boolean
  newest: Place | undefined
}
type Question = readonly [method: string, params: readonly unknown[]]
/** A question on `pending`, and what the chain says to it at a place. */
type Pending = {
  readonly question: Question
  isRight(result: unknown, at: Entry): boolean
  expected(at: Entry): string
}

/** Addresses of one reader: as many as fit into 127.0.23.0/24 beside those of seven others. */
const ADDRESSES = 30

/**
 * Whenever something has happened it asks from another address: HAProxy sends each where it went first, and replicas that were away would never
 * be asked again. @param net the third byte of its addresses @param which of `of` readers of that net
 */
export async function readAlone(
  around: Around,
  {
    net,
    which,
    of,
    isAsking,
  }: {
    readonly net: number
    readonly which: number
    readonly of: number
    readonly isAsking: boolean
  },
): Promise<void> {
  const { notes, readers } = around
  const clientOf = (round: number): Client => {
    const from = `127.0.${net}.${which + 1 + of * (round % ADDRESSES)}`
    readers.set(`${net} ${which}`, { from, round })
    return { from, isAsking, newest: undefined }
  }
  let round = notes.ended()
  let client = clientOf(round)
  const judging = new Set<Promise<void>>()
  const judged = (work: Promise<void>) => {
    judging.add(work)
    void work.finally(() => judging.delete(work))
  }
  while (!around.isOver()) {
    if (round !== notes.ended()) {
      round = notes.ended()
      client = clientOf(round)
    }
    const isPending = isAsking || around.random() < 0.6
    if (isPending) await readPending(around, client, judged)
    else await readSealed(around, client, judged)
    await pause(PACE_MS * 2 * around.random())
  }
  await Promise.all(judging)
}

type Judged = (work: Promise<void>) => void

async function readPending(around: Around, client: Client, judged: Judged): Promise<void> {
  const { notes, url } = around
  const asked = pendingQuestion(around)
  const begun = performance.now()
  const before = client.newest
  const headers: Record<string, string> =
    client.isAsking && before !== undefined
      ? { 'x-min-flashblock': `${before.number}:${before.index}` }
      : {}
  const body = bodyOf(...asked.question)
  const said = await ask(notes, { url: `${url}/flashblocks`, body, from: client.from, headers })
  if (said === undefined) return
  if (said.result === undefined) {
    refused(around, { client, question: asked.question, said, begun })
    return
  }
  const place = placeOf(said.place)
  if (place === undefined) {
    notes.fault('wrong', `${client.from} ${asked.question[0]} at no place: "${said.place}"`)
    return
  }
  if (before !== undefined && compare(place, before) < 0) {
    const kind = client.isAsking ? 'backwards although asked' : 'backwards'
    const after = `${before.number}:${before.index}`
    notes.count(kind)
    notes.fault(
      kind,
      `${client.from} saw ${said.place} after ${after}, asked at ${notes.seconds(begun)}`,
    )
    if (!client.isAsking) notes.count(`backwards ${client.from}`)
  }
  if (before === undefined || compare(place, before) > 0 || !client.isAsking) client.newest = place
  judged(judgePending(around, { asked, said, client, begun }))
}

/** Of a block that came whole there is no payload. */
const placeOf = (text: string): Place | undefined =>
  parsePlace(text.endsWith(':') ? `${text}0x0000000000000000` : text)

async function judgePending(
  { notes, journal, nodeOf }: Around,
  { asked, said, client, begun }: { asked: Pending; said: Said; client: Client; begun: number },
): Promise<void> {
  const at = await journal.reached(said.place, TOLD_MS)
  const question = JSON.stringify(asked.question)
  const what = async () =>
    `${client.from} at ${await nodeOf(client.from)}, ${question} asked at ${notes.seconds(begun)}`
  if (at === undefined && journal.isPassedOver(said.place)) {
    notes.count('at a flashblock that the sequencer itself did not show')
    return
  }
  if (at === undefined) {
    notes.fault('wrong', `${await what()}: nobody has told of ${said.place}`)
    return
  }
  notes.count('compared on pending')
  if (asked.isRight(said.result, at)) return
  const got = JSON.stringify(said.result).slice(0, 200)
  notes.fault(
    'wrong',
    `${await what()} at ${said.place}: ${got}, expected ${asked.expected(at)}; ${journal.around(at)}`,
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

/** It counts what waits: no less than the flashblock has, no more than was ever sent. */
function nonceQuestion(
  sender: Hex,
  { subjects, journal }: Pick<Around, 'subjects' | 'journal'>,
): Pending {
  const least = (at: Entry) => journal.nonce(sender, at.position)
  return {
    question: ['eth_getTransactionCount', [sender, 'pending']],
    isRight: (result, at) => {
      const nonce = Number(result)
      return nonce >= least(at) && nonce <= subjects.nextNonce(sender)
    },
    expected: (at) => `${least(at)} to ${subjects.nextNonce(sender)}`,
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
  const { notes, url, journal, random } = around
  const number = journal.canonical - Math.floor(random() * DEPTH)
  const canonicalAt = journal.canonicalAt(number)
  if (canonicalAt === undefined) return
  const question = sealedQuestion(around, number)
  const begun = performance.now()
  // On a late replica a young block may be pending there, with a momentary hash.
  const path = begun - canonicalAt < LATE_MS || random() < 0.5 ? '/' : '/flashblocks'
  const body = bodyOf(...question)
  const said = await ask(notes, { url: `${url}${path}`, body, from: client.from })
  if (said === undefined) return
  const reply = JSON.parse(said.text) as Reply
  if (reply.error !== undefined || isNotThere(reply.result)) {
    if (begun - canonicalAt < LATE_MS) notes.count('late')
    else refused(around, { client, question, said, begun })
    return
  }
  judged(judgeSealed(around, { client, question, reply, begun }))
}

/** Nothing, or a transaction that waits. */
const isNotThere = (result: unknown): boolean =>
  result === null || (result as { readonly blockNumber?: unknown }).blockNumber === null

async function judgeSealed(
  { dev, notes, nodeOf }: Around,
  asked: {
    readonly client: Client
    readonly question: Question
    readonly reply: Reply
    readonly begun: number
  },
): Promise<void> {
  const { client, question, reply, begun } = asked
  const { replies } = await askBatch(`${dev}/`, [question])
  notes.count('compared on blocks')
  const expected = replies[0]!.result
  if (isDeepStrictEqual(expected, reply.result)) return
  const what = `${client.from} at ${await nodeOf(client.from)}, ${JSON.stringify(question)} asked at ${notes.seconds(begun)}`
  notes.fault('wrong', `${what}: ${differences(reply.result, expected).slice(0, 5).join('; ')}`)
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

/** −32001 of a client that asks for what it has seen is what it asked for. */
function refused(
  { notes }: Around,
  {
    client,
    question,
    said,
    begun,
  }: { client: Client; question: Question; said: Said; begun: number },
): void {
  if (client.isAsking && said.text.includes('-32001')) {
    notes.count('not that new yet')
    return
  }
  const what = `${client.from} ${JSON.stringify(question)} asked at ${notes.seconds(begun)}`
  notes.fault('refused', `${what}: ${said.status} ${said.text.slice(0, 300)}`)
}
