/** The writer's thread: feeds the writer from the keeper, main and the sequencer, one event at a time, and carries out its effects. */
import { randomInt } from 'node:crypto'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
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
import { saveCompiledLater } from '../thread/compile-cache.ts'
import type { FromWriter, KeeperOpened, SharedNode, ToWriter } from '../thread/messages.ts'
import { followedSource, type Source, sequencerSource } from './sources.ts'

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
  /** Somebody may apply what records show. */
  readonly tellsChanges: boolean
  readonly limits?: Partial<WriterLimits>
}

type Thread = {
  readonly writer: ChainWriter
  readonly mailbox: Mailbox
  readonly keeper: MessagePort
  readonly source: Source | undefined
  readonly counts: Map<string, number>
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
  const publisher = openPublisher(data.views, opened.foldHead)
  const reader = openChainReader({ views: data.views, store, chain, thread: data.thread })
  const { writer, effects } = openWriter(
    {
      chain,
      store,
      publisher,
      reader,
      engine: engineByName(data.engine, {
        onTrap: (reason) => main.postMessage({ type: 'trapped', reason } satisfies FromWriter),
      }),
      now: () => performance.now(),
      wallMs: () => Date.now(),
      ...(store.isLazy() ? { isLazy: true, seed: randomInt(2 ** 31) } : {}),
      hasMarks: data.followed !== undefined,
      tellsChanges: data.tellsChanges,
      tellsExecuted: data.followed?.frames !== undefined,
      ...(data.limits === undefined ? {} : { limits: data.limits }),
    },
    opened,
  )
  const thread: Thread = {
    writer,
    mailbox: new Mailbox(),
    keeper: data.keeper,
    source: sourceOf(data),
    counts: new Map(),
    tell: (message) => main.postMessage(message),
  }
  carryOut(thread, effects)
  serve(main, thread)
  thread.tell({ type: 'ready', record: reader.newestRecord() })
  saveCompiledLater()
}

function sourceOf({ sequencer, followed }: WriterData): Source | undefined {
  if (followed !== undefined) return followedSource(followed)
  return sequencer && sequencerSource(sequencer)
}

function serve(main: MessagePort, thread: Thread): void {
  const { tell, keeper, source } = thread
  const deliver = createLoop(thread, (error) => {
    source?.close()
    tell(lastWords(error, 'the writer cannot go on'))
  })
  const beat = setInterval(() => report(thread), BEAT_MS)
  keeper.on('message', (answer: KeeperAnswer) => deliver({ type: 'answer', answer }))
  source?.listen(
    deliver,
    (what) => count(thread, what, 1),
    (message) => tell({ type: 'warning', message }),
  )
  main.on('message', async (message: ToWriter) => {
    switch (message.type) {
      case 'expected':
        for (const one of message.transactions) thread.writer.expect(one)
        return deliver()
      case 'distrust':
        return deliver({ type: 'distrust', reason: message.reason })
      case 'feed':
        source?.feed?.(message.port)
        return
      case 'stop':
        source?.close()
        clearInterval(beat)
        await deliver.stop()
        report(thread)
        tell({ type: 'stopped' })
        keeper.close()
        main.close()
    }
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
  const { writer, mailbox } = thread
  let running: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isStopped = false

  async function run(): Promise<void> {
    while (!isStopped) {
      const event = mailbox.next((hash) => writer.knows(hash)) ?? aheadEvent(writer)
      if (event === undefined) return
      if (event.type === 'packet') thread.source?.taken(event.packet)
      carryOut(thread, await writer.apply(event))
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
 * The keeper late: it would take the core that those who wait for a publish are answered on. Last what nobody waits for, who applies what
 * records show.
 */
function carryOut(thread: Thread, effects: readonly WriterEffect[]): void {
  for (const effect of effects) {
    // The sequencer first: it waits for its parent.
    thread.source?.hear(effect)
    if (effect.type === 'count') count(thread, effect.what, effect.by)
    else if (!isForSource(effect)) thread.tell(effect)
  }
  for (const effect of effects)
    if (effect.type === 'keeper') postRequest(thread.keeper, effect.request)
  for (const effect of effects)
    if (effect.type === 'changes')
      thread.tell({ type: 'changes', changes: packChanges(effect.changes) })
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
