/**
 * Every limit of the RPC side in one place: name, default, unit. Each is a flag `--limit-<name>` (workers/config/options.ts), and seen acting by a
 * test (test/node/limits).
 */
export type LimitDefinition = {
  readonly value: number
  readonly unit: 'bytes' | 'ms' | 'items' | 'gas' | 'blocks'
  readonly text: string
  /** Smallest value; where it is 0, that means none or off. */
  readonly least: 0 | 1
}
const limit = (
  value: number,
  unit: LimitDefinition['unit'],
  text: string,
  least: 0 | 1 = unit === 'items' || unit === 'blocks' ? 0 : 1,
): LimitDefinition => ({ value, unit, text, least })

export const LIMITS = {
  bodyBytes: limit(2_000_000, 'bytes', 'request body, HTTP and WebSocket'),
  bodiesBytes: limit(128 * 1024 * 1024, 'bytes', 'bodies and messages being received, of all'),
  bodiesBytesPerClient: limit(
    16 * 1024 * 1024,
    'bytes',
    'bodies and messages being received, of one address',
  ),
  bodyPieces: limit(512, 'items', 'pieces of an HTTP body, beside one for each kilobyte of it'),
  cutOffMs: limit(5_000, 'ms', 'an address that sent a body in too many pieces gets no socket'),
  jsonDepth: limit(64, 'items', 'nesting of a request'),
  objectKeys: limit(64, 'items', 'keys of one object in a request'),
  jsonValues: limit(50_000, 'items', 'lists, objects and their entries in a request'),
  jsonKeyCharacters: limit(256, 'items', 'characters of a key in a request'),
  jsonNumberCharacters: limit(64, 'items', 'characters of a number in a request'),
  jsonTextCharacters: limit(65_536, 'items', 'characters of a string in a request'),
  jsonHexCharacters: limit(2_097_154, 'items', 'characters of a string that begins with 0x'),
  idCharacters: limit(128, 'items', 'characters of the id of a request'),
  methodCharacters: limit(128, 'items', 'characters of the name of a method'),
  batchItems: limit(100, 'items', 'calls in one batch'),
  batchResponseBytes: limit(25_000_000, 'bytes', 'all answers of one batch'),
  responseBytes: limit(25_000_000, 'bytes', 'one answer'),
  callGas: limit(50_000_000, 'gas', 'gas of eth_call and eth_estimateGas'),
  callMs: limit(5_000, 'ms', 'eth_call and eth_estimateGas, time in the queue included'),
  traceMs: limit(10_000, 'ms', 'debug_trace*, time in the queue included'),
  traceSteps: limit(
    5_000_000,
    'items',
    'steps, touches and frames that the tracers of one request look at',
  ),
  logsMs: limit(10_000, 'ms', 'eth_getLogs, time in the queue included'),
  sidecarMs: limit(10_000, 'ms', 'proofs of a blob transaction, time in the queue included'),
  graceMs: limit(1_000, 'ms', 'after a deadline, before a worker is ended'),
  evmMemoryBytes: limit(64 * 1024 * 1024, 'bytes', 'memory of an EVM frame'),
  callQueue: limit(2_000, 'items', 'calls that may wait for a worker'),
  callQueueBytes: limit(
    32 * 1024 * 1024,
    'bytes',
    'parameters of calls that wait for a worker or run, of all kinds',
  ),
  traceQueue: limit(50, 'items', 'traces that may wait'),
  logsQueue: limit(100, 'items', 'log queries that may wait'),
  sidecarQueue: limit(16, 'items', 'blob transactions whose proofs may wait'),
  overrideItems: limit(10_000, 'items', 'accounts and slots of a state override'),
  storageSlots: limit(1_024, 'items', 'slots of one eth_getStorageValues or eth_getProof'),
  simulatedCalls: limit(1_000, 'items', 'calls of one eth_simulateV1'),
  proofBlocks: limit(128, 'blocks', 'below the newest folded block, for eth_getProof'),
  proofBytes: limit(64 * 1024 * 1024, 'bytes', 'trie nodes put back in memory for eth_getProof'),
  logsResults: limit(10_000, 'items', 'logs of one answer'),
  logsBlocks: limit(10_000, 'blocks', 'range of a log query without an address'),
  logsBlocksFiltered: limit(100_000, 'blocks', 'range of a log query with an address'),
  logsReads: limit(500_000, 'items', 'receipts that one log query reads'),
  logsAddresses: limit(1_000, 'items', 'addresses of a log query'),
  logsTopics: limit(1_000, 'items', 'alternatives at one topic position'),
  feeHistoryBlocks: limit(1_024, 'blocks', 'blocks of eth_feeHistory'),
  feeHistoryPercentiles: limit(100, 'items', 'percentiles of eth_feeHistory'),
  filtersPerClient: limit(100, 'items', 'filters of one address'),
  filtersTotal: limit(10_000, 'items', 'filters of all'),
  filterItems: limit(10_000, 'items', 'unread entries of one filter'),
  filterBytes: limit(64 * 1024 * 1024, 'bytes', 'unread entries and queries of all filters'),
  filterIdleMs: limit(300_000, 'ms', 'a filter nobody polls'),
  connectionsPerClient: limit(50, 'items', 'WebSocket connections of one address'),
  connectionsTotal: limit(2_000, 'items', 'WebSocket connections of all'),
  subscriptionsPerConnection: limit(128, 'items', 'subscriptions of one connection'),
  sendQueueBytes: limit(4_000_000, 'bytes', 'unsent messages of one WebSocket before it is closed'),
  sendAnswersBytes: limit(
    100_000_000,
    'bytes',
    'large answers that wait for another one on their WebSocket before it is closed',
  ),
  pingMs: limit(15_000, 'ms', 'between pings'),
  pongMs: limit(10_000, 'ms', 'for the answer to a ping'),
  holdsPerClient: limit(64, 'items', 'receipt holds of one address'),
  holdsTotal: limit(5_000, 'items', 'receipt holds of all'),
  shownHoldMs: limit(
    1_500,
    'ms',
    'a read of latest after a preconfirmed receipt, for that block to be complete; 0 is off',
    0,
  ),
  announcedHoldMs: limit(
    300,
    'ms',
    'a filter poll, for the announced height to be canonical; 0 is off',
    0,
  ),
  shownClients: limit(10_000, 'items', 'addresses with preconfirmed receipts in mind'),
  shownAddresses: limit(64, 'items', 'accounts of preconfirmed receipts kept for one address'),
  syncSendMs: limit(6_000, 'ms', 'default and longest wait of eth_sendRawTransactionSync'),
  syncSendsPerClient: limit(64, 'items', 'waiting eth_sendRawTransactionSync of one address'),
  syncSendsTotal: limit(2_000, 'items', 'waiting eth_sendRawTransactionSync of all'),
  transactionBytes: limit(131_072, 'bytes', 'a raw transaction, without its blobs'),
  blobTransactionBytes: limit(1_048_576, 'bytes', 'a raw transaction with its blobs'),
  limiterKeys: limit(100_000, 'items', 'addresses the limiter knows before the shared bucket'),
  feedSubscribers: limit(256, 'items', 'subscribers of /feed'),
  feedQueueBytes: limit(
    8_000_000,
    'bytes',
    'unsent bytes of a feed subscriber before it is closed',
  ),
  sockets: limit(10_000, 'items', 'open sockets, HTTP and WebSocket'),
  socketsPerClient: limit(256, 'items', 'open sockets of one address; 0 = off'),
  requestsPerSocket: limit(10_000, 'items', 'requests before an HTTP connection is closed'),
  requestsInFlight: limit(
    128,
    'items',
    'unanswered requests of one HTTP connection before it is closed',
  ),
  requestsPerTurn: limit(
    4,
    'items',
    'requests of one HTTP connection that are taken in one turn of the event loop',
  ),
  messagesInFlight: limit(
    128,
    'items',
    'unanswered messages of one WebSocket before reading stops',
  ),
  messagesWaiting: limit(
    2_048,
    'items',
    'messages that a WebSocket has sent beyond those before it is closed',
  ),
  messageFragments: limit(128, 'items', 'fragments of one message before its WebSocket is closed'),
  messageChunks: limit(
    4_096,
    'items',
    'pieces of an unfinished message, as the network brings them, before its WebSocket is closed',
  ),
  controlFrames: limit(
    100,
    'items',
    'pings and pongs of one WebSocket in a second before it is closed',
  ),
  unreadBytes: limit(65_536, 'bytes', 'unread answers of one WebSocket before reading stops'),
  headersMs: limit(10_000, 'ms', 'for the headers of an HTTP request'),
  requestMs: limit(30_000, 'ms', 'for a whole HTTP request'),
  unsentMs: limit(30_000, 'ms', 'for a client to take an answer'),
  unsentBytes: limit(512 * 1024 * 1024, 'bytes', 'answers that clients have not taken yet'),
  keepAliveMs: limit(65_000, 'ms', 'an idle HTTP connection'),
  legacyMs: limit(30_000, 'ms', 'a call of the legacy chain'),
  legacyResponseBytes: limit(8_000_000, 'bytes', 'one answer of the legacy chain'),
  legacyCallsPerClient: limit(100, 'items', 'calls of the legacy chain at a time, for one address'),
  legacyCallsTotal: limit(500, 'items', 'calls of the legacy chain at a time, for all'),
  resultCacheItems: limit(10_000, 'items', 'results kept by the front'),
  resultCacheBytes: limit(64 * 1024 * 1024, 'bytes', 'results kept by the front'),
} as const satisfies Record<string, LimitDefinition>

export type Limits = { readonly [K in keyof typeof LIMITS]: number }

export const DEFAULT_LIMITS: Limits = Object.fromEntries(
  Object.entries(LIMITS).map(([name, { value }]) => [name, value]),
) as Limits
