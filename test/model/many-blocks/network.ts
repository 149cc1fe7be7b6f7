/**
 * A development network on one thread, at full speed. Sequencer, pool, journals, writer and
 * persistence thread are real and use a data directory. The clock moves by the delays that the
 * sequencer requests.
 */
import { join } from 'node:path'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { UpstreamBlock } from '../../../engine/chain/types.ts'
import { type ChainOption, chainSpec } from '../../../engine/chainspec/registry.ts'
import { decodePacket } from '../../../engine/flashblocks/codec.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { checksum } from '../../../engine/primitives/checksum.ts'
import { createSequencer } from '../../../engine/sources/sequencer/sequencer.ts'
import type { Roots, SequencerPorts } from '../../../engine/sources/sequencer/types.ts'
import type { WriterEffect, WriterEvent } from '../../../engine/sources/writer/types.ts'
import { openWriter } from '../../../engine/sources/writer/writer.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { openJournal } from '../../../engine/storage/directory/journal.ts'
import { openDirectory } from '../../../engine/storage/directory/schema.ts'
import { createPersistence } from '../../../engine/storage/persistence/persistence.ts'
import type { PersistenceRequest, PersistenceResponse } from '../../../engine/storage/types.ts'
import { digestOf } from '../../../engine/txpool/validation.ts'
import { createViews, persistenceWords } from '../../../engine/views/arena.ts'
import { viewMemory } from '../../../engine/views/memory.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { invalidTransaction } from '../../../rpc/core/errors.ts'
import { OWN_CLIENT } from '../../../rpc/core/executor.ts'
import { createTransactions } from '../../../workers/front/transactions.ts'
import { FRONT_ROW, SOURCE_ROW, WRITER_ROW } from '../../../workers/thread/rows.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { L1_FEE_INPUTS } from '../../fixtures/l1-fee-inputs.ts'

const BLOCK_TIME_MS = 1000
const FLASHBLOCK_TIME_MS = 200
/** `flashnode dev` opens its database with the same cache size. */
const CACHE_BYTES = 64 * 2 ** 20

export type Network = {
  /** Does everything that is due, then moves the clock. */
  step(): Promise<void>
  /**
   * Adds a transaction to the pool.
   * @throws {Error} when the pool refuses it.
   */
  submit(raw: Bytes): void
  canonical(): { readonly number: number; readonly hash: Bytes }
  readonly chainId: bigint
}

