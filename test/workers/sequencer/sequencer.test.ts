/**
 * The sequencer's thread runs on a real database and on real views that stay at genesis. It makes
 * one block, then the same block again from its journal.
 */
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
import { createPersistence } from '../../../engine/storage/persistence/persistence.ts'
import { createViews, persistenceWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { type PackedRequest, unpackRequest } from '../../../workers/persistence/request.ts'
import type { SequencerData } from '../../../workers/sequencer/sequencer.ts'
import type {
  FromSequencer,
  SequencerToWriter,
  ToSequencer,
} from '../../../workers/thread/messages.ts'
import { brokenRules } from '../../fixtures/feed-rules.ts'
import { L1_FEE_INPUTS } from '../../fixtures/l1-fee-inputs.ts'

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
/**
 * Opens a node whose genesis is some seconds ahead. The first block has its whole second unless the
 * start takes longer.
 */
function openNode(seconds: number) {
  const genesisTimestamp = Math.floor(Date.now() / 1000) + seconds
  const chain = { name: 'xlayer', dev: { genesisTimestamp, blockTime: 1 } }
  const spec = chainSpec(chain)
  importGenesis(database, spec)
  const views = createViews({ bytes: 4 << 20, threads: 2, seed: 1 })
  const persistence = createPersistence({ database, words: persistenceWords(views), now: () => 0 })
  const { base, publish } = openPublisher(views, { number: 0, hash: spec.genesisHash })
  publish({ canonical: base, complete: base, pending: base, safe: 0, finalized: 0 })
  return { chain, views, persistence }
}

/** Starts the thread; `persistence` responds to its requests. */
function startThread(node: ReturnType<typeof openNode>, pool: readonly Bytes[]) {
  const { port1: ours, port2: theirs } = new MessageChannel()
  const { port1: writer, port2: toWriter } = new MessageChannel()
  const data: SequencerData = {
    database: database.share(),
    views: node.views,
    thread,
    chain: node.chain,
    engine: 'reference',
    persistence: theirs as unknown as MessagePort,
    writer: toWriter as unknown as MessagePort,
    journal: join(folder, 'flashblocks.journal'),
    blockTimeMs: 1000,
    // A thread's time limit is a share of this value; at 200, a busy machine would rightly count
    // work that it could not do.
    flashblockTimeMs: 400,
    form: 'xlayer',
    gaslessBlockGasLimit: 0,
    l1: L1_FEE_INPUTS,
  }
  ours.on('message', (question: PackedRequest) => {
    const responses = [...node.persistence.handle(unpackRequest(question))]
    while (node.persistence.hasWork()) responses.push(...node.persistence.step())
    for (const response of responses) ours.postMessage(response)
  })
  const worker = new Worker(new URL('../../../workers/sequencer/sequencer.ts', import.meta.url), {
    workerData: data,
    transferList: [theirs, toWriter],
  })
  const received: FromSequencer[] = []
  const emittedWriter: SequencerToWriter[] = []
  writer.on('message', (message: SequencerToWriter) => {
    emittedWriter.push(message)
    if (message.type === 'sealed') sealed.resolve()
  })
  const post = (message: ToSequencer) => worker.postMessage(message)
  const sealed = Promise.withResolvers<void>()
  worker.on('message', (message: FromSequencer) => {
    received.push(message)
    if (message.type === 'want')
      post({
        type: 'transactions',
        request: message.request,
        transactions: pool.map((raw) => ({ raw })),
        hasMore: false,
      })
    if (message.type === 'failed') sealed.reject(new Error(message.message))
  })
  worker.on('error', sealed.reject)
  post({ type: 'start' })
  return {
    received,
    sealed: sealed.promise,
    block: () => emittedWriter.find((message) => message.type === 'sealed')?.block,
    /** Gives the packets, which are equal for the writer and for the subscribers of /feed. */
    packets() {
      const packets = framesOf(received)
      expect(framesOf(emittedWriter)).toEqual(packets)
      return packets
    },
    async stop() {
      post({ type: 'stop' })
      const [status] = await once(worker, 'exit')
      ours.close()
      writer.close()
      return status
    },
  }
}

const framesOf = (received: readonly (FromSequencer | SequencerToWriter)[]): readonly Bytes[] =>
  received.flatMap((message) => (message.type === 'packet' ? [message.packet] : []))

/**
 * Makes a first block with time for more than its index 0. On a busy machine a thread may need
 * longer to start than its seconds.
 */
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

describe('the sequencer thread', () => {
  test('sends and seals a block, and repeats it from its journal after a restart', async () => {
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
    expect(first.received.find((message) => message.type === 'ready')).toBeDefined()
    expect(first.received.at(-1)).toEqual({ type: 'stopped' })
    const packets = first.packets()
    const messages = messagesOf(packets)
    expect(brokenRules(messages, 0n)).toEqual([])
    expect(messages.at(-1)).toMatchObject({ type: 'end' })
    const sealed = first.block()
    expect(sealed?.transactions.slice(1).map((sent) => Buffer.from(sent))).toEqual([
      Buffer.from(raw),
    ])
    expect(first.received.some((message) => message.type === 'rejected')).toBe(true)
    // On a slow machine a transaction may be left for the next flashblock.
    const isQuota = (what: string) => what === 'time_quota'
    const counted = first.received.filter(
      (message) => message.type === 'count' && !isQuota(message.what),
    )
    expect(counted).toEqual([])

    const restarted = startThread(node, [])
    await restarted.sealed
    expect(await restarted.stop()).toBe(0)
    expect(restarted.packets()).toEqual(packets)
    const last = messages.findLast((message) => message.type === 'flashblock')
    const ready = restarted.received.find((message) => message.type === 'ready')
    expect(ready?.newest).toEqual({ number: 1, index: last?.index })
    expect(restarted.block()).toEqual(sealed)
  })

  test('does not start on a damaged journal, and names the file and the record', async () => {
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

  test('reports why it cannot go on', async () => {
    const node = openNode(2)
    const thread = startThread({ ...node, chain: { ...node.chain, name: 'nowhere' } }, [])
    await expect(thread.sealed).rejects.toThrow(/^the sequencer failed: .*nowhere/)
  })
})
