/** Clients with subscriptions that come back with `since` when their connection ends, whichever replica they come to then. */
import { WebSocket } from 'ws'
import { until } from '../../follow/nodes.ts'
import type { Entry, Journal } from './journal.ts'
import { type Notes, pause } from './notes.ts'

/** Something that is told once: a header, a transaction, a log. */
export type Kind = {
  readonly name: string
  readonly params: readonly unknown[]
  /** Key of what was told, and whether it is taken back; undefined: it is not looked at. */
  keyOf(result: unknown): { readonly key: string; readonly isGone: boolean } | undefined
  /** Keys of a flashblock, in their order. */
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
  /** Keys in the order in which they were told, without those taken back. */
  readonly told: string[]
  /** How many had been told when each connection was opened. */
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
    notes,
  }: { readonly url: string; readonly journal: Journal; readonly notes: Notes },
  kind: Kind,
  from: string,
): Listener {
  let isStopped = false
  let socket: WebSocket | undefined
  const told: string[] = []
  const joins: number[] = []
  const listener = { kind, from, told, joins }
  /** Keys that come again: of the flashblock that the last one was of, all of which may not have arrived. */
  const keys = new Map<string, Entry>()
  let indexed = 0
  const entryOf = (key: string): Entry | undefined => {
    for (; indexed < journal.entries.length; indexed++)
      for (const one of kind.keysOf(journal.entries[indexed]!))
        keys.set(one, journal.entries[indexed]!)
    return keys.get(key)
  }

  async function connect(): Promise<void> {
    const last = told.at(-1)
    // The sequencer's own word may come here after a replica's.
    const isKnown = await until(
      async () => last === undefined || entryOf(last) !== undefined,
      KNOWN_MS,
    )
    if (!isKnown)
      notes.fault(
        'subscription',
        `${from} ${kind.name} ended with ${last}, which the chain has not`,
      )
    const at = last === undefined ? undefined : entryOf(last)
    const before = at === undefined ? undefined : journal.entries[at.position - 1]
    const again = new Set(
      at === undefined ? [] : told.slice(-MOST_AGAIN).filter((key) => entryOf(key) === at),
    )
    const params = before === undefined ? kind.params : [...kind.params, { since: before.place }]
    socket = new WebSocket(`${url.replace('http', 'ws')}/flashblocks`, {
      ...{ localAddress: from, perMessageDeflate: false, handshakeTimeout: 5_000 },
    })
    const closed = new Promise<string>((resolve) => {
      socket!.on('close', (code, reason) => resolve(`${code} ${reason}`))
    })
    let isOpen = false
    socket.on('error', () => {})
    socket.on('open', () => {
      isOpen = true
      joins.push(told.length)
      socket!.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params }))
    })
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as {
        readonly error?: unknown
        readonly params?: { readonly result: unknown }
      }
      if (message.error !== undefined)
        notes.fault('refused', `${from} ${JSON.stringify(params)}: ${data}`)
      if (message.params === undefined) return
      take(message.params.result, again, before)
    })
    const how = await closed
    if (isOpen && !isStopped)
      ends.push({ at: performance.now(), how: `${from} ${kind.name} ${how}` })
  }
  const ends: { readonly at: number; readonly how: string }[] = []

  function take(result: unknown, again: Set<string>, since: Entry | undefined): void {
    if ((result as Gap).type === 'gap') {
      notes.fault('gap', `${from} ${kind.name} since ${since?.place}: ${JSON.stringify(result)}`)
      return
    }
    const found = kind.keyOf(result)
    if (found === undefined) return
    const { key, isGone } = found
    if (isGone) {
      const index = told.lastIndexOf(key)
      notes.count('logs taken back')
      if (index < 0)
        notes.fault('subscription', `${from} ${kind.name} takes back ${key}, which it did not tell`)
      else told.splice(index, 1)
    } else if (!again.delete(key)) told.push(key)
  }

  async function run(): Promise<void> {
    while (!isStopped) {
      await connect()
      if (!isStopped) await pause(RETRY_MS)
    }
    for (const { at, how } of ends)
      if (!notes.during(at, ['kill', 'drain', 'new'], 3_000))
        notes.fault('ended', `${how} at ${notes.seconds(at)}`)
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
/** Of one flashblock. */
const MOST_AGAIN = 500

export type Judged = {
  readonly wrong: readonly string[]
  /** Headers of flashblocks at the end of a block, which was canonical here before they came: no canonical block names them. */
  readonly overtaken: number
  /** Headers of the right block that are not those of the sequencer: of the rest of a block, or final where the sequencer told a momentary one. */
  readonly renamed: readonly string[]
}

/**
 * What it was told against the chain, from the first to the last that it was told. A flashblock is told by its header where there was one: of what
 * it had everything is told in any case, which the other kinds show. One that adds nothing has the header of the one before it.
 */
export function judge(
  { kind, told: raw, from, joins }: Pick<Listener, 'kind' | 'told' | 'from' | 'joins'>,
  journal: Pick<Journal, 'entries'>,
): Judged {
  const isOfHeaders = kind.name === 'flashblocks'
  const kept = [...raw.keys()].filter((at) => !isOfHeaders || raw[at] !== raw[at - 1])
  const told = kept.map((at) => raw[at]!)
  const isFirstOfConnection = (at: number) => joins.includes(kept[at]!)
  const all = journal.entries
    .flatMap((entry) => kind.keysOf(entry).map((key) => ({ key, entry })))
    .filter(({ key }, at, list) => !isOfHeaders || key !== list[at - 1]?.key)
  const entries = new Map(all.map(({ key, entry }) => [key, entry]))
  const renamed: string[] = []
  const begin = isOfHeaders
    ? Math.max(
        0,
        told.findIndex((key) => entries.has(key)),
      )
    : 0
  let [at, overtaken] = [begin, 0]
  const done = (wrong: readonly string[]): Judged => ({ wrong, overtaken, renamed })
  const first = all.findIndex(({ key }) => key === told[begin])
  if (first < 0) return done([`nothing was told that the chain has: ${told[begin]}`])
  // The rest of a block has the header of its last flashblock.
  const isLast = (entry: Entry | undefined) =>
    entry !== undefined && all.findLast((one) => one.entry.number === entry.number)?.entry === entry
  const numberOf = (key: string | undefined) => (key === undefined ? 0 : Number.parseInt(key, 10))
  /**
   * What a replica tells first that has the block's end from the canonical block, to a client that had that end as flashblocks from another: the roots
   * that a flashblock's header has stand in its frame alone, which this replica never had.
   */
  const isAgain = (key: string | undefined) =>
    isOfHeaders &&
    key !== undefined &&
    isFirstOfConnection(at) &&
    !entries.has(key) &&
    numberOf(key) === numberOf(told[at - 1])
  for (const { key, entry } of all.slice(first)) {
    if (isAgain(told[at]) && numberOf(told[at]) < entry.number) renamed.push(told[at++]!)
    const got = told[at]
    const place = got === undefined ? undefined : entries.get(got)
    if (got === key) at++
    else if (isOfHeaders && place === undefined && numberOf(got) === entry.number) {
      renamed.push(`${got} for ${entry.place} ${entry.hash}`)
      at++
    } else if (isOfHeaders && (numberOf(got) > entry.number || isLast(place))) overtaken++
    else {
      const what = `${from} ${kind.name}: number ${at} of ${told.length}`
      return done([
        `${what} is ${got} of ${place?.place ?? 'nowhere'}, expected ${key} of ${entry.place}`,
      ])
    }
  }
  // Where the rest came first, its flashblocks' own headers may follow it.
  if (isOfHeaders) for (; at < told.length && !entries.has(told[at]!); at++) renamed.push(told[at]!)
  const more = told.length - at
  return done(more === 0 ? [] : [`${more} more than the chain has`])
}
