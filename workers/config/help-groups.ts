/** Under which heading of the help a flag stands, and which are in the long list of bounds. */
import { LIMIT_FLAGS } from './options.ts'

/** What a command is for stands first, under the heading that the help has anyway. */
const OWN = 'Options'

/** In the order of the help. */
export const GROUPS: Readonly<Record<string, string>> = {
  [OWN]: `head block sample feedMs blocks perBlock rate known out replay seconds rounds connections only megabytes requests requestBytes
    speed until stay atOnce endpoint form from tokenFile retryMs`,
  Network: `chain genesis feed upstream upstreamRate sequencer shareTransactions trustUpstream state legacyRpc chainId forkTime genesisAlloc gasLimit
    gaslessBlockGasLimit blockTimeMs flashblockTimeMs safeLag finalizedLag feedForm l1BaseFee l1BlobBaseFee l1BaseFeeScalar
    l1BlobBaseFeeScalar operatorFeeScalar operatorFeeConstant daFootprintScalar`,
  Data: `datadir ephemeral historyBlocks heldFlashblocks snapshotBlocks ledgerHours ledgerSize lazyCache`,
  Serving: `host port http adminPort page cors agentPort agentHost drainMs hosts methods latest receiptHold traceModeOptional
    behind cadenceMs`,
  Clients: `rateLimit rateLimitOf apiKeys limitBy limitStore trustProxy proxyProtocol enrichTokenFile bootstrapTokenFile`,
  Accounts: `unlock keystore passwordFile allowInsecureUnlock`,
  'Engine and memory': `engine verifySample poolThreads frontThreads viewMemory stateCache dbCache`,
  'Log and configuration': `slowCallMs slowCallParams logLevel logFormat json config`,
}
/**
 * The bounds that `--help limits` shows: those that an operator of another node or proxy would look for. Each works all the same
 * where it is not shown. docs/operate/limits.md lists all of them.
 */
export const SHOWN_BOUNDS: Readonly<Record<string, string>> = {
  'Requests and answers': `limitBodyBytes limitBatchItems limitBatchResponseBytes limitResponseBytes limitHeadersMs limitRequestMs
    limitUnsentMs limitKeepAliveMs limitRequestsPerSocket`,
  Connections: `limitSockets limitSocketsPerClient limitConnectionsTotal limitConnectionsPerClient limitSubscriptionsPerConnection
    limitSendQueueBytes`,
  'Calls and traces': `limitCallGas limitCallMs limitCallQueue limitTraceMs limitTraceQueue limitEvmMemoryBytes limitSimulatedCalls
    limitProofBlocks limitFeeHistoryBlocks`,
  'Logs and filters': `limitLogsMs limitLogsResults limitLogsBlocks limitLogsBlocksFiltered limitLogsAddresses limitLogsTopics
    limitFiltersPerClient limitFiltersTotal limitFilterIdleMs`,
  Transactions: 'limitTransactionBytes limitSyncSendMs',
  Caches: 'limitResultCacheBytes limitKeptTextBytes limitKeptLogsBytes',
  'Upstreams and feeds':
    'limitFeedSubscribers limitLegacyMs upstreamCallMs upstreamAnswerBytes upstreamBatch upstreamLagBlocks',
}
/** Bounds whose flags do not begin with --limit. */
export const OTHER_BOUNDS = `upstreamCallMs upstreamAnswerBytes upstreamInFlight upstreamBatch upstreamWaiting upstreamRestMs
    upstreamLagBlocks catchUpBlocks catchUpBytes catchUpRange catchUpRanges feedWireBytes feedJsonBytes feedDecodeMs feedFrames feedBurst
    feedHeldFrames feedHeldBytes feedAccessBytes feedAccessItems forwardMs forwardsPerClient forwardsTotal`
const listed = (groups: Readonly<Record<string, string>>) =>
  Object.entries(groups).flatMap(([heading, names]) =>
    names.split(/\s+/).map((name) => [name, heading] as const),
  )
const SHOWN: ReadonlyMap<string, string> = new Map(listed(SHOWN_BOUNDS))
const HEADINGS: ReadonlyMap<string, string> = new Map([...listed(GROUPS), ...SHOWN])
const OTHER_NAMES: ReadonlySet<string> = new Set(OTHER_BOUNDS.split(/\s+/))
const ORDER: readonly string[] = [...Object.keys(GROUPS), ...Object.keys(SHOWN_BOUNDS)]

/** @param isOwn it is of this command alone */
export const headingOf = (name: string, isOwn = false): string =>
  isOwn ? OWN : (HEADINGS.get(name) ?? OWN)
/** For sorting headings. */
export const placeOf = (heading: string): number => ORDER.indexOf(heading)
/** One of more than a hundred bounds, which have a help of their own. */
export const isLimit = (name: string): boolean => name in LIMIT_FLAGS || OTHER_NAMES.has(name)
/** One of the bounds that this help shows. */
export const isShownLimit = (name: string): boolean => SHOWN.has(name)
