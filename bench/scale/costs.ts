/**
 * Costs for the model of many replicas. Measured values name the line of their table; the others
 * are marked as guesses.
 */

/** `page` has a line that contains both `line` and `text`. */
export type Measured = {
  readonly page: string
  readonly line: string
  readonly text: string
  readonly command: string
}
export type Measurement = {
  readonly value: number
  /** undefined marks a guess of the right magnitude. */
  readonly measured?: Measured
}

const BENCH = 'npm run bench -- --rounds 2 --seconds 3'
const measured = (value: number, row: string, text: string, command: string): Measurement => ({
  value,
  measured: { page: 'bench/README.md', line: `| ${row} |`, text, command },
})
/** Converts a table's responses per CPU-second to µs. */
const perCpuSecond = (row: string, text: string, command: string): Measurement =>
  measured(1e6 / Number(text.replaceAll(',', '')), row, text, command)
const of = (row: string, text: string, command: string): Measurement =>
  measured(Number(text), row, text, command)
const guess = (value: number): Measurement => ({ value })

/** µs of processor time of the whole node for a response. */
export const REQUEST_MICROS = {
  read: perCpuSecond('eth_getBalance', '23,473', BENCH),
  call: perCpuSecond(
    'eth_call quote over 3 hops, never the same',
    '8,407',
    `${BENCH} --only "never the same"`,
  ),
  estimate: perCpuSecond(
    'eth_estimateGas ERC-20 transfer, never the same',
    '6,841',
    `${BENCH} --only "never the same"`,
  ),
  receipt: perCpuSecond('eth_getTransactionReceipt', '3,830', 'npm run bench:history'),
  logs: perCpuSecond('address and one of 3 topics, 3 %: 30 logs', '9,430', 'npm run bench:logs'),
  send: perCpuSecond('eth_sendRawTransaction, transfer', '1,724', BENCH),
  trace: perCpuSecond('debug_traceTransaction callTracer', '141', BENCH),
} as const satisfies Readonly<Record<string, Measurement>>
export type RequestClass = keyof typeof REQUEST_MICROS

/**
 * Shares of the requests, which add up to 1. They describe no real load: replace them by your own.
 */
export const MIX: Readonly<Record<RequestClass, number>> = {
  read: 0.68,
  call: 0.2,
  estimate: 0.01,
  receipt: 0.07,
  logs: 0.038,
  send: 0.001,
  trace: 0.001,
}

export const COSTS = {
  /** Processor time in ms of a node that executes a flashblock of 200 swaps over 3 hops. */
  executedFlashblockMs: of('follower', '45.8', 'npm run bench:flashblock'),
  /** µs of a front thread for a request that needs no other thread. */
  frontMicros: of('eth_chainId, HTTP', '10.8', 'npm run bench:front -- --rounds 3 --seconds 2'),
  /** Bytes of a compressed frame of the plain feed. */
  frameBytes: guess(40_000),
  /** µs of Redis' one thread for a charge of the limiter (ADR 45). */
  redisChargeMicros: of('HAProxy and 3', '11.7', 'npm run bench:scale'),
  /** µs of Redis' thread to append a transaction (ADR 53), and for each reader that takes it. */
  redisAppendMicros: guess(10),
  redisReadMicros: guess(2),
  /** µs of a HAProxy core for a request and its response over persistent connections. */
  balancerMicros: of('HAProxy and 3', '20.5', 'npm run bench:scale'),
} as const satisfies Readonly<Record<string, Measurement>>
export type Costs = { readonly [K in keyof typeof COSTS]: number }

export const costsOf = (): Costs =>
  Object.fromEntries(Object.entries(COSTS).map(([name, { value }]) => [name, value])) as Costs
