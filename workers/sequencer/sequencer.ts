/** The sequencer's thread (of a development network): gives the state machine its clock, parent, txpool, roots, journal and feed, and calls it when it is due. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import type { SealedBlock } from '../../engine/chain/types.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import { engineByName } from '../../engine/evm/engines/registry.ts'
import type { WireForm } from '../../engine/flashblocks/codec.ts'
import { createPlaces } from '../../engine/flashblocks/places.ts'
import type { FeedPlace } from '../../engine/flashblocks/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { L1Figures } from '../../engine/sources/sequencer/attributes.ts'
import type { Wait } from '../../engine/sources/sequencer/building.ts'
import { createSequencer, type Sequencer } from '../../engine/sources/sequencer/sequencer.ts'
import type { Roots, SequencerPorts } from '../../engine/sources/sequencer/types.ts'
import { MAX_DEPOSITS, type UserDeposit } from '../../engine/sources/sequencer/user-deposits.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { openJournal } from '../../engine/storage/directory/journal.ts'
import { storageFailure } from '../../engine/storage/keeper/failure.ts'
import type { KeeperAnswer } from '../../engine/storage/types.ts'
import { postRequest } from '../keeper/request.ts'
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
import { isShown } from './shown-place.ts'

/** What the sequencer's thread is started with. */
export type SequencerData = SharedNode & {
  /** To the keeper, for roots. */
  readonly keeper: MessagePort
  /** To the writer: packets and sealed blocks; it says what it has published. */
  readonly writer: MessagePort
  /** Path of the flashblock journal. */
  readonly journal: string
  readonly blockTimeMs: number
  readonly flashblockTimeMs: number
  readonly form: WireForm
  /** Gas that gasless transactions may use of a block; 0: no bound. */
  readonly gaslessBlockGasLimit: number
  readonly l1: L1Figures
}

type Thread = {
  readonly main: MessagePort
  readonly data: SequencerData
  readonly ports: SequencerPorts
  /** Takes a message of main's; true: stop. */
  onMain(message: ToSequencer): boolean
  close(): void
}

// Not awaited: V8 aborts the process when a thread is terminated while its modules await.
if (parentPort) void run(parentPort, workerData as SequencerData)

async function run(main: MessagePort, data: SequencerData): Promise<void> {
  const tell = (message: FromSequencer) => main.postMessage(message)
  try {
    if (!(await isStarted(main))) return
    const journal = openJournal(data.journal, { ifDamaged: 'refuse' })
    const thread = connect(main, data, journal)
    const sequencer = createSequencer(
      {
        chain: chainSpec(data.chain),
        engine: engineByName(data.engine, {
          onTrap: (reason) => tell({ type: 'trapped', reason }),
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
    tell({ type: 'stopped' })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const message = storageFailure(error) ?? `the sequencer cannot go on: ${reason}`
    tell({ type: 'failed', message })
  } finally {
    main.close()
    data.keeper.close()
    data.writer.close()
  }
}

/** False: main said stop instead. */
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

/** Until main says stop; what is being done is finished first. */
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
  // Messages are heard also where nothing has to be waited for.
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
  const tell = (message: FromSequencer) => main.postMessage(message)
  const store = openStore(attachDatabase(data.database))
  const reader = openChainReader({
    ...{ views: data.views, store, thread: data.thread, seesAll: true },
    chain: chainSpec(data.chain),
  })
  // A slow answer makes an empty flashblock, not a late one.
  const giveBack = (transactions: readonly Bytes[]) => tell({ type: 'returned', transactions })
  const txpool = createTxpoolQuestions({
    patienceMs: data.flashblockTimeMs / 4,
    send: (wanted, request) =>
      tell({ ...wanted, type: 'want', request, number: Number(wanted.number) }),
    giveBack,
  })
  const placeOf = createPlaces()
  const deposits: UserDeposit[] = []
  const control = controlPort({ reader, store, writer: data.writer, tell })
  const keeper = createQuestions<Roots>(data.flashblockTimeMs / 2)
  data.keeper.on('message', (answer: KeeperAnswer) => {
    if (answer.type === 'preview') keeper.answer(answer.request, answer.roots)
  })
  return {
    main,
    data,
    ports: {
      now: Date.now,
      cpuMs,
      leaseParent: () => leaseParent(reader),
      isShown: (place, payloadId) => isShown(reader, place, payloadId),
      transactions: txpool.ask,
      hasNews: txpool.hasNews,
      giveBack,
      roots: (parentStateRoot, diff) =>
        keeper.ask((request) =>
          postRequest(data.keeper, { type: 'preview', request, parentStateRoot, diff }),
        ),
      journal,
      send(packet, message) {
        // The writer first: everything that is answered waits for it.
        postToWriter(data.writer, packet)
        postToMain(main, packet, placeOf(message))
      },
      late: (ms) => tell({ type: 'late', ms }),
      seal: (block) => postSealed(data.writer, block),
      reject: (transactions) => tell({ type: 'rejected', transactions }),
      count: (what, message) => tell({ type: 'count', what, message }),
      deposits: {
        take: () => deposits.slice(0, MAX_DEPOSITS),
        done(deposited) {
          deposits.splice(0, 1)
          tell({ type: 'deposited', deposited })
        },
      },
      control: control.port,
    },
    onMain(message) {
      if (message.type === 'transactions') txpool.answer(message.request, message)
      if (message.type === 'news') txpool.news()
      if (message.type === 'deposit') deposits.push(message.deposit)
      if (message.type === 'control') control.push(message)
      return message.type === 'stop'
    },
    close: () => journal.close(),
  }
}

function postSealed(writer: MessagePort, block: SealedBlock): void {
  writer.postMessage({ type: 'sealed', block } satisfies SequencerToWriter)
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

/** A copy of its own for each: the packet may lie in a buffer shared with others. */
function postToWriter(to: MessagePort, bytes: Bytes): void {
  const packet = new Uint8Array(bytes)
  to.postMessage({ type: 'packet', packet } satisfies SequencerToWriter, [packet.buffer])
}
function postToMain(to: MessagePort, bytes: Bytes, place: FeedPlace | undefined): void {
  const packet = new Uint8Array(bytes)
  to.postMessage({ type: 'packet', packet, place } satisfies FromSequencer, [packet.buffer])
}

function leaseParent(reader: ReturnType<typeof openChainReader>) {
  const { view, release } = reader.lease('flashblocks')
  try {
    const block = view.block({ tag: 'latest' })
    if (!block) throw new Error(`record ${view.record} has no complete block`)
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
