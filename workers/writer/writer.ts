/** The writer's thread: feeds the writer from the keeper, main and the sequencer, one event at a time, and carries out its effects. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import { engineByName } from '../../engine/evm/engines/registry.ts'
import { decodePacket } from '../../engine/flashblocks/codec.ts'
import { checksum } from '../../engine/primitives/checksum.ts'
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
import type {
  FromWriter,
  KeeperOpened,
  SequencerToWriter,
  SharedNode,
  ToWriter,
  WriterToSequencer,
} from '../thread/messages.ts'

export type WriterData = SharedNode & {
  readonly keeper: MessagePort
  /** The feed and its sealed blocks; undefined: there is none to follow. */
  readonly sequencer: MessagePort | undefined
  readonly limits?: Partial<WriterLimits>
}

type Thread = {
  readonly writer: ChainWriter
  readonly mailbox: Mailbox
  readonly keeper: MessagePort
  readonly sequencer: MessagePort | undefined
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
      ...(data.limits === undefined ? {} : { limits: data.limits }),
    },
    opened,
  )
  const thread: Thread = {
    writer,
    mailbox: new Mailbox(),
    keeper: data.keeper,
    sequencer: data.sequencer,
    counts: new Map(),
    tell: (message) => main.postMessage(message),
  }
  carryOut(thread, effects)
  serve(main, thread)
  thread.tell({ type: 'ready', record: reader.newestRecord() })
  saveCompiledLater()
}

function serve(main: MessagePort, thread: Thread): void {
  const { tell, keeper, sequencer } = thread
  const deliver = createLoop(thread, (error) => {
    sequencer?.close()
    tell(lastWords(error, 'the writer cannot go on'))
  })
  const beat = setInterval(() => report(thread), BEAT_MS)
  keeper.on('message', (answer: KeeperAnswer) => deliver({ type: 'answer', answer }))
  if (sequencer !== undefined) follow(sequencer, thread, deliver)
  main.on('message', async (message: ToWriter) => {
    switch (message.type) {
      case 'expected':
        for (const one of message.transactions) thread.writer.expect(one)
        return deliver()
      case 'distrust':
        return deliver({ type: 'distrust', reason: message.reason })
      case 'stop':
        sequencer?.close()
        clearInterval(beat)
        await deliver.stop()
        report(thread)
        tell({ type: 'stopped' })
        keeper.close()
        main.close()
    }
  })
}

/**
 * What was sent before this is still in the port. What waits in it is less than two blocks: the sequencer begins one when it reads its
 * parent in the shared views, where only this thread puts it. What is taken out waits in the mailbox, which has bounds of its own.
 */
function follow(sequencer: MessagePort, thread: Thread, deliver: Deliver): void {
  deliver({ type: 'feed', isConnected: true })
  sequencer.on('message', (message: SequencerToWriter) => {
    if (message.type === 'packet') onPacket(thread, message.packet, deliver)
    else deliver(message)
  })
  // The sequencer's thread has ended.
  sequencer.once('close', () => deliver({ type: 'feed', isConnected: false }))
}

/** A disk that fails leaves what is shown as it is; anything else may have broken it. */
function lastWords(error: Error, what: string): FromWriter {
  const failure = storageFailure(error)
  return failure === undefined
    ? { type: 'halted', message: `${what}: ${error.message}`, isFatal: true }
    : { type: 'failed', message: failure }
}

/** Without an event: there may be something to do. */
type Deliver = ((event?: WriterEvent) => void) & {
  /** Resolves when the event in progress is done; later ones are not looked at. */
  stop(): Promise<void>
}

/** Applies what the mailbox has, one event after the other, until it is empty. */
function createLoop(thread: Thread, onError: (error: Error) => void): Deliver {
  const { writer, mailbox } = thread
  let running: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isStopped = false

  async function run(): Promise<void> {
    while (!isStopped) {
      const event = mailbox.next((hash) => writer.knows(hash)) ?? aheadEvent(writer)
      if (event === undefined) return
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

/** The keeper last: it would take the core that those who wait for a publish are answered on. */
function carryOut(thread: Thread, effects: readonly WriterEffect[]): void {
  for (const effect of effects) {
    // The sequencer first: it waits for its parent.
    if (effect.type === 'published')
      thread.sequencer?.postMessage({ type: 'published' } satisfies WriterToSequencer)
    if (effect.type === 'count') count(thread, effect.what, effect.by)
    else if (effect.type !== 'keeper') thread.tell(effect)
  }
  for (const effect of effects)
    if (effect.type === 'keeper') postRequest(thread.keeper, effect.request)
}

function onPacket(thread: Thread, bytes: Uint8Array, deliver: Deliver): void {
  const receivedAtMs = performance.now()
  const decoded = decodePacket(bytes)
  if ('message' in decoded) {
    const packet = { message: decoded.message, digest: checksum(bytes), receivedAtMs }
    deliver({ type: 'packet', packet })
  } else if ('refuse' in decoded) {
    count(thread, 'feed_refused', 1)
    if (thread.counts.get('feed_refused') === 1)
      thread.tell({ type: 'warning', message: `packet of the feed refused: ${decoded.refuse}` })
  } else count(thread, 'feed_foreign', 1)
}

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