/** `startMs`: milliseconds since 1970, for the start of the clock and the genesis block. */
export async function openNetwork(path: string, startMs: number): Promise<Network> {
  const clock = { ms: startMs }
  const option: ChainOption = {
    name: 'xlayer',
    dev: { genesisTimestamp: Math.floor(startMs / 1000), blockTime: BLOCK_TIME_MS / 1000 },
  }
  const chain = chainSpec(option)
  const cacheBytes = CACHE_BYTES
  const database = await openDirectory({ path, chain, chainName: option.name, cacheBytes })
  importGenesis(database, chain)
  const { bytes } = viewMemory({
    gasLimit: Number(chain.genesisHeader.gasLimit),
    blockTimeMs: BLOCK_TIME_MS,
    deadlineMs: 1000,
  })
  const views = createViews({ bytes, threads: SOURCE_ROW + 1, seed: 1 })
  const now = () => clock.ms
  const persistence = createPersistence({ database, words: persistenceWords(views), now })
  const store = openStore(database)
  const publisher = openPublisher(views, persistence.opened.persistedHead)
  const readerOf = (thread: number) => openChainReader({ views, store, chain, thread })
  const { writer, effects } = openWriter(
    { chain, engine: referenceEngine, store, publisher, now, reader: readerOf(WRITER_ROW) },
    persistence.opened,
  )
  const requests: PersistenceRequest[] = []
  const events: WriterEvent[] = [{ type: 'feed', feed: 0, isConnected: true }]
  const previews = new Map<number, Roots | undefined>()
  const take = (list: readonly WriterEffect[]) => {
    for (const effect of list)
      if (effect.type === 'persistence') requests.push(effect.request)
      else if (effect.type === 'halted') throw new Error(effect.message)
      else if (effect.type === 'published') transactions.published([])
  }
  const onResponses = (responses: readonly PersistenceResponse[]) => {
    for (const response of responses)
      if (response.type === 'preview') previews.set(response.request, response.roots)
      else events.push({ type: 'answer', response })
  }
  async function settle(): Promise<void> {
    for (;;) {
      const dueMs = writer.wakeAtMs()
      const event = events.shift()
      if (event !== undefined) take(await writer.apply(event))
      else if (requests.length > 0) onResponses(persistence.handle(requests.shift()!))
      else if (persistence.hasWork()) onResponses(persistence.step())
      else if (dueMs !== undefined && dueMs <= clock.ms) take(await writer.apply({ type: 'tick' }))
      else return
    }
  }
  const front = readerOf(FRONT_ROW)
  const transactions = createTransactions({
    reader: front,
    chain,
    journal: openJournal(join(path, 'transactions.journal'), { ifDamaged: 'skip' }),
    limits: { transactionBytes: 2 ** 17, blobTransactionBytes: 2 ** 20 },
    prove: () => Promise.reject(new Error('an OP chain has no blobs')),
    makeDigest: async (envelope) => {
      const made = digestOf(envelope)
      return 'error' in made ? { error: invalidTransaction(made.error).toObject() } : made
    },
    isListed: async () => true,
    now,
    onFailure: (message) => {
      throw new Error(message)
    },
  })
  let hasNews = false
  transactions.onNews(() => {
    hasNews = true
  })
  let requested = 0
  const reader = readerOf(SOURCE_ROW)
  const journal = openJournal(join(path, 'flashblocks.journal'), { ifDamaged: 'refuse' })
  const ports: SequencerPorts = {
    now,
    cpuMs: now,
    leaseParent() {
      const { view, release } = reader.lease('flashblocks')
      const block = view.block({ tag: 'latest' })!
      const { number } = view.canonical
      const { hash } = view.latest
      return { hash, header: block.header, reader: view.state(block), canonical: number, release }
    },
    isVisible: () => true,
    async transactions(wanted) {
      hasNews = false
      const number = Number(wanted.number)
      return transactions.wanted({ ...wanted, type: 'want', request: 0, number })
    },
    hasNews: () => hasNews,
    giveBack: (hashes) => transactions.returned(hashes),
    async roots(parentStateRoot, diff) {
      const request = ++requested
      onResponses(persistence.handle({ type: 'preview', request, parentStateRoot, diff }))
      while (!previews.has(request)) onResponses(persistence.step())
      const roots = previews.get(request)
      previews.delete(request)
      return roots
    },
    journal,
    send(packet) {
      const decoded = decodePacket(packet)
      if (!('message' in decoded)) throw new Error('the sequencer sent what nobody can read')
      const { message } = decoded
      const received = { feed: 0, message, digest: checksum(packet), receivedAtMs: clock.ms }
      events.push({ type: 'packet', packet: received })
    },
    late: () => {},
    seal: (block: UpstreamBlock) => void events.push({ type: 'sealed', block }),
    reject(list) {
      throw new Error(`the sequencer refuses ${list[0]?.reason}`)
    },
    count: () => {},
  }
  const times = { blockTimeMs: BLOCK_TIME_MS, flashblockTimeMs: FLASHBLOCK_TIME_MS }
  const sequencer = createSequencer(
    { chain, engine: referenceEngine, ...times, form: 'xlayer', l1: L1_FEE_INPUTS },
    ports,
    journal.found,
  )
  take(effects)
  await settle()
  return {
    async step() {
      const { ms } = await sequencer.step()
      await settle()
      // The clock never passes a due time, because the sequencer requests a delay up to it.
      clock.ms += Math.max(1, ms)
    },
    submit(raw) {
      const result = transactions.service.submit(raw, OWN_CLIENT)
      if ('error' in result) throw new Error(result.error.message)
    },
    canonical() {
      const { view, release } = front.lease('flashblocks')
      const { number, hash } = view.canonical
      release()
      return { number: Number(number), hash }
    },
    chainId: chain.chainId,
  }
}
