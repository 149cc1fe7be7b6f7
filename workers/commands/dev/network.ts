/** The embedded network: the sequencer gets its transactions from the pool, its packets go to the feed. The writer hears it without this thread. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChainReader } from '../../../engine/chain/types.ts'
import { socketData } from '../../../engine/flashblocks/codec.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { SignedEnvelope } from '../../../engine/primitives/transaction.ts'
import { envelopeOf } from '../../../engine/primitives/transaction-codec.ts'
import type { FlashblockPlace } from '../../../engine/sources/sequencer/types.ts'
import { breakControls } from '../../../rpc/methods/development/breaks.ts'
import { chainControls } from '../../../rpc/methods/development/controls.ts'
import { depositMethod } from '../../../rpc/methods/development/deposit.ts'
import { dropMethods } from '../../../rpc/methods/development/drop.ts'
import { editControls } from '../../../rpc/methods/development/edits.ts'
import { impersonation } from '../../../rpc/methods/development/impersonation.ts'
import { snapshotControls } from '../../../rpc/methods/development/snapshots.ts'
import type { Limits } from '../../../rpc/seam/limits.ts'
import { version } from '../../config/config.ts'
import type { ConnectedSource, SourceParts } from '../../node/role.ts'
import type { NodeContext } from '../../process/context.ts'
import { isShown } from '../../sequencer/shown-place.ts'
import type { Inbox } from '../../thread/inbox.ts'
import type { FromSequencer, ToSequencer } from '../../thread/messages.ts'
import type { Thread } from '../../thread/thread.ts'
import { banner } from './banner.ts'
import { type Controls, createControls } from './controls.ts'
import { createDeposits, type Deposits } from './deposits.ts'

type Network = SourceParts & {
  readonly thread: Thread<ToSequencer>
  readonly inbox: Inbox<FromSequencer>
  readonly blockTimeMs: number
  readonly limits: Pick<Limits, 'controlsWaiting' | 'depositsWaiting'>
  readonly context: Pick<NodeContext, 'log' | 'reporter'>
}

export function connectNetwork(network: Network): ConnectedSource {
  const deposits = createDeposits(network.thread, network.blockTimeMs, network.limits)
  const controls = createControls(network.thread, network.limits)
  // Once told to go on it stands until there is another block.
  let hasMoved = true
  const isStanding = () => {
    if (controls.isPaused()) hasMoved = false
    return !hasMoved
  }
  const impersonated = impersonation(deposits.send)
  return {
    impersonated: impersonated.service,
    methods: [
      depositMethod(deposits.send),
      ...chainControls(controls.send, () => !controls.isPaused()),
      ...breakControls(controls.send),
      ...editControls(controls.send),
      ...snapshotControls(controls.send),
      ...impersonated.methods,
      ...dropMethods((hash) => network.transactions.rejected({ transactions: [dropped(hash)] })),
    ],
    start: () => start(network, { deposits, controls }),
    banner: (chain) => banner(chain, version()),
    state: () => ({ ...NOTHING_TO_SAY, isStanding: isStanding() }),
    canonicalMoved() {
      hasMoved = !controls.isPaused()
    },
  }
}

/**
 * Resolves when what was shown before a kill can be read again: the flashblocks of blocks that were not durable come from the
 * sequencer's journal. And on a new chain when its first flashblock can be read, which is made up: nobody who was told that the node is
 * ready sees it come late, or a chain of a genesis alone.
 */
async function start(network: Network, asked: Asked): Promise<void> {
  const { thread, transactions } = network
  const replayed = Promise.withResolvers<FlashblockPlace | undefined>()
  network.inbox.open((message) => {
    if (message.type === 'ready') replayed.resolve(message.newest)
    else onSequencer(message, network, asked)
  })
  transactions.onNews(() => thread.post({ type: 'news' }))
  tellExpected(network)
  thread.post({ type: 'start' })
  const patience = sleep(REPLAY_MS, undefined, { ref: false })
  const newest = await Promise.race([replayed.promise, patience])
  if (newest !== undefined) await published(network.reader, newest)
}

const dropped = (hash: Bytes) => ({ hash, reason: 'it was dropped', isUnwanted: true })

const NOTHING_TO_SAY = { degraded: [], unready: [], details: {} }

type Message = Exclude<FromSequencer, { readonly type: 'ready' }>

/** What waits for the sequencer's answer. */
type Asked = { readonly deposits: Deposits; readonly controls: Controls }

function onSequencer(message: Message, network: Network, { deposits, controls }: Asked): void {
  const { transactions, metrics } = network
  const { log, reporter } = network.context
  switch (message.type) {
    case 'want':
      network.thread.post({
        type: 'transactions',
        request: message.request,
        ...transactions.wanted(message),
      })
      return
    case 'returned':
      transactions.returned(message.transactions)
      return
    case 'packet':
      network.feed.broadcast(socketData(message.packet), message.place)
      return
    case 'deposited':
      deposits.answer(message.deposited)
      return
    case 'controlled':
      controls.answer(message.answer)
      return
    case 'late':
      metrics.late(message.ms)
      return
    case 'rejected':
      transactions.rejected(message)
      for (const { hash, reason, isUnwanted } of message.transactions)
        if (isUnwanted !== true)
          reporter.report('transaction_refused', { hash: bytesToHex(hash), reason })
      return
    case 'count':
      metrics.count(message.what, 1)
      if (message.what === 'journal_mismatch')
        reporter.report(message.what, { reason: message.message })
      else if (message.what === 'long_transaction')
        log.info({ what: message.what }, message.message)
      else log.debug({ what: message.what }, message.message)
      return
    case 'trapped':
      reporter.report('engine_trapped', { reason: message.reason })
      return
    case 'failed':
      network.failing(message.message)
      return
    case 'stopped':
      return
  }
}

/** The writer hears of what the pool accepts, once a turn of the event loop: whoever sent it is answered first. */
function tellExpected({ transactions, writer }: SourceParts): void {
  let accepted: SignedEnvelope[] = []
  transactions.service.onPending((_, transaction) => {
    accepted.push(envelopeOf(transaction))
    if (accepted.length > 1) return
    setImmediate(() => {
      writer.post({ type: 'expected', transactions: accepted })
      accepted = []
    })
  })
}

/** What takes longer goes on while the node serves. */
const REPLAY_MS = 3_000
const LOOK_MS = 5

/** Waits until the pending head is this flashblock or a later one. */
async function published(reader: ChainReader, place: FlashblockPlace): Promise<void> {
  const until = performance.now() + REPLAY_MS
  while (performance.now() < until && !isShown(reader, place)) await sleep(LOOK_MS)
}
