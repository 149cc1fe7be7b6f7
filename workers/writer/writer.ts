/** The writer's thread: feeds the writer from the keeper, main and the sequencer, one event at a time, and carries out its effects. */
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
import { storageFailure } from '../../engine/storage/keeper/failure.ts'
import type { KeeperAnswer, OpenedChain } from '../../engine/storage/types.ts'
import { openPublisher } from '../../engine/views/publisher.ts'
import { postRequest } from '../keeper/request.ts'
import type { ReplayData } from '../record/lines.ts'
import { saveCompiledLater } from '../thread/compile-cache.ts'
import type { WriterToFollower } from '../thread/follower-messages.ts'
import type { FromWriter, KeeperOpened, SharedNode, ToWriter } from '../thread/messages.ts'
import { type HeldBack, holdBack } from './held-back.ts'
import { createRecording, openLine, type Recording } from './recording.ts'
import { createAnswers, replay } from './replaying.ts'
import { followedSource, type Source, sequencerSource } from './sources.ts'
import { openTape, stampOf, type Tape, tapedWriter } from './tape.ts'

export type WriterData = SharedNode & {
  readonly keeper: MessagePort
  /** The feed and its sealed blocks; undefined: there is no sequencer. */
  readonly sequencer: MessagePort | undefined
  /** Who brings the canonical blocks of a network, and its feeds; undefined: none is followed. */
  readonly followed?:
    | {
        readonly follower: MessagePort
        readonly feeds: readonly MessagePort[]
        /** Path of the journal of flashblocks; undefined: a restart begins without pending. */
        readonly frames?: string | undefined
      }
    | undefined
  /** Clients are shown records so much later; left out: with their publish. */
  readonly behind?: { readonly flashblocks: number; readonly ms: number } | undefined
  /** Somebody may apply what records show. */
  readonly tellsChanges: boolean
  readonly limits?: Partial<WriterLimits>
  /** What it takes is told to main. */
  readonly isRecorded?: boolean
  /** It takes what a record has, and nothing else. */
  readonly replay?: ReplayData | undefined
}

type Thread = {
  readonly writer: ChainWriter
  readonly reader: ChainReader
  readonly tape: Tape
  readonly recording: Recording | undefined
  readonly mailbox: Mailbox
  readonly keeper: MessagePort
  readonly source: Source | undefined
  /** Of a node that is recorded. */
  onFill: Recording['fill']
  readonly counts: Map<string, number>
  readonly held: HeldBack
  tell(message: FromWriter): void
}

const BEAT_MS = 1_000

if (parentPort !== null) start(parentPort, workerData as WriterData)

