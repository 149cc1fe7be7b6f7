/**
 * These clients have subscriptions, and resume with `since` at any replica after a connection has
 * ended.
 */
import { WebSocket } from 'ws'
import { until } from '../../follow/nodes.ts'
import type { Entry, Journal } from './journal.ts'
import { type Observations, pause } from './observations.ts'

/** A kind of event that comes once: a header, a transaction, a log. */
export type Kind = {
  readonly name: string
  readonly params: readonly unknown[]
  /** Gives the key of an event, and whether it is a removal; undefined: the event is ignored. */
  keyOf(result: unknown): { readonly key: string; readonly isGone: boolean } | undefined
  /** Lists the keys of a flashblock in order. */
  keysOf(entry: Entry): readonly string[]
}
type Log = {
  readonly transactionHash: string
  readonly logIndex: string
  readonly removed: boolean
}

export const KINDS: readonly Kind[] = [
  {
    name: 'flashblocks',
    params: ['flashblocks', { headerInfo: true }],
    keyOf(result) {
      const { type, header } = result as Header
      if (type !== 'header') return undefined
      return { key: `${Number(header.number)} ${header.hash}`, isGone: false }
    },
    keysOf: ({ number, hash }) => [`${number} ${hash}`],
  },
  {
    name: 'newFlashblockTransactions',
    params: ['newFlashblockTransactions'],
    keyOf: (result) => ({ key: result as string, isGone: false }),
    keysOf: ({ transactions }) => transactions,
  },
  {
    name: 'pendingLogs',
    params: ['pendingLogs', {}],
    keyOf(result) {
      const { transactionHash, logIndex, removed } = result as Log
      return { key: `${transactionHash}:${Number(logIndex)}`, isGone: removed }
    },
    keysOf: ({ logs }) => logs,
  },
]
type Header = {
  readonly type: string
  readonly header: { readonly number: string; readonly hash: string }
}
type Gap = { readonly type: 'gap'; readonly since: string; readonly next: string | null }

export type Listener = {
  readonly kind: Kind
  readonly from: string
  /** The keys in order of arrival, without removed ones. */
  readonly emitted: string[]
  /** The number of keys at the opening of each connection. */
  readonly joins: number[]
  stop(): void
  readonly ended: Promise<void>
}

const RETRY_MS = 200
const KNOWN_MS = 5_000

export function listen(
  {
    url,
    journal,
    observations,
  }: { readonly url: string; readonly journal: Journal; readonly observations: Observations },
  kind: Kind,
  from: string,
): Listener {
  let isStopped = false
  let socket: WebSocket | undefined
  const emitted: string[] = []
  const joins: number[] = []
  const listener = { kind, from, emitted, joins }
  /**
   * Keys that may be repeated: those of the last event's flashblock, which may have arrived in
   * part.
   */
  const keys = new Map<string, Entry>()
  let indexed = 0
  const entryOf = (key: string): Entry | undefined => {
    for (; indexed < journal.entries.length; indexed++)
      for (const one of kind.keysOf(journal.entries[indexed]!))
        keys.set(one, journal.entries[indexed]!)
    return keys.get(key)
  }

  async function connect(): Promise<void> {
    const last = emitted.at(-1)
    // The sequencer's feed may reach this process after a replica's.
    const isKnown = await until(
      async () => last === undefined || entryOf(last) !== undefined,
      KNOWN_MS,
    )
    if (!isKnown)
      observations.fault(
        'subscription',
        `${from} ${kind.name} ended with ${last}, which the chain has not`,
      )
    const at = last === undefined ? undefined : entryOf(last)
    const before = at === undefined ? undefined : journal.entries[at.position - 1]
    const repeated = new Set(
      at === undefined ? [] : emitted.slice(-MAX_REPEATED).filter((key) => entryOf(key) === at),
    )
    const params =
      before === undefined ? kind.params : [...kind.params, { since: before.flashblockId }]
    socket = new WebSocket(`${url.replace('http', 'ws')}/flashblocks`, {
      localAddress: from,
      perMessageDeflate: false,
      handshakeTimeout: 5_000,
    })
    const closed = new Promise<string>((resolve) => {
      socket!.on('close', (code, reason) => resolve(`${code} ${reason}`))
    })
    let isOpen = false
    socket.on('error', () => {})
    socket.on('open', () => {
      isOpen = true
      joins.push(emitted.length)
      socket!.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params }))
    })
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as {
        readonly error?: unknown
        readonly params?: { readonly result: unknown }
      }
      if (message.error !== undefined)
        observations.fault('refused', `${from} ${JSON.stringify(params)}: ${data}`)
      if (message.params === undefined) return
      take(message.params.result, repeated, before)
    })
    const how = await closed
    if (isOpen && !isStopped)
      ends.push({ at: performance.now(), how: `${from} ${kind.name} ${how}` })
  }
  const ends: { readonly at: number; readonly how: string }[] = []

  function take(result: unknown, repeated: Set<string>, since: Entry | undefined): void {
    if ((result as Gap).type === 'gap') {
      observations.fault(
        'gap',
        `${from} ${kind.name} since ${since?.flashblockId}: ${JSON.stringify(result)}`,
      )
      return
    }
    const found = kind.keyOf(result)
    if (found === undefined) return
    const { key, isGone } = found
    if (isGone) {
      const index = emitted.lastIndexOf(key)
      observations.count('logs taken back')
      if (index < 0)
        observations.fault(
          'subscription',
          `${from} ${kind.name} takes back ${key}, which it did not tell`,
        )
      else emitted.splice(index, 1)
    } else if (!repeated.delete(key)) emitted.push(key)
  }

  async function run(): Promise<void> {
    while (!isStopped) {
      await connect()
      if (!isStopped) await pause(RETRY_MS)
    }
    for (const { at, how } of ends)
      if (!observations.during(at, ['kill', 'drain', 'new'], 3_000))
        observations.fault('ended', `${how} at ${observations.seconds(at)}`)
  }
  const ended = run()
  return Object.assign(listener, {
    ended,
    stop() {
      isStopped = true
      socket?.terminate()
    },
  })
}
/** The maximum number of repeated keys, which belong to one flashblock. */
const MAX_REPEATED = 500

