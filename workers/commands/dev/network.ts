/**
 * The embedded network: the sequencer takes transactions from the pool, and its packets go to the
 * feed.
 * Flashblocks reach the writer directly, without passing this thread.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChainReader } from '../../../engine/chain/types.ts'
import { DEV_ACCOUNTS, DEV_MNEMONIC } from '../../../engine/chainspec/dev-accounts.ts'
import { DEV_BALANCE } from '../../../engine/chainspec/dev-genesis.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { socketData } from '../../../engine/flashblocks/codec.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { SignedEnvelope } from '../../../engine/primitives/transaction.ts'
import { envelopeOf } from '../../../engine/primitives/transaction-codec.ts'
import type { FlashblockPosition } from '../../../engine/sources/sequencer/types.ts'
import type { Limits } from '../../../rpc/core/limits.ts'
import { breakControls } from '../../../rpc/methods/development/breaks.ts'
import { chainControls } from '../../../rpc/methods/development/controls.ts'
import { depositMethod } from '../../../rpc/methods/development/deposit.ts'
import { dropMethods } from '../../../rpc/methods/development/drop.ts'
import { editControls } from '../../../rpc/methods/development/edits.ts'
import { impersonation } from '../../../rpc/methods/development/impersonation.ts'
import { snapshotControls } from '../../../rpc/methods/development/snapshots.ts'
import { version } from '../../config/config.ts'
import type { ConnectedSource, SourceParts } from '../../node/role.ts'
import type { NodeContext } from '../../process/context.ts'
import { isVisible } from '../../sequencer/newest-visible.ts'
import type { Inbox } from '../../thread/inbox.ts'
import type { FromSequencer, ToSequencer } from '../../thread/messages.ts'
import type { Thread } from '../../thread/thread.ts'
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
  // After a resume the chain counts as standing until the next block.
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
    state: () => ({ ...NO_PROBLEMS, isStanding: isStanding() }),
    canonicalMoved() {
      hasMoved = !controls.isPaused()
    },
  }
}

/**
 * Resolves when clients can read the flashblocks that were visible before the node was killed.
 * Blocks that were not durable are replayed from the sequencer's journal. On a new chain it waits
 * for the first flashblock, so that a ready node has more than the genesis.
 */
async function start(network: Network, request: OpenRequests): Promise<void> {
  const { thread, transactions } = network
  const replayed = Promise.withResolvers<FlashblockPosition | undefined>()
  network.inbox.open((message) => {
    if (message.type === 'ready') replayed.resolve(message.newest)
    else onSequencer(message, network, request)
  })
  transactions.onNews(() => thread.post({ type: 'news' }))
  notifyExpected(network)
  thread.post({ type: 'start' })
  const timeout = sleep(REPLAY_MS, undefined, { ref: false })
  const newest = await Promise.race([replayed.promise, timeout])
  if (newest !== undefined) await published(network.reader, newest)
}

const dropped = (hash: Bytes) => ({ hash, reason: 'it was dropped', isUnwanted: true })

const NO_PROBLEMS = { degraded: [], unready: [], details: {} }

type Message = Exclude<FromSequencer, { readonly type: 'ready' }>

type OpenRequests = { readonly deposits: Deposits; readonly controls: Controls }

function onSequencer(
  message: Message,
  network: Network,
  { deposits, controls }: OpenRequests,
): void {
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
      network.feed.broadcast(socketData(message.packet), message.messageId)
      return
    case 'deposited':
      deposits.respond(message.deposited)
      return
    case 'controlled':
      controls.respond(message.response)
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

/**
 * Notifies the writer of accepted transactions once a turn of the event loop, after their senders
 * are answered.
 */
function notifyExpected({ transactions, writer }: SourceParts): void {
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

/** A longer replay continues while the node serves. */
const REPLAY_MS = 3_000
const CHECK_MS = 5

async function published(reader: ChainReader, position: FlashblockPosition): Promise<void> {
  const until = performance.now() + REPLAY_MS
  while (performance.now() < until && !isVisible(reader, position)) await sleep(CHECK_MS)
}

/** Public chains: a transaction that is signed here for one of these ids is valid there. */
const REAL_CHAINS: ReadonlyMap<bigint, string> = new Map([
  [196n, 'X Layer'],
  [1952n, 'X Layer testnet'],
  [10n, 'OP Mainnet'],
  [11155420n, 'OP Sepolia'],
])

/** Text for the start: the accounts, and a warning about them. */
export function banner(chain: ChainSpec, version: string): string {
  const accounts = DEV_ACCOUNTS.flatMap(({ address, privateKey }, index) => [
    `  (${index}) ${address}`,
    `      ${privateKey}`,
  ])
  const real = REAL_CHAINS.get(chain.chainId)
  const warning =
    real === undefined
      ? []
      : [
          `WARNING: chain id ${chain.chainId} is that of ${real}: a transaction signed here with a real key is valid there.`,
          'Use these accounts only, or another --chain-id.',
          '',
        ]
  return [
    `flashnode ${version}: a local development network with the rules of ${chain.name}`,
    '',
    `Accounts of the mnemonic "${DEV_MNEMONIC}", with ${DEV_BALANCE.toLocaleString('en')} tokens each:`,
    ...accounts,
    '',
    'WARNING: these keys are public. On a real network, anything sent to them is lost.',
    ...warning,
    '',
  ].join('\n')
}
