/**
 * The writer's thread: applies events of other threads one at a time, and carries out the effects.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import { engineByName } from '../../engine/evm/engines/registry.ts'
import { packChanges } from '../../engine/sources/writer/changes.ts'
import { Mailbox } from '../../engine/sources/writer/mailbox.ts'
import type { WriterEffect, WriterEvent, WriterLimits } from '../../engine/sources/writer/types.ts'
import { type ChainWriter, openWriter } from '../../engine/sources/writer/writer.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { storageFailure } from '../../engine/storage/persistence/failure.ts'
import type { OpenedChain, PersistenceResponse } from '../../engine/storage/types.ts'
import { openPublisher } from '../../engine/views/publisher.ts'
import { postRequest } from '../persistence/request.ts'
import type { ReplayData } from '../record/lines.ts'
import { saveCompiledLater } from '../thread/compile-cache.ts'
import type { WriterToFollower } from '../thread/follower-messages.ts'
import type { FromWriter, PersistenceOpened, SharedNode, ToWriter } from '../thread/messages.ts'
import { type DelayedMessages, delayMessages } from './delayed-messages.ts'
import { createRecording, openLine, type Recording } from './recording.ts'
import { openRecordingMode, type RecordingMode, recordedWriter, stampOf } from './recording-mode.ts'
import { createResponseQueue, replay } from './replaying.ts'
import { followedSource, type Source, sequencerSource } from './sources.ts'

export type WriterData = SharedNode & {
  readonly persistence: MessagePort
  /** Port to the sequencer's thread; undefined if there is none. */
  readonly sequencer: MessagePort | undefined
  /**
   * Ports to the follower, which brings canonical blocks, and to the feeds; undefined if no network
   * is followed.
   */
  readonly followed?:
    | {
        readonly follower: MessagePort
        readonly feeds: readonly MessagePort[]
        /** Path of the journal of flashblocks; if undefined, pending is empty after a restart. */
        readonly frames?: string | undefined
      }
    | undefined
  /** Lag after which clients see snapshots; if omitted, they are visible when published. */
  readonly flashblockLag?: { readonly flashblocks: number; readonly ms: number } | undefined
  /** A subscriber may apply the changes of snapshots. */
  readonly emitsChanges: boolean
  readonly limits?: Partial<WriterLimits>
  /** Sends all input to the main thread for the recording. */
  readonly isRecorded?: boolean
  /** The recording that replaces all other input. */
  readonly replay?: ReplayData | undefined
}

type Thread = {
  readonly writer: ChainWriter
  readonly reader: ChainReader
  readonly recordingMode: RecordingMode
  readonly recording: Recording | undefined
  readonly mailbox: Mailbox
  readonly persistence: MessagePort
  readonly source: Source | undefined
  /** Handles fetched values on a node that is recorded. */
  onFill: Recording['fill']
  readonly counts: Map<string, number>
  readonly delayed: DelayedMessages
  notify(message: FromWriter): void
}

const BEAT_MS = 1_000

if (parentPort !== null) start(parentPort, workerData as WriterData)

/**
 * Waits for the persistence thread's first message, because that thread may repair the database
 * first.
 */
function start(main: MessagePort, data: WriterData): void {
  data.persistence.once('message', (greeting: PersistenceOpened) => {
    try {
      run(main, data, greeting.opened)
    } catch (error) {
      main.postMessage(lastWords(error as Error, 'the writer cannot start'))
    }
  })
}

function run(main: MessagePort, data: WriterData, opened: OpenedChain): void {
  const chain = chainSpec(data.chain)
  const store = openStore(attachDatabase(data.database))
  const flashblockLag = data.flashblockLag && {
    ...data.flashblockLag,
    now: () => performance.now(),
  }
  const publisher = openPublisher(data.views, opened.persistedHead, flashblockLag)
  const reader = openChainReader({
    views: data.views,
    store,
    chain,
    thread: data.thread,
    seesAll: true,
  })
  const recordingMode = openRecordingMode(data)
  const { writer: opens, effects } = openWriter(
    {
      chain,
      store,
      publisher,
      reader,
      engine: engineByName(data.engine, {
        onTrap: (reason) => main.postMessage({ type: 'trapped', reason } satisfies FromWriter),
      }),
      now: recordingMode.clock.now,
      wallMs: recordingMode.clock.wallMs,
      isLazy: store.isLazy(),
      seed: recordingMode.seed,
      hasLabelledHeads: data.followed !== undefined,
      emitsChanges: data.emitsChanges,
      emitsExecuted: data.followed?.frames !== undefined,
      limits: recordingMode.limits,
    },
    opened,
  )
  const writer = recordingMode.type === 'none' ? opens : recordedWriter(opens)
  const thread: Thread = {
    writer,
    reader,
    recordingMode,
    recording: recordingOf(main, data, { writer, reader, recordingMode }),
    mailbox: new Mailbox(),
    persistence: data.persistence,
    source:
      recordingMode.type === 'replay' ? undefined : sourceOf(data, (fill) => thread.onFill(fill)),
    onFill() {},
    counts: new Map(),
    delayed: delayMessages(publisher.visibility, (message) =>
      main.postMessage(message satisfies FromWriter),
    ),
    notify: (message) => main.postMessage(message),
  }
  carryOut(thread, effects)
  if (recordingMode.type === 'replay') serveRecord(main, thread, recordingMode)
  else serve(main, thread)
  thread.notify({ type: 'ready', snapshot: reader.newestSnapshot() })
  saveCompiledLater()
}

