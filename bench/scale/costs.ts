/** What the model of many replicas counts with. A measured figure names the line it stands in; the others say that nobody has measured them here. */

/** `text` stands in a line of `page` that has `line` too. */
export type Measured = {
  readonly page: string
  readonly line: string
  readonly text: string
  readonly command: string
}
export type Figure = {
  readonly value: number
  /** undefined: a guess of the right size, which the result must be read with. */
  readonly measured?: Measured
}

const BENCH = 'npm run bench -- --rounds 2 --seconds 3'
const measured = (value: number, row: string, text: string, command: string): Figure => ({
  value,
  measured: { page: 'bench/README.md', line: `| ${row} |`, text, command },
})
/** µs, of a table's answers for a CPU-second. */
const perCpuSecond = (row: string, text: string, command: string): Figure =>
  measured(1e6 / Number(text.replaceAll(',', '')), row, text, command)
const of = (row: string, text: string, command: string): Figure =>
  measured(Number(text), row, text, command)
const guess = (value: number): Figure => ({ value })

/** µs of processor time of the whole node for an answer. */
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
} as const satisfies Readonly<Record<string, Figure>>
export type RequestClass = keyof typeof REQUEST_MICROS

/** Shares of the requests, 1 together. Nobody's load: put your own in its place. */
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
  /** ms of processor time of a node for a flashblock of 200 swaps over 3 hops that it executes. */
  executedFlashblockMs: of('follower', '45.8', 'npm run bench:flashblock'),
  /** µs of a front thread for a request: one that needs nothing else. */
  frontMicros: of('eth_chainId, HTTP', '10.8', 'npm run bench:front -- --rounds 3 --seconds 2'),
  /** Bytes of a frame of the plain feed, compressed. */
  frameBytes: guess(40_000),
  /** µs of Redis' one thread for a question of the limiter (ADR 45: one for each charge). */
  redisChargeMicros: of('HAProxy and 3', '11.7', 'npm run bench:scale'),
  /** µs of that thread to append a transaction (ADR 53), and for each reader that takes it. */
  redisAppendMicros: guess(10),
  redisReadMicros: guess(2),
  /** µs of a core of HAProxy for a request and its answer over kept connections. */
  balancerMicros: of('HAProxy and 3', '20.5', 'npm run bench:scale'),
} as const satisfies Readonly<Record<string, Figure>>
export type Costs = { readonly [K in keyof typeof COSTS]: number }

export const costsOf = (): Costs =>
  Object.fromEntries(Object.entries(COSTS).map(([name, { value }]) => [name, value])) as Costs
