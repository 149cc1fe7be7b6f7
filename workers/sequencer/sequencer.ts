/**
 * The sequencer's thread of a development network. It connects the state machine to its inputs and
 * outputs, and runs due steps.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import type { UpstreamBlock } from '../../engine/chain/types.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import { engineByName } from '../../engine/evm/engines/registry.ts'
import type { WireForm } from '../../engine/flashblocks/codec.ts'
import { createMessageIds } from '../../engine/flashblocks/identity.ts'
import type { FeedMessageId } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { L1FeeInputs } from '../../engine/sources/sequencer/attributes.ts'
import type { Wait } from '../../engine/sources/sequencer/building.ts'
import {
  MAX_DEPOSITS,
  type UserDeposit,
} from '../../engine/sources/sequencer/first-transactions.ts'
import { createSequencer, type Sequencer } from '../../engine/sources/sequencer/sequencer.ts'
import type { Roots, SequencerPorts } from '../../engine/sources/sequencer/types.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { openJournal } from '../../engine/storage/directory/journal.ts'
import { storageFailure } from '../../engine/storage/persistence/failure.ts'
import type { PersistenceResponse } from '../../engine/storage/types.ts'
import { postRequest } from '../persistence/request.ts'
import { saveCompiledLater } from '../thread/compile-cache.ts'
import type {
  FromSequencer,
  SequencerToWriter,
  SharedNode,
  ToSequencer,
  WriterToSequencer,
} from '../thread/messages.ts'
import { createQuestions } from '../thread/questions.ts'
import { createTxpoolQuestions } from '../writer/txpool-questions.ts'
import { controlPort } from './control-port.ts'
import { isVisible } from './newest-visible.ts'

export type SequencerData = SharedNode & {
  /** Port to the persistence thread, for roots. */
  readonly persistence: MessagePort
  /** Port to the writer for packets and sealed blocks; the writer reports what it has published. */
  readonly writer: MessagePort
  /** Path of the flashblock journal. */
  readonly journal: string
  readonly blockTimeMs: number
  readonly flashblockTimeMs: number
  readonly form: WireForm
  /** Maximum gas of gasless transactions in a block; 0 means no limit. */
  readonly gaslessBlockGasLimit: number
  readonly l1: L1FeeInputs
}

type Thread = {
  readonly main: MessagePort
  readonly data: SequencerData
  readonly ports: SequencerPorts
  /** Handles a message of the main thread; returns true for a stop. */
  onMain(message: ToSequencer): boolean
  close(): void
}

/*
 * The call is not awaited, because V8 aborts the process if a thread is terminated during a
 * top-level await.
 */
if (parentPort) void run(parentPort, workerData as SequencerData)

async function run(main: MessagePort, data: SequencerData): Promise<void> {
  const notify = (message: FromSequencer) => main.postMessage(message)
  try {
    if (!(await isStarted(main))) return
    const journal = openJournal(data.journal, { ifDamaged: 'refuse' })
    const thread = connect(main, data, journal)
    const sequencer = createSequencer(
      {
        chain: chainSpec(data.chain),
        engine: engineByName(data.engine, {
          onTrap: (reason) => notify({ type: 'trapped', reason }),
        }),
        blockTimeMs: data.blockTimeMs,
        flashblockTimeMs: data.flashblockTimeMs,
        form: data.form,
        gaslessGas: data.gaslessBlockGasLimit === 0 ? undefined : BigInt(data.gaslessBlockGasLimit),
        l1: data.l1,
      },
      thread.ports,
      journal.found,
    )
    await drive(sequencer, thread)
    thread.close()
    notify({ type: 'stopped' })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const message = storageFailure(error) ?? `the sequencer failed: ${reason}`
    notify({ type: 'failed', message })
  } finally {
    main.close()
    data.persistence.close()
    data.writer.close()
  }
}

/** Resolves to false if the main thread sends a stop instead. */
function isStarted(main: MessagePort): Promise<boolean> {
  return new Promise((resolve) => {
    const onMessage = ({ type }: ToSequencer) => {
      if (type !== 'start' && type !== 'stop') return
      main.off('message', onMessage)
      resolve(type === 'start')
    }
    main.on('message', onMessage)
  })
}

