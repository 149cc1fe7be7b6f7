/**
 * Limits of the RPC side that an operator may set: name, default and unit. Each limit is a flag
 * `--limit-<name>` (workers/config/options.ts) and has a test in test/node/limits. Bounds that
 * operators do not set are constants beside their use.
 */
export type LimitDefinition = {
  readonly value: number
  readonly unit: 'bytes' | 'ms' | 'items' | 'gas' | 'blocks'
  readonly text: string
  /** Smallest allowed value. If the minimum is 0, the value 0 means none or off. */
  readonly min: 0 | 1
}
const limit = (
  value: number,
  unit: LimitDefinition['unit'],
  text: string,
  min: 0 | 1 = unit === 'items' || unit === 'blocks' ? 0 : 1,
): LimitDefinition => ({ value, unit, text, min })

export const LIMITS = {
  bodyBytes: limit(2_000_000, 'bytes', 'request body, HTTP and WebSocket'),
  bodiesBytes: limit(
    128 * 1024 * 1024,
    'bytes',
    'bodies and messages that are being received, all clients together',
  ),
  bodiesBytesPerClient: limit(
    16 * 1024 * 1024,
    'bytes',
    'bodies and messages that are being received, for one address',
  ),
  bodyPieces: limit(512, 'items', 'pieces of an HTTP body, plus one for each kilobyte of it'),
  cutOffMs: limit(
    5_000,
    'ms',
    'an address that sends two bodies in too many pieces within this time cannot connect for as long',
  ),
  jsonDepth: limit(64, 'items', 'nesting depth of a request'),
  objectKeys: limit(64, 'items', 'keys of one object in a request'),
  jsonValues: limit(50_000, 'items', 'lists, objects and their entries in a request'),
  jsonKeyCharacters: limit(256, 'items', 'characters of a key in a request'),
  jsonNumberCharacters: limit(64, 'items', 'characters of a number in a request'),
  jsonTextCharacters: limit(65_536, 'items', 'characters of a string in a request'),
  jsonHexCharacters: limit(2_097_154, 'items', 'characters of a string that starts with 0x'),
  idCharacters: limit(128, 'items', 'characters of the id of a request'),
  methodCharacters: limit(128, 'items', 'characters of the name of a method'),
  batchItems: limit(100, 'items', 'calls in one batch'),
  batchResponseBytes: limit(25_000_000, 'bytes', 'all responses of one batch together'),
  responseBytes: limit(25_000_000, 'bytes', 'one response'),
  callGas: limit(50_000_000, 'gas', 'gas of eth_call and eth_estimateGas'),
  callMs: limit(5_000, 'ms', 'time of eth_call and eth_estimateGas, including the queue'),
  traceMs: limit(10_000, 'ms', 'time of debug_trace*, including the queue'),
  traceSteps: limit(
    5_000_000,
    'items',
    'steps, touches and frames that the tracers of one request process',
  ),
  logsMs: limit(10_000, 'ms', 'time of eth_getLogs, including the queue'),
  sidecarMs: limit(
    10_000,
    'ms',
    'time to check the proofs of a blob transaction, including the queue',
  ),
  graceMs: limit(1_000, 'ms', 'time after a deadline before the node ends the worker'),
  evmMemoryBytes: limit(64 * 1024 * 1024, 'bytes', 'memory of one EVM frame'),
  callQueue: limit(2_000, 'items', 'calls that may wait for a worker'),
  callQueueBytes: limit(
    32 * 1024 * 1024,
    'bytes',
    'parameters of all calls that wait for a worker or run',
  ),
  traceQueue: limit(50, 'items', 'traces that may wait for a worker'),
  logsQueue: limit(100, 'items', 'log queries that may wait for a worker'),
  sidecarQueue: limit(16, 'items', 'blob transactions that may wait for the check of their proofs'),
  overrideItems: limit(10_000, 'items', 'accounts and slots of a state override'),
  accessListItems: limit(
    10_000,
    'items',
    'addresses of an access list, and storage keys of each address',
  ),
  storageSlots: limit(1_024, 'items', 'slots of one eth_getStorageValues or eth_getProof'),
  simulatedCalls: limit(1_000, 'items', 'calls of one eth_simulateV1'),
  proofBlocks: limit(
    128,
    'blocks',
    'blocks below the newest persisted block for which eth_getProof works',
  ),
  proofBytes: limit(
    64 * 1024 * 1024,
    'bytes',
    'memory for the trie nodes that one eth_getProof restores to an older block',
  ),
  logsResults: limit(10_000, 'items', 'logs of one response'),
  logsBlocks: limit(10_000, 'blocks', 'range of a log query without an address'),
  logsBlocksFiltered: limit(100_000, 'blocks', 'range of a log query with an address'),
  logsReads: limit(500_000, 'items', 'receipts that one log query reads'),
  logsAddresses: limit(1_000, 'items', 'addresses of a log query'),
  logsTopics: limit(1_000, 'items', 'alternatives at one topic position'),
  feeHistoryBlocks: limit(1_024, 'blocks', 'blocks of eth_feeHistory'),
  feeHistoryPercentiles: limit(100, 'items', 'percentiles of eth_feeHistory'),
  filtersPerClient: limit(100, 'items', 'filters of one address'),
  filtersTotal: limit(10_000, 'items', 'filters of all addresses together'),
  filterItems: limit(10_000, 'items', 'unread entries of one filter'),
  filterBytes: limit(64 * 1024 * 1024, 'bytes', 'unread entries and queries of all filters'),
  filterIdleMs: limit(300_000, 'ms', 'time without a poll before a filter is removed'),
  connectionsPerClient: limit(50, 'items', 'WebSocket connections of one address'),
  connectionsTotal: limit(2_000, 'items', 'WebSocket connections of all addresses together'),
  subscriptionsPerConnection: limit(128, 'items', 'subscriptions of one connection'),
  subscribeAddresses: limit(1_000, 'items', 'addresses of one subscription to flashblocks'),
  subscribeHashes: limit(200, 'items', 'transactions of one subscription to receipts'),
  replayFlashblocks: limit(
    512,
    'items',
    'flashblocks that are buffered for subscribers that reconnect',
  ),
  replayBytes: limit(
    64 * 1024 * 1024,
    'bytes',
    'approximate memory of the flashblocks that are buffered for subscribers that reconnect',
  ),
  sendQueueBytes: limit(4_000_000, 'bytes', 'unsent messages of one WebSocket before it is closed'),
  sendAnswersBytes: limit(
    100_000_000,
    'bytes',
    'large responses that wait behind another one before their WebSocket is closed',
  ),
  pingMs: limit(15_000, 'ms', 'time between two pings of a WebSocket'),
  pongMs: limit(10_000, 'ms', 'time for the response to a ping'),
  holdsPerClient: limit(64, 'items', 'receipt holds of one address'),
  holdsTotal: limit(5_000, 'items', 'receipt holds of all addresses together'),
  shownHoldMs: limit(
    1_500,
    'ms',
    'time that a read of latest waits until the block of a preconfirmed receipt is complete; 0 is off',
    0,
  ),
  announcedHoldMs: limit(
    300,
    'ms',
    'time that a filter poll waits until the announced height is canonical; 0 is off',
    0,
  ),
  shownClients: limit(10_000, 'items', 'addresses whose preconfirmed receipts the node remembers'),
  shownAddresses: limit(
    64,
    'items',
    'accounts of preconfirmed receipts that the node remembers for one address',
  ),
  placeWaitMs: limit(
    1_000,
    'ms',
    'time that a request with X-Min-Flashblock waits for that flashblock; 0 is off',
    0,
  ),
  placeWaitsPerClient: limit(64, 'items', 'requests of one address that wait for a flashblock'),
  placeWaitsTotal: limit(
    5_000,
    'items',
    'requests of all addresses together that wait for a flashblock',
  ),
  syncSendMs: limit(6_000, 'ms', 'default and maximum wait of eth_sendRawTransactionSync'),
  syncSendsPerClient: limit(
    64,
    'items',
    'waiting calls of eth_sendRawTransactionSync, for one address',
  ),
  syncSendsTotal: limit(
    2_000,
    'items',
    'waiting calls of eth_sendRawTransactionSync, for all addresses together',
  ),
  transactionBytes: limit(131_072, 'bytes', 'a raw transaction, without its blobs'),
  blobTransactionBytes: limit(1_048_576, 'bytes', 'a raw transaction with its blobs'),
  limiterKeys: limit(
    100_000,
    'items',
    'addresses with their own bucket in the rate limiter; further ones share one bucket',
  ),
  feedSubscribers: limit(256, 'items', 'subscribers of /feed'),
  feedQueueBytes: limit(
    8_000_000,
    'bytes',
    'unsent bytes of a feed subscriber before it is closed',
  ),
  feedHeldFrames: limit(
    1_024,
    'items',
    'newest messages of /feed that are buffered for readers that ask with since',
  ),
  feedHeldBytes: limit(
    4_000_000,
    'bytes',
    'bytes of the newest messages of /feed that are buffered for readers that ask with since',
  ),
  feedEnrichedBytes: limit(
    6_000_000,
    'bytes',
    'newest messages of /feed?enrich=1 that are buffered for readers that ask with since; 0 is off',
    0,
  ),
  bootstraps: limit(1, 'items', 'new replicas that copy the state of this node at a time'),
  bootstrapIdleMs: limit(
    30_000,
    'ms',
    'time without a request of a copy before another copy may start',
  ),
  bootstrapChunkBytes: limit(
    1_048_576,
    'bytes',
    'approximate size of the rows in one response to a copy',
  ),
  bootstrapBytesPerSecond: limit(
    64 * 1024 * 1024,
    'bytes',
    'rows sent to all copies in a second, before compression',
  ),
  sockets: limit(10_000, 'items', 'open sockets, HTTP and WebSocket'),
  socketsPerClient: limit(256, 'items', 'open sockets of one address; 0 = off'),
  refusedSocketsPerClient: limit(
    256,
    'items',
    'refused connections of one address that get a 503 in a second; further ones are closed on accept',
  ),
  refusedSocketsTotal: limit(
    1_024,
    'items',
    'refused connections of all addresses together that get a 503 in a second',
  ),
  requestsPerSocket: limit(10_000, 'items', 'requests before an HTTP connection is closed'),
  requestsInFlight: limit(
    128,
    'items',
    'unanswered requests of one HTTP connection before it is closed',
  ),
  requestsPerTurn: limit(
    4,
    'items',
    'requests of one HTTP connection that start in one turn of the event loop',
  ),
  messagesInFlight: limit(
    128,
    'items',
    'unanswered messages of one WebSocket before reading stops',
  ),
  messagesWaiting: limit(
    2_048,
    'items',
    'further messages that wait on one WebSocket before it is closed',
  ),
  messageFragments: limit(128, 'items', 'fragments of one message before its WebSocket is closed'),
  messageChunks: limit(
    4_096,
    'items',
    'network packets of an unfinished message before its WebSocket is closed',
  ),
  controlFrames: limit(
    100,
    'items',
    'pings and pongs of one WebSocket in a second before it is closed',
  ),
  unreadBytes: limit(65_536, 'bytes', 'unread responses of one WebSocket before reading stops'),
  headersMs: limit(10_000, 'ms', 'time to receive the headers of an HTTP request'),
  requestMs: limit(30_000, 'ms', 'time to receive a complete HTTP request'),
  unsentMs: limit(30_000, 'ms', 'time for a client to receive a response'),
  unsentBytes: limit(512 * 1024 * 1024, 'bytes', 'responses that clients have not received yet'),
  compressFromBytes: limit(
    16_384,
    'bytes',
    'smallest HTTP response that is compressed for clients that ask for it; 0 is off',
    0,
  ),
  compressingBytes: limit(
    64 * 1024 * 1024,
    'bytes',
    'responses that are being compressed or wait for it; further ones are sent uncompressed',
  ),
  keepAliveMs: limit(65_000, 'ms', 'time before an idle HTTP connection is closed'),
  legacyMs: limit(30_000, 'ms', 'time of a call to the older chain (--legacy-rpc)'),
  legacyResponseBytes: limit(8_000_000, 'bytes', 'one response of the older chain'),
  legacyCallsPerClient: limit(100, 'items', 'concurrent calls to the older chain, for one address'),
  legacyCallsTotal: limit(
    500,
    'items',
    'concurrent calls to the older chain, for all addresses together',
  ),
  forwardMs: limit(
    10_000,
    'ms',
    'time of a call that the upstream answers for a node with lazy state',
  ),
  forwardsPerClient: limit(100, 'items', 'concurrent calls to the upstream, for one address'),
  forwardsTotal: limit(
    500,
    'items',
    'concurrent calls to the upstream, for all addresses together',
  ),
  sequencerMs: limit(
    5_000,
    'ms',
    'time for the response of the sequencer to a transaction, on a node that follows',
  ),
  fetchRounds: limit(
    16,
    'items',
    'times that state is fetched for one call, on a node with lazy state',
  ),
  fetchKeys: limit(
    1_000,
    'items',
    'accounts, slots and codes that are fetched for one call, on a node with lazy state',
  ),
  pageViewers: limit(64, 'items', 'open status pages, both ports together'),
  controlsWaiting: limit(
    256,
    'items',
    'controls of a development chain that wait for earlier ones',
  ),
  depositsWaiting: limit(
    64,
    'items',
    'deposits and unsigned transactions of a development chain that wait for their block',
  ),
  minedBlocks: limit(
    1_000,
    'blocks',
    'blocks of one evm_mine or anvil_mine of a development chain',
  ),
  resultCacheItems: limit(10_000, 'items', 'cached results of calls'),
  resultCacheBytes: limit(64 * 1024 * 1024, 'bytes', 'bytes of the cached results of calls'),
  keptTextBytes: limit(
    32 * 1024 * 1024,
    'bytes',
    'cached JSON of persisted blocks, their transactions and receipts; 0 is off',
    0,
  ),
  keptLogsBytes: limit(
    64 * 1024 * 1024,
    'bytes',
    'cached logs of persisted blocks, all workers together; 0 is off',
    0,
  ),
  resultCacheReads: limit(
    512,
    'items',
    'accounts and slots that a call may read so that its result stays cached over flashblocks; 0 is off',
  ),
} as const satisfies Record<string, LimitDefinition>

export type Limits = { readonly [K in keyof typeof LIMITS]: number }

export const DEFAULT_LIMITS: Limits = Object.fromEntries(
  Object.entries(LIMITS).map(([name, { value }]) => [name, value]),
) as Limits