/** Starts a recording, whose first line has the writer's parameters. */
function recordingOf(
  main: MessagePort,
  { followed, persistence }: WriterData,
  { writer, reader, recordingMode }: Pick<Thread, 'writer' | 'reader' | 'recordingMode'>,
): Recording | undefined {
  if (recordingMode.type !== 'record') return undefined
  const { clock, seed, limits } = recordingMode
  const emitLines = (lines: Uint8Array<ArrayBuffer>) =>
    main.postMessage({ type: 'recorded', lines } satisfies FromWriter, [lines.buffer])
  emitLines(openLine({ ...clock.end(), seed, limits }))
  return createRecording({
    writer,
    reader,
    clock,
    emitLines,
    post: (fill, wallMs) => postRequest(persistence, fill, wallMs),
    notifyFilled: (response) => followed?.follower.postMessage(response satisfies WriterToFollower),
  })
}

function sourceOf(
  { sequencer, followed }: WriterData,
  onFill: Recording['fill'],
): Source | undefined {
  if (followed !== undefined) return followedSource({ ...followed, onFill })
  return sequencer && sequencerSource(sequencer)
}

function serve(main: MessagePort, thread: Thread): void {
  const { notify, persistence, source, recording } = thread
  const deliver = createLoop(thread, (error) => {
    source?.close()
    recording?.flush()
    notify(lastWords(error, 'the writer failed'))
  })
  thread.onFill = (fill) => {
    recording?.fill(fill)
    deliver()
  }
  const beat = setInterval(() => report(thread), BEAT_MS)
  persistence.on('message', (response: PersistenceResponse) => {
    if (recording?.filled(response) !== true) deliver({ type: 'answer', response })
  })
  source?.listen(
    deliver,
    (what) => count(thread, what, 1),
    (message) => notify({ type: 'warning', message }),
  )
  main.on('message', async (message: ToWriter) => {
    switch (message.type) {
      case 'expected':
        if (recording !== undefined) recording.expect(message.transactions)
        else for (const one of message.transactions) thread.writer.expect(one)
        return deliver()
      case 'distrust':
        return deliver({ type: 'distrust', reason: message.reason })
      case 'feed':
        source?.feed?.(message.port)
        return
      case 'heard':
        thread.delayed.onPosition(message.position)
        return
      case 'stop':
        source?.close()
        clearInterval(beat)
        await deliver.stop()
        thread.delayed.stop()
        recording?.flush()
        report(thread)
        notify({ type: 'stopped' })
        persistence.close()
        main.close()
    }
  })
}

/**
 * Replays the recording to its end when the main thread requests it; afterwards the writer is idle.
 */
function serveRecord(
  main: MessagePort,
  thread: Thread,
  recordingMode: RecordingMode & { readonly type: 'replay' },
): void {
  const { writer, reader, persistence, notify } = thread
  const responseQueue = createResponseQueue()
  let isStopped = false
  let onRequestsDone = () => {}
  let running: Promise<void> | undefined
  const beat = setInterval(() => report(thread), BEAT_MS)
  persistence.on('message', responseQueue.give)
  const run = async (): Promise<void> => {
    const { clock, lines, requests, data } = recordingMode
    const ended = await replay({
      writer,
      reader,
      clock,
      lines,
      requests,
      data,
      responseQueue,
      isStopped: () => isStopped,
      post: (fill) => postRequest(persistence, fill, clock.wallMs()),
      carryOut: (effects) => carryOut(thread, effects),
      notify: (status) => notify({ type: 'replaying', status }),
      request: (lines, at) =>
        new Promise((resolve) => {
          onRequestsDone = resolve
          notify({ type: 'ask', lines, at })
        }),
    })
    notify({ type: 'replayed', ended: { ...ended, isCut: recordingMode.isCut() } })
  }
  main.on('message', async ({ type }: ToWriter) => {
    if (type === 'replay')
      running ??= run().catch((error) => notify(lastWords(error, 'the writer failed')))
    if (type === 'asked') onRequestsDone()
    if (type !== 'stop') return
    isStopped = true
    onRequestsDone()
    clearInterval(beat)
    await running
    report(thread)
    notify({ type: 'stopped' })
    persistence.close()
    main.close()
  })
}

