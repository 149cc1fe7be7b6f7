/**
 * Every incident, in any thread, has a log line and a count at /metrics; each leads to the other.
 * Faults of clients or of the chain are no incidents, and are counted where they are handled.
 */
import type { Log } from './log.ts'

/**
 * `error` is a bug or a failed part of this node. `warn` means that the node continues and an
 * operator should know.
 */
const KINDS = {
  answer_not_sent: ['error', 'an answer could not be sent'],
  bootstrap_failed: ['error', 'the thread that serves copies of the state to new replicas failed'],
  blocks_dropped: ['warn', 'dropped stored blocks that had a wrong state root'],
  call_failed: ['error', 'a call failed'],
  cell_replaced: [
    'warn',
    'a front thread ended and is replaced: its connections and filters are lost',
  ],
  chain_halted: ['error', 'the canonical chain does not advance'],
  client_not_named: [
    'warn',
    'a proxy of --proxy-protocol sent no PROXY header of version 2: its connection is closed',
  ],
  contracts_damaged: [
    'warn',
    'the contracts of the development chain were damaged: they are written again',
  ],
  engine_trapped: ['error', 'the engine failed, and the reference engine took over its work'],
  engines_differ: ['error', 'the engines have different results'],
  feed_doubt: ['warn', 'a feed has a problem'],
  feed_failed: ['error', 'the thread of a feed failed, and is replaced'],
  front_stalled: ['warn', 'the event loop of the front was blocked'],
  journal_damaged: ['warn', 'a journal was damaged: damaged records are left out'],
  journal_mismatch: ['warn', 'the journal of the sequencer does not match the chain'],
  keys_not_read: ['warn', 'the file of API keys cannot be read again: the old keys stay valid'],
  limit_store_away: ['warn', 'the limit store does not answer: this process counts alone'],
  node_fails: ['error', 'the node failed, and stops'],
  part_not_stopped: ['warn', 'a part failed or took too long to stop'],
  places_not_shared: [
    'warn',
    'the Redis channel of --flashblock-lag and --share-transactions does not answer: only the flashblocks of this node decide what is visible',
  ],
  promise_broken: ['warn', 'the canonical block differs from the one that flashblocks promised'],
  start_failed: ['error', 'the start failed'],
  state_begun: ['warn', 'the lazy state is resynced'],
  transactions_not_shared: [
    'warn',
    'the Redis stream of --share-transactions does not answer: other replicas see transactions of this node only with their flashblock',
  ],
  transaction_refused: ['warn', 'the sequencer refused a transaction'],
  uncaught_error: ['error', 'an unexpected error'],
  upstream_doubt: ['warn', 'an upstream has a problem'],
  worker_failed: ['error', 'a pool thread failed'],
  worker_replaced: ['warn', 'a pool thread ended and is replaced'],
  writer_doubt: ['warn', 'the writer has a problem with its input'],
} as const satisfies Readonly<Record<string, readonly ['warn' | 'error', string]>>

export type Incident = keyof typeof KINDS
/** Plain data for the line; `reason` is appended to its text. */
export type Details = Readonly<Record<string, unknown>> & { readonly reason?: string }
export type Report = (what: Incident, details?: Details) => void

/** Counts of each kind of incident, shared with threads that report on their own. */
export type IncidentCounts = Int32Array<SharedArrayBuffer>

export interface Reporter {
  readonly report: Report
  /** Memory for threads that have their own reporter. */
  readonly shared: IncidentCounts
  counts(): Readonly<Record<Incident, number>>
}

const NAMES = Object.keys(KINDS) as readonly Incident[]

const newCounts = (): IncidentCounts =>
  new Int32Array(new SharedArrayBuffer(NAMES.length * Int32Array.BYTES_PER_ELEMENT))

/**
 * Creates a reporter.
 * @param shared counts of the process; left out, new ones are created
 */
export function createReporter(
  log: Pick<Log, 'warn' | 'error'>,
  shared: IncidentCounts = newCounts(),
): Reporter {
  return {
    report(what, { reason, ...details } = {}) {
      // The count comes first, because an ending thread may not get further.
      Atomics.add(shared, NAMES.indexOf(what), 1)
      const [level, text] = KINDS[what]
      log[level]({ ...details, what }, reason === undefined ? text : `${text}: ${reason}`)
    },
    shared,
    counts: () =>
      Object.fromEntries(NAMES.map((what, at) => [what, Atomics.load(shared, at)])) as Record<
        Incident,
        number
      >,
  }
}

/** Writes the reason why the process ends, for the person who started it. */
export const lastWords = (text: string): void => void process.stderr.write(`flashnode: ${text}\n`)
