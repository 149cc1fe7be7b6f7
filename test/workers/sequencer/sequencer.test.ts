/** The sequencer's thread on a real database and real views that stay at genesis: one block, then the same again from its journal. */
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { decodePacket } from '../../../engine/flashblocks/codec.ts'
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { columnOptions } from '../../../engine/storage/database/columns.ts'
import { openDatabase } from '../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { encodeJournal } from '../../../engine/storage/directory/journal-format.ts'
import { createKeeper } from '../../../engine/storage/keeper/keeper.ts'
import { createViews, keeperWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { type PackedRequest, unpackRequest } from '../../../workers/keeper/request.ts'
import type { SequencerData } from '../../../workers/sequencer/sequencer.ts'
import type {
  FromSequencer,
  SequencerToWriter,
  ToSequencer,
} from '../../../workers/thread/messages.ts'
import { brokenRules } from '../../fixtures/feed-rules.ts'
import { L1_FIGURES } from '../../fixtures/l1-figures.ts'

let folder: string
let database: Database
beforeEach(open)
afterEach(close)
async function open() {
  folder = mkdtempSync(join(tmpdir(), 'sequencer-'))
  database = await openDatabase(join(folder, 'state'), columnOptions(), { createIfMissing: true })
}
async function close() {
  await database.close()
  rmSync(folder, { recursive: true })
}

const thread = 1
/** The genesis is some seconds ahead, so that the first block has its whole second unless the start takes longer. */
function openNode(seconds: number) {
  const genesisTimestamp = Math.floor(Date.now() / 1000) + seconds
  const chain = { name: 'xlayer', dev: { genesisTimestamp, blockTime: 1 } }
  const spec = chainSpec(chain)
  importGenesis(database, spec)
  const views = createViews({ bytes: 4 << 20, threads: 2, seed: 1 })
  const keeper = createKeeper({ database, words: keeperWords(views), now: () => 0 })
  const { base, publish } = openPublisher(views, { number: 0, hash: spec.genesisHash })
  publish({ canonical: base, complete: base, pending: base, safe: 0, finalized: 0 })
  return { chain, views, keeper }
}

/** Starts the thread; `keeper` answers its questions. */
function startThread(node: ReturnType<typeof openNode>, pool: readonly Bytes[]) {
  const { port1: ours, port2: theirs } = new MessageChannel()
  const { port1: writer, port2: toWriter } = new MessageChannel()
  const data: SequencerData = {
    database: database.share(),
    views: node.views,
    thread,
    chain: node.chain,
    engine: 'reference',
    keeper: theirs as unknown as MessagePort,
    writer: toWriter as unknown as MessagePort,
    journal: join(folder, 'flashblocks.journal'),
    blockTimeMs: 1000,
    // What a thread may take is a share of it: at 200 a busy machine has it count what it could not do, and rightly.
    flashblockTimeMs: 400,
    form: 'xlayer',
    gaslessBlockGasLimit: 0,
    l1: L1_FIGURES,
  }
  ours.on('message', (question: PackedRequest) => {
    const answers = [...node.keeper.handle(unpackRequest(question))]
    while (node.keeper.hasWork()) answers.push(...node.keeper.step())
    for (const answer of answers) ours.postMessage(answer)
  })
  const worker = new Worker(new URL('../../../workers/sequencer/sequencer.ts', import.meta.url), {
    workerData: data,
    transferList: [theirs, toWriter],
  })
  const told: FromSequencer[] = []
  const toldWriter: SequencerToWriter[] = []
  writer.on('message', (message: SequencerToWriter) => {
    toldWriter.push(message)
    if (message.type === 'sealed') sealed.resolve()
  })
  const say = (message: ToSequencer) => worker.postMessage(message)
  const sealed = Promise.withResolvers<void>()
  worker.on('message', (message: FromSequencer) => {
    told.push(message)
    if (message.type === 'want')
      say({
        type: 'transactions',
        request: message.request,
        transactions: pool.map((raw) => ({ raw })),
        hasMore: false,
      })
    if (message.type === 'failed') sealed.reject(new Error(message.message))
  })
  worker.on('error', sealed.reject)
  say({ type: 'start' })
  return {
    told,
    sealed: sealed.promise,
    block: () => toldWriter.find((message) => message.type === 'sealed')?.block,
    /** The same for the writer and for the subscribers of /feed. */
    packets() {
      const packets = framesOf(told)
      expect(framesOf(toldWriter)).toEqual(packets)
      return packets
    },
    async stop() {
      say({ type: 'stop' })
      const [status] = await once(worker, 'exit')
      ours.close()
      writer.close()
      return status
    },
  }
}

const framesOf = (told: readonly (FromSequencer | SequencerToWriter)[]): readonly Bytes[] =>
  told.flatMap((message) => (message.type === 'packet' ? [message.packet] : []))

/** A first block with time for more than its index 0: on a busy machine a thread may need longer to start than it was given. */
async function firstBlock(pool: readonly Bytes[]) {
  for (let seconds = 2; ; seconds *= 2) {
    const node = openNode(seconds)
    const first = startThread(node, pool)
    await first.sealed
    expect(await first.stop()).toBe(0)
    if (first.packets().length > 2) return { node, first }
    await close()
    await open()
  }
}

const messagesOf = (packets: readonly Bytes[]): FeedMessage[] =>
  packets.map((packet) => {
    const decoded = decodePacket(packet)
    if (!('message' in decoded)) throw new Error(JSON.stringify(decoded))
    return decoded.message
  })

describe('the thread', () => {
  test('sends a block’s packets and seals it; started again on its journal it says the same', async () => {
    const { raw } = signTransaction(
      {
        type: 2,
        chainId: 196n,
        nonce: 0n,
        to: new Uint8Array(20),
        value: 1n,
        gasLimit: 21_000n,
        input: new Uint8Array(0),
        maxFeePerGas: 10n ** 9n,
        maxPriorityFeePerGas: 0n,
        accessList: [],
      },
      hexToBytes(DEV_ACCOUNTS[0]!.privateKey),
    )
    const poor = new Uint8Array([0xc0])
    const { node, first } = await firstBlock([poor, raw])
    expect(first.told.find((message) => message.type === 'ready')).toBeDefined()
    expect(first.told.at(-1)).toEqual({ type: 'stopped' })
    const packets = first.packets()
    const messages = messagesOf(packets)
    expect(brokenRules(messages, 0n)).toEqual([])
    expect(messages.at(-1)).toMatchObject({ type: 'end' })
    const sealed = first.block()
    expect(sealed?.transactions.slice(1).map((sent) => Buffer.from(sent))).toEqual([
      Buffer.from(raw),
    ])
    expect(first.told.some((message) => message.type === 'rejected')).toBe(true)
    expect(first.told.filter((message) => message.type === 'count')).toEqual([])

    const again = startThread(node, [])
    await again.sealed
    expect(await again.stop()).toBe(0)
    expect(again.packets()).toEqual(packets)
    const last = messages.findLast((message) => message.type === 'flashblock')
    const ready = again.told.find((message) => message.type === 'ready')
    expect(ready?.newest).toEqual({ number: 1, index: last?.index })
    expect(again.block()).toEqual(sealed)
  })

  test('does not start on a damaged journal: it names the file, the record and what to do', async () => {
    const path = join(folder, 'flashblocks.journal')
    const content = Buffer.concat(encodeJournal([1, 2, 3].map((byte) => Uint8Array.of(byte))))
    content[20 + 5]! ^= 1
    writeFileSync(path, content)
    const thread = startThread(openNode(2), [])
    await expect(thread.sealed).rejects.toThrow(
      `storage: ${path} is damaged and was left as it is: record 1 at byte 20 is not what its checksum says, 25 bytes. Its records depend on each other: put back`,
    )
    expect(readFileSync(path)).toEqual(content)
  })

  test('says why it cannot go on', async () => {
    const node = openNode(2)
    const thread = startThread({ ...node, chain: { ...node.chain, name: 'nowhere' } }, [])
    await expect(thread.sealed).rejects.toThrow(/^the sequencer cannot go on: .*nowhere/)
  })
})