/**
 * After a failure of the disk the visible heads stay valid; any other error may have broken them.
 */
function lastWords(error: Error, what: string): FromWriter {
  const failure = storageFailure(error)
  return failure === undefined
    ? { type: 'halted', message: `${what}: ${error.message}`, isFatal: true }
    : { type: 'failed', message: failure }
}

/** Without an event the loop checks for other work. */
type Loop = ((event?: WriterEvent) => void) & {
  /** Resolves when the current event is done; later ones are dropped. */
  stop(): Promise<void>
}

/** Applies the mailbox's events one after the other until it is empty. */
function createLoop(thread: Thread, onError: (error: Error) => void): Loop {
  const { writer, mailbox, recording } = thread
  let running: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isStopped = false

  async function run(): Promise<void> {
    while (!isStopped) {
      await recording?.settle()
      const event = mailbox.next((hash) => writer.knows(hash)) ?? speculationEvent(writer)
      if (event === undefined && recording?.isWaiting === true) continue
      if (event === undefined) return
      if (event.type === 'packet') thread.source?.taken(event.packet)
      carryOut(thread, await (recording ?? writer).apply(event))
      // Messages that arrived meanwhile may be more urgent than those in the mailbox.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  function setTimer(): void {
    clearTimeout(timer)
    const dueMs = writer.wakeAtMs()
    if (dueMs === undefined || isStopped) return
    timer = setTimeout(() => deliver({ type: 'tick' }), Math.max(0, dueMs - performance.now()))
  }
  function deliver(event?: WriterEvent): void {
    if (isStopped) return
    if (event !== undefined) mailbox.push(event)
    running ??= run()
      .catch((error: Error) => {
        isStopped = true
        onError(error)
      })
      .finally(() => {
        running = undefined
        setTimer()
      })
  }
  return Object.assign(deliver, {
    async stop() {
      isStopped = true
      clearTimeout(timer)
      await running
    },
  })
}

const speculationEvent = (writer: ChainWriter): WriterEvent | undefined =>
  writer.canSpeculate() ? { type: 'ahead' } : undefined

/**
 * Carries out effects in the order of urgency: first those for clients, then those for replicas
 * that apply changes. The persistence thread is last, because it would compete for the core that
 * answers clients.
 */
function carryOut(thread: Thread, effects: readonly WriterEffect[]): void {
  const isFollowed = effects.some(({ type }) => type === 'changes')
  for (const effect of effects) {
    // The sequencer is first, because it waits for its parent.
    thread.source?.onEffect(effect)
    if (effect.type === 'count') count(thread, effect.what, effect.by)
    else if (effect.type === 'published') thread.delayed.notify({ ...effect, isFollowed })
    else if (effect.type === 'sealed') thread.delayed.notify(effect)
    else if (!isForSource(effect)) thread.notify(effect)
  }
  for (const effect of effects)
    if (effect.type === 'changes')
      thread.notify({ type: 'changes', changes: packChanges(effect.changes) })
  for (const effect of effects)
    if (effect.type === 'persistence')
      postRequest(thread.persistence, effect.request, stampOf(thread.recordingMode))
}

const isForSource = (effect: WriterEffect): effect is WriterEffect & { readonly type: OfOthers } =>
  OF_OTHERS.has(effect.type)
type OfOthers = 'persistence' | 'executed' | 'need' | 'refused' | 'check' | 'notBegun' | 'changes'
const OF_OTHERS: ReadonlySet<string> = new Set<OfOthers>([
  ...(['persistence', 'executed', 'need', 'refused', 'check', 'notBegun', 'changes'] as const),
])

/**
 * Counts are sent once a second, because a message for each would cost more than the work it
 * counts.
 */
function count({ counts }: Thread, what: string, by: number): void {
  counts.set(what, (counts.get(what) ?? 0) + by)
}

function report(thread: Thread): void {
  const skipped = thread.mailbox.takeSkipped()
  if (skipped > 0) count(thread, 'feed_skipped', skipped)
  for (const [what, by] of thread.counts) thread.notify({ type: 'count', what, by })
  thread.counts.clear()
  const values = { ...thread.writer.gauges(), mailbox: thread.mailbox.size }
  thread.notify({ type: 'gauges', values })
}
