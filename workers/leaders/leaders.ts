/**
 * The thread of all leaders: connects, reads what they tell, and hands it to the writer. One for all of them, for there is nothing of them that
 * takes long: the long parts of their messages are bytes.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { LeaderLine } from '../../engine/sources/applying/line.ts'
import { readLeaderMessage } from '../../engine/sources/applying/message.ts'
import {
  LeaderError,
  type LeaderFault,
  type ToldDiff,
} from '../../engine/sources/applying/types.ts'
import { FeedConnection, type Later } from '../feeds/connection.ts'
import { openWebSocket } from '../feeds/socket.ts'
import { createSampler } from '../observe/sample.ts'
import { saveCompiledLater } from '../thread/compile-cache.ts'
import { LEADER_LIMITS } from './limits.ts'
import type { FromLeaders, LeadersToWriter, ToLeaders, WriterToLeaders } from './messages.ts'

export type LeadersData = {
  /** Of their enriched feeds; the place in the list is a leader's number. */
  readonly urls: readonly string[]
  readonly token: string | undefined
  readonly writer: MessagePort
  readonly blockTimeMs: number
  readonly messageBytes: number
  /** Of one leader that the writer has not taken: then it is not read. */
  readonly heldDiffs: number
}

const now = () => performance.now()
/** The port of main keeps the thread, no timer does. */
const later: Later = (ms, run) => {
  const timer = setTimeout(run, ms).unref()
  return () => clearTimeout(timer)
}

type Leader = {
  readonly connection: FeedConnection
  taken(diffs: number): void
  drop(): void
  silentMs(): number
}

if (parentPort !== null) run(parentPort, workerData as LeadersData)

function run(main: MessagePort, data: LeadersData): void {
  const tell = (message: FromLeaders) => main.postMessage(message)
  const counts = new Map<string, number>()
  const count = (what: string, by: number) => void counts.set(what, (counts.get(what) ?? 0) + by)
  const leaders = data.urls.map((url, leader) => openLeader(data, { url, leader }, { tell, count }))
  const report = () => {
    for (const [what, by] of counts) tell({ type: 'count', what, by })
    counts.clear()
    for (const [leader, { connection, silentMs }] of leaders.entries()) {
      const { isConnected } = connection
      tell({ type: 'status', status: { leader, isConnected, silentMs: silentMs() } })
    }
  }
  const beat = setInterval(report, LEADER_LIMITS.beatMs)
  data.writer.on('message', ({ leader, diffs }: WriterToLeaders) => leaders[leader]?.taken(diffs))
  main.on('message', (message: ToLeaders) => {
    if (message.type === 'drop') return leaders[message.leader]?.drop()
    report()
    clearInterval(beat)
    for (const { connection } of leaders) connection.stop()
    tell({ type: 'stopped' })
    data.writer.close()
    main.close()
  })
  for (const { connection } of leaders) connection.connect()
  tell({ type: 'ready' })
  saveCompiledLater()
}

function openLeader(
  { token, writer, blockTimeMs, messageBytes, heldDiffs }: LeadersData,
  { url, leader }: { readonly url: string; readonly leader: number },
  to: {
    tell(message: FromLeaders): void
    readonly count: (what: string, by: number) => void
  },
): Leader {
  const { tell, count } = to
  const post = (message: LeadersToWriter, transfer: readonly ArrayBuffer[] = []) =>
    writer.postMessage(message, transfer)
  const warn = createSampler(LEADER_LIMITS.sampleMs, now, (message) =>
    tell({ type: 'warning', leader, message }),
  )
  let line = new LeaderLine()
  let heardAt = now()
  let held = 0
  const drop = () => connection.stop()

  function give(told: ToldDiff, receivedAtMs: number): void {
    held++
    // Buffers of its own: they are handed over, not copied.
    const { buffers, diff } = owned({ leader, told, receivedAtMs })
    post({ type: 'diff', diff }, buffers)
  }
  function onMessage(packet: Bytes): void {
    const receivedAtMs = now()
    heardAt = receivedAtMs
    try {
      const message = readLeaderMessage(packet)
      for (const told of line.take(message)) give(told, receivedAtMs)
      connection.decoded()
    } catch (error) {
      if (!(error instanceof LeaderError)) throw error
      const fault: LeaderFault = { kind: error.kind, message: error.message }
      drop()
      post({ type: 'leader', leader, isConnected: false, fault })
    }
    count('leader_messages', 1)
    count('leader_bytes', packet.length)
    count('leader_decode_ms', now() - receivedAtMs)
    if (held >= heldDiffs) connection.read(false)
  }
  const connection = new FeedConnection({
    ...{ limits: LEADER_LIMITS, blockTimeMs, now, later, random: Math.random },
    open: openWebSocket({
      ...{ url, maxBytes: messageBytes, token, isNear: true },
      resuming: { newest: undefined, isKept: false },
    }),
    onFrame: onMessage,
    onTooLarge: () => count('leader_too_large', 1),
    onState({ isConnected }) {
      line = new LeaderLine()
      post({ type: 'leader', leader, isConnected })
      if (isConnected) tell({ type: 'connected', leader })
    },
    onFlood() {},
    count: (what, by) => count(`leader_${what}`, by),
    warn,
  })
  return {
    connection,
    drop,
    taken(diffs) {
      held -= diffs
      if (held < heldDiffs) connection.read(true)
    },
    silentMs: () => now() - heardAt,
  }
}

function owned(diff: {
  readonly leader: number
  readonly told: ToldDiff
  readonly receivedAtMs: number
}) {
  const { told } = diff
  const copy = (bytes: Bytes) => new Uint8Array(bytes)
  const own = {
    hashes: copy(told.hashes),
    senders: copy(told.senders),
    outcomes: copy(told.outcomes),
    changes: copy(told.changes),
  }
  const buffers = Object.values(own).map(({ buffer }) => buffer)
  return { buffers, diff: { ...diff, told: { ...told, ...own } } }
}