/** Runs until the main thread sends a stop, and finishes the current step first. */
async function drive(sequencer: Sequencer, thread: Thread): Promise<void> {
  let isStopping = false
  let wake: ((type: (ToSequencer | WriterToSequencer)['type']) => void) | undefined
  thread.main.on('message', (message: ToSequencer) => {
    isStopping ||= thread.onMain(message)
    wake?.(message.type)
  })
  thread.data.writer.on('message', ({ type }: WriterToSequencer) => wake?.(type))
  const pause = ({ ms, until }: Wait) =>
    new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer)
        wake = undefined
        resolve()
      }
      const timer = setTimeout(done, ms)
      wake = (type) => {
        if (isStopping || (type === 'published' && until === 'parent')) done()
        if (type === 'news' && until === 'txpool') done()
        if (type === 'control' || type === 'deposit') done()
      }
    })
  // The event loop runs even without a wait, so that messages arrive.
  const breathe = () => new Promise((resolve) => setImmediate(resolve))
  try {
    let isReady = false
    while (!isStopping) {
      const wait = await sequencer.step()
      if (!isReady && sequencer.isReplayed) {
        isReady = true
        thread.main.postMessage({ type: 'ready', newest: sequencer.newest } satisfies FromSequencer)
        saveCompiledLater()
      }
      await (wait.ms > 0 ? pause(wait) : breathe())
    }
  } finally {
    sequencer.close()
  }
}

function connect(
  main: MessagePort,
  data: SequencerData,
  journal: SequencerPorts['journal'] & { close(): void },
): Thread {
  const notify = (message: FromSequencer) => main.postMessage(message)
  const store = openStore(attachDatabase(data.database))
  const chain = chainSpec(data.chain)
  const reader = openChainReader({ ...data, store, chain, seesAll: true })
  // After a slow response the flashblock is empty instead of late.
  const giveBack = (transactions: readonly Bytes[]) => notify({ type: 'returned', transactions })
  const txpool = createTxpoolQuestions({
    timeoutMs: data.flashblockTimeMs / 4,
    send: (wanted, request) =>
      notify({ ...wanted, type: 'want', request, number: Number(wanted.number) }),
    giveBack,
  })
  const messageIdOf = createMessageIds()
  const deposits: UserDeposit[] = []
  const control = controlPort({ reader, store, writer: data.writer, notify })
  const persistence = createQuestions<Roots>(data.flashblockTimeMs / 2)
  data.persistence.on('message', (response: PersistenceResponse) => {
    if (response.type === 'preview') persistence.respond(response.request, response.roots)
  })
  return {
    main,
    data,
    ports: {
      now: Date.now,
      cpuMs,
      leaseParent: () => leaseParent(reader),
      isVisible: (position, payloadId) => isVisible(reader, position, payloadId),
      transactions: txpool.request,
      hasNews: txpool.hasNews,
      giveBack,
      roots: (parentStateRoot, diff) =>
        persistence.request((request) =>
          postRequest(data.persistence, { type: 'preview', request, parentStateRoot, diff }),
        ),
      journal,
      send(packet, message) {
        // The packet goes to the writer first, because every response waits for the writer.
        postToWriter(data.writer, packet)
        postToMain(main, packet, messageIdOf(message))
      },
      late: (ms) => notify({ type: 'late', ms }),
      seal: (block) => postSealed(data.writer, block),
      reject: (transactions) => notify({ type: 'rejected', transactions }),
      count: (what, message) => notify({ type: 'count', what, message }),
      deposits: {
        take: () => deposits.slice(0, MAX_DEPOSITS),
        done(deposited) {
          deposits.splice(0, 1)
          notify({ type: 'deposited', deposited })
        },
      },
      control: control.port,
    },
    onMain(message) {
      if (message.type === 'transactions') txpool.respond(message.request, message)
      if (message.type === 'news') txpool.news()
      if (message.type === 'deposit') deposits.push(message.deposit)
      if (message.type === 'control') control.push(message)
      return message.type === 'stop'
    },
    close: () => journal.close(),
  }
}

function postSealed(writer: MessagePort, block: UpstreamBlock): void {
  writer.postMessage({ type: 'sealed', block } satisfies SequencerToWriter)
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

/** The packet is copied for each receiver, because its buffer may be shared. */
function postToWriter(to: MessagePort, bytes: Bytes): void {
  const packet = new Uint8Array(bytes)
  to.postMessage({ type: 'packet', packet } satisfies SequencerToWriter, [packet.buffer])
}
function postToMain(to: MessagePort, bytes: Bytes, messageId: FeedMessageId | undefined): void {
  const packet = new Uint8Array(bytes)
  to.postMessage({ type: 'packet', packet, messageId } satisfies FromSequencer, [packet.buffer])
}

function leaseParent(reader: ReturnType<typeof openChainReader>) {
  const { view, release } = reader.lease('flashblocks')
  try {
    const block = view.block({ tag: 'latest' })
    if (!block) throw new Error(`snapshot ${view.snapshot} has no complete block`)
    return {
      hash: view.latest.hash,
      header: block.header,
      reader: view.state(block),
      canonical: view.canonical.number,
      release,
    }
  } catch (error) {
    release()
    throw error
  }
}