export type Judged = {
  readonly wrong: readonly string[]
  /**
   * Headers of flashblocks at the end of a block that became canonical first here; no canonical
   * block names them.
   */
  readonly overtaken: number
  /**
   * Headers of the right block that differ from the sequencer's: for the remainder of a block, or
   * final instead of partial.
   */
  readonly renamed: readonly string[]
}

/**
 * Compares the events with the chain, from the first to the last one. A flashblock counts as
 * emitted by its header where it had one; the other kinds prove its contents. A flashblock that
 * adds nothing has the header of the one before.
 */
export function judge(
  { kind, emitted: raw, from, joins }: Pick<Listener, 'kind' | 'emitted' | 'from' | 'joins'>,
  journal: Pick<Journal, 'entries'>,
): Judged {
  const isOfHeaders = kind.name === 'flashblocks'
  const retained = [...raw.keys()].filter((at) => !isOfHeaders || raw[at] !== raw[at - 1])
  const emitted = retained.map((at) => raw[at]!)
  const isFirstOfConnection = (at: number) => joins.includes(retained[at]!)
  const all = journal.entries
    .flatMap((entry) => kind.keysOf(entry).map((key) => ({ key, entry })))
    .filter(({ key }, at, list) => !isOfHeaders || key !== list[at - 1]?.key)
  const entries = new Map(all.map(({ key, entry }) => [key, entry]))
  const renamed: string[] = []
  const start = isOfHeaders
    ? Math.max(
        0,
        emitted.findIndex((key) => entries.has(key)),
      )
    : 0
  let [at, overtaken] = [start, 0]
  const done = (wrong: readonly string[]): Judged => ({ wrong, overtaken, renamed })
  const first = all.findIndex(({ key }) => key === emitted[start])
  if (first < 0) return done([`nothing was told that the chain has: ${emitted[start]}`])
  // The remainder of a block has the header of its last flashblock.
  const isLast = (entry: Entry | undefined) =>
    entry !== undefined && all.findLast((one) => one.entry.number === entry.number)?.entry === entry
  const numberOf = (key: string | undefined) => (key === undefined ? 0 : Number.parseInt(key, 10))
  /**
   * Whether a replica's first event repeats the end of a block. The replica has that end from the
   * canonical block, while the client had the end as flashblocks from another replica. The roots of
   * a flashblock's header are only in its frame, which this replica never had.
   */
  const isRepeat = (key: string | undefined) =>
    isOfHeaders &&
    key !== undefined &&
    isFirstOfConnection(at) &&
    !entries.has(key) &&
    numberOf(key) === numberOf(emitted[at - 1])
  for (const { key, entry } of all.slice(first)) {
    if (isRepeat(emitted[at]) && numberOf(emitted[at]) < entry.number) renamed.push(emitted[at++]!)
    const got = emitted[at]
    const announced = got === undefined ? undefined : entries.get(got)
    if (got === key) at++
    else if (isOfHeaders && announced === undefined && numberOf(got) === entry.number) {
      renamed.push(`${got} for ${entry.flashblockId} ${entry.hash}`)
      at++
    } else if (isOfHeaders && (numberOf(got) > entry.number || isLast(announced))) overtaken++
    else {
      const what = `${from} ${kind.name}: number ${at} of ${emitted.length}`
      return done([
        `${what} is ${got} of ${announced?.flashblockId ?? 'nowhere'}, expected ${key} of ${entry.flashblockId}`,
      ])
    }
  }
  // The headers of flashblocks may follow their block's remainder.
  if (isOfHeaders)
    for (; at < emitted.length && !entries.has(emitted[at]!); at++) renamed.push(emitted[at]!)
  const more = emitted.length - at
  return done(more === 0 ? [] : [`${more} more than the chain has`])
}