/** The keeper speaks first: it may have repaired the database before. */
function start(main: MessagePort, data: WriterData): void {
  data.keeper.once('message', (greeting: KeeperOpened) => {
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
  const behind = data.behind && { ...data.behind, now: () => performance.now() }
  const publisher = openPublisher(data.views, opened.foldHead, behind)
  const reader = openChainReader({
    ...{ views: data.views, store, chain, thread: data.thread, seesAll: true },
  })
  const tape = openTape(data)
  const { writer: opens, effects } = openWriter(
    {
      chain,
      store,
      publisher,
      reader,
      engine: engineByName(data.engine, {
        onTrap: (reason) => main.postMessage({ type: 'trapped', reason } satisfies FromWriter),
      }),
      now: tape.clock.now,
      wallMs: tape.clock.wallMs,
      isLazy: store.isLazy(),
      seed: tape.seed,
      hasMarks: data.followed !== undefined,
      tellsChanges: data.tellsChanges,
      tellsExecuted: data.followed?.frames !== undefined,
      limits: tape.limits,
    },
    opened,
  )
  const writer = tape.type === 'none' ? opens : tapedWriter(opens)
  const thread: Thread = {
    ...{ writer, reader, tape },
    recording: recordingOf(main, data, { writer, reader, tape }),
    mailbox: new Mailbox(),
    keeper: data.keeper,
    source: tape.type === 'replay' ? undefined : sourceOf(data, (fill) => thread.onFill(fill)),
    onFill() {},
    counts: new Map(),
    held: holdBack(publisher.showing, (message) => main.postMessage(message satisfies FromWriter)),
    tell: (message) => main.postMessage(message),
  }
  carryOut(thread, effects)
  if (tape.type === 'replay') serveRecord(main, thread, tape)
  else serve(main, thread)
  thread.tell({ type: 'ready', record: reader.newestRecord() })
  saveCompiledLater()
}

/** Its first line is what the writer was opened with. */
function recordingOf(
  main: MessagePort,
  { followed, keeper }: WriterData,
  { writer, reader, tape }: Pick<Thread, 'writer' | 'reader' | 'tape'>,
): Recording | undefined {
  if (tape.type !== 'record') return undefined
  const { clock, seed, limits } = tape
  const tellLines = (lines: Uint8Array<ArrayBuffer>) =>
    main.postMessage({ type: 'recorded', lines } satisfies FromWriter, [lines.buffer])
  tellLines(openLine({ ...clock.end(), seed, limits }))
  return createRecording({
    ...{ writer, reader, clock, tellLines },
    post: (fill, wallMs) => postRequest(keeper, fill, wallMs),
    tellFilled: (answer) => followed?.follower.postMessage(answer satisfies WriterToFollower),
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
  const { tell, keeper, source, recording } = thread
  const deliver = createLoop(thread, (error) => {
    source?.close()
    recording?.flush()
    tell(lastWords(error, 'the writer cannot go on'))
  })
  thread.onFill = (fill) => {
    recording?.fill(fill)
    deliver()
  }
  const beat = setInterval(() => report(thread), BEAT_MS)
  keeper.on('message', (answer: KeeperAnswer) => {
    if (recording?.filled(answer) !== true) deliver({ type: 'answer', answer })
  })
  source?.listen(
    deliver,
    (what) => count(thread, what, 1),
    (message) => tell({ type: 'warning', message }),
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
        thread.held.heard(message.place)
        return
      case 'stop':
        source?.close()
        clearInterval(beat)
        await deliver.stop()
        thread.held.stop()
        recording?.flush()
        report(thread)
        tell({ type: 'stopped' })
        keeper.close()
        main.close()
    }
  })
}

/** Once main says so: it takes the record to its end, and then nothing any more. */
function serveRecord(
  main: MessagePort,
  thread: Thread,
  tape: Tape & { readonly type: 'replay' },
): void {
  const { writer, reader, keeper, tell } = thread
  const answers = createAnswers()
  let isStopped = false
  let onAsked = () => {}
  let running: Promise<void> | undefined
  const beat = setInterval(() => report(thread), BEAT_MS)
  keeper.on('message', answers.give)
  const run = async (): Promise<void> => {
    const { clock, lines, requests, data } = tape
    const ended = await replay({
      ...{ writer, reader, clock, lines, requests, data, answers, isStopped: () => isStopped },
      post: (fill) => postRequest(keeper, fill, clock.wallMs()),
      carryOut: (effects) => carryOut(thread, effects),
      tell: (status) => tell({ type: 'replaying', status }),
      ask: (lines, at) =>
        new Promise((resolve) => {
          onAsked = resolve
          tell({ type: 'ask', lines, at })
        }),
    })
    tell({ type: 'replayed', ended: { ...ended, isCut: tape.isCut() } })
  }
  main.on('message', async ({ type }: ToWriter) => {
    if (type === 'replay')
      running ??= run().catch((error) => tell(lastWords(error, 'the writer cannot go on')))
    if (type === 'asked') onAsked()
    if (type !== 'stop') return
    isStopped = true
    onAsked()
    clearInterval(beat)
    await running
    report(thread)
    tell({ type: 'stopped' })
    keeper.close()
    main.close()
  })
}

/** A disk that fails leaves what is shown as it is; anything else may have broken it. */
function lastWords(error: Error, what: string): FromWriter {
  const failure = storageFailure(error)
  return failure === undefined
    ? { type: 'halted', message: `${what}: ${error.message}`, isFatal: true }
    : { type: 'failed', message: failure }
}

/** Without an event: there may be something to do. */
type Loop = ((event?: WriterEvent) => void) & {
  /** Resolves when the event in progress is done; later ones are not looked at. */
  stop(): Promise<void>
}

/** Applies what the mailbox has, one event after the other, until it is empty. */
function createLoop(thread: Thread, onError: (error: Error) => void): Loop {
  const { writer, mailbox, recording } = thread
  let running: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isStopped = false

  async function run(): Promise<void> {
    while (!isStopped) {
      await recording?.settle()
      const event = mailbox.next((hash) => writer.knows(hash)) ?? aheadEvent(writer)
      if (event === undefined && recording?.isWaiting === true) continue
      if (event === undefined) return
      if (event.type === 'packet') thread.source?.taken(event.packet)
      carryOut(thread, await (recording ?? writer).apply(event))
      // What came meanwhile may be more urgent than what waits.
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

const aheadEvent = (writer: ChainWriter): WriterEvent | undefined =>
  writer.canRunAhead() ? { type: 'ahead' } : undefined

/**
 * First what clients of this node wait for, then what those of replicas do that apply what records show. The keeper last: it would take the core
 * that clients are answered on.
 */
function carryOut(thread: Thread, effects: readonly WriterEffect[]): void {
  const isFollowed = effects.some(({ type }) => type === 'changes')
  for (const effect of effects) {
    // The sequencer first: it waits for its parent.
    thread.source?.hear(effect)
    if (effect.type === 'count') count(thread, effect.what, effect.by)
    else if (effect.type === 'published') thread.held.tell({ ...effect, isFollowed })
    else if (effect.type === 'sealed') thread.held.tell(effect)
    else if (!isForSource(effect)) thread.tell(effect)
  }
  for (const effect of effects)
    if (effect.type === 'changes')
      thread.tell({ type: 'changes', changes: packChanges(effect.changes) })
  for (const effect of effects)
    if (effect.type === 'keeper') postRequest(thread.keeper, effect.request, stampOf(thread.tape))
}

const isForSource = (effect: WriterEffect): effect is WriterEffect & { readonly type: OfOthers } =>
  OF_OTHERS.has(effect.type)
type OfOthers = 'keeper' | 'executed' | 'need' | 'refused' | 'check' | 'notBegun' | 'changes'
const OF_OTHERS: ReadonlySet<string> = new Set<OfOthers>([
  ...(['keeper', 'executed', 'need', 'refused', 'check', 'notBegun', 'changes'] as const),
])

/** Counts go out once a second: a message for each would cost more than what it counts. */
function count({ counts }: Thread, what: string, by: number): void {
  counts.set(what, (counts.get(what) ?? 0) + by)
}

function report(thread: Thread): void {
  const skipped = thread.mailbox.takeSkipped()
  if (skipped > 0) count(thread, 'feed_skipped', skipped)
  for (const [what, by] of thread.counts) thread.tell({ type: 'count', what, by })
  thread.counts.clear()
  const values = { ...thread.writer.gauges(), mailbox: thread.mailbox.size }
  thread.tell({ type: 'gauges', values })
}
