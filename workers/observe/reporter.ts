/**
 * What should not happen is said in one way: a line of the log, and a count of its kind at /metrics, so that each leads to the other,
 * whichever thread it happens in. What a client or the chain may do is none of it, and is counted where it is handled.
 */
import type { Log } from './log.ts'

/** `error`: a bug of this node, or a part of it that has failed. `warn`: it goes on as before, and somebody should know. */
const KINDS = {
  answer_not_sent: ['error', 'an answer could not be sent'],
  bootstrap_failed: ['error', 'the thread that reads for new replicas has failed'],
  blocks_dropped: ['warn', 'dropped stored blocks whose state root was wrong'],
  call_failed: ['error', 'a call failed'],
  cell_replaced: ['warn', 'a cell ended and is replaced: its connections and filters are gone'],
  chain_halted: ['error', 'the chain does not go on'],
  client_not_named: [
    'warn',
    'a proxy of --proxy-protocol did not begin with a header of version 2: its connection is closed',
  ],
  contracts_damaged: ['warn', 'the contracts of the development chain were damaged: made anew'],
  engine_trapped: ['error', 'the engine failed, and the reference engine did its work'],
  engines_differ: ['error', 'the engines give different answers'],
  feed_doubt: ['warn', 'a feed is not as it should be'],
  feed_failed: ['error', 'the thread of a feed has failed, and is replaced'],
  front_stalled: ['warn', 'the front stood still'],
  journal_damaged: ['warn', 'a journal was damaged: damaged records are left out'],
  journal_mismatch: ['warn', 'the journal of the sequencer does not fit the chain'],
  keys_not_read: ['warn', 'the file of API keys was not read again: the keys are as they were'],
  limit_store_away: ['warn', 'the store of the limits does not answer: this process counts alone'],
  node_fails: ['error', 'the node cannot go on'],
  part_not_stopped: ['warn', 'a part did not stop as it should'],
  places_not_shared: [
    'warn',
    'the channel of --behind and --share-transactions does not answer: flashblocks are shown by what this node has',
  ],
  promise_broken: ['warn', 'a block that flashblocks had shown is replaced'],
  start_failed: ['error', 'the start failed'],
  state_begun: ['warn', 'the state begins anew'],
  transactions_not_shared: [
    'warn',
    'the stream of --share-transactions does not answer: the other replicas hear of what is sent here with its flashblock',
  ],
  transaction_refused: ['warn', 'the sequencer refused a transaction'],
  uncaught_error: ['error', 'an error that nothing handles'],
  upstream_doubt: ['warn', 'an upstream is not as it should be'],
  worker_failed: ['error', 'a pool thread failed'],
  worker_replaced: ['warn', 'a pool thread ended and is replaced'],
  writer_doubt: ['warn', 'the writer was told what it cannot use'],
} as const satisfies Readonly<Record<string, readonly ['warn' | 'error', string]>>

export type Mishap = keyof typeof KINDS
/** Plain data for the line; `reason` stands in its text. */
export type Details = Readonly<Record<string, unknown>> & { readonly reason?: string }
export type Report = (what: Mishap, details?: Details) => void

/** How often, a word for each kind: threads that report to the log themselves count here too. */
export type MishapCounts = Int32Array<SharedArrayBuffer>

export interface Reporter {
  readonly report: Report
  /** To be handed to threads that have a reporter of their own. */
  readonly shared: MishapCounts
  /** How often, of every kind. */
  counts(): Readonly<Record<Mishap, number>>
}

const NAMES = Object.keys(KINDS) as readonly Mishap[]

const newCounts = (): MishapCounts =>
  new Int32Array(new SharedArrayBuffer(NAMES.length * Int32Array.BYTES_PER_ELEMENT))

/** @param shared of the process; left out: none is there yet */
export function createReporter(
  log: Pick<Log, 'warn' | 'error'>,
  shared: MishapCounts = newCounts(),
): Reporter {
  return {
    report(what, { reason, ...details } = {}) {
      // First: a thread that ends may not get further.
      Atomics.add(shared, NAMES.indexOf(what), 1)
      const [level, text] = KINDS[what]
      log[level]({ ...details, what }, reason === undefined ? text : `${text}: ${reason}`)
    },
    shared,
    counts: () =>
      Object.fromEntries(NAMES.map((what, at) => [what, Atomics.load(shared, at)])) as Record<
        Mishap,
        number
      >,
  }
}

/** Why the process ends, for whoever started it. */
export const lastWords = (text: string): void => void process.stderr.write(`flashnode: ${text}\n`)
