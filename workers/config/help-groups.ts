/** Assigns flags to headings of the help, and selects the limits that `--help limits` lists. */
import { LIMIT_FLAGS } from './options.ts'

/** Flags of the command itself come first, under the default heading of the help. */
const OWN = 'Options'

/** Headings in the order of the help. */
export const GROUPS: Readonly<Record<string, string>> = {
  [OWN]: `head block sample feedMs blocks perBlock rate known out replay seconds rounds connections only megabytes requests requestBytes
    speed until stay atOnce endpoint form from tokenFile retryMs`,
  Network: `chain genesis feed upstream upstreamRate sequencer shareTransactions trustUpstream state legacyRpc chainId forkTime genesisAlloc gasLimit
    gaslessBlockGasLimit blockTimeMs flashblockTimeMs safeLag finalizedLag feedForm l1BaseFee l1BlobBaseFee l1BaseFeeScalar
    l1BlobBaseFeeScalar operatorFeeScalar operatorFeeConstant daFootprintScalar`,
  Data: `datadir ephemeral historyBlocks heldFlashblocks snapshotBlocks ledgerHours ledgerSize lazyCache`,
  Serving: `host port http adminPort page cors agentPort agentHost drainMs hosts methods latest receiptHold traceModeOptional
    flashblockLag cadenceMs`,
  Clients: `rateLimit rateLimitOf apiKeys limitBy limitStore trustProxy proxyProtocol enrichTokenFile bootstrapTokenFile`,
  Accounts: `unlock keystore passwordFile allowInsecureUnlock`,
  'Engine and memory': `engine verifySample poolThreads frontThreads viewMemory stateCache dbCache`,
  'Log and configuration': `slowCallMs slowCallParams logLevel logFormat json config`,
}
/**
 * Limits that `--help limits` prints, because operators of other nodes or proxies would look for
 * them.
 * Hidden limits work too; docs/operate/limits.md lists all of them.
 */
export const LISTED_BOUNDS: Readonly<Record<string, string>> = {
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
/** Limits whose flags start with other words than --limit. */
export const OTHER_BOUNDS = `upstreamCallMs upstreamAnswerBytes upstreamInFlight upstreamBatch upstreamWaiting upstreamRestMs
    upstreamLagBlocks catchUpBlocks catchUpBytes catchUpRange catchUpRanges feedWireBytes feedJsonBytes feedDecodeMs feedFrames feedBurst
    feedHeldFrames feedHeldBytes feedAccessBytes feedAccessItems forwardMs forwardsPerClient forwardsTotal`
const listed = (groups: Readonly<Record<string, string>>) =>
  Object.entries(groups).flatMap(([heading, names]) =>
    names.split(/\s+/).map((name) => [name, heading] as const),
  )
const LISTED: ReadonlyMap<string, string> = new Map(listed(LISTED_BOUNDS))
const HEADINGS: ReadonlyMap<string, string> = new Map([...listed(GROUPS), ...LISTED])
const OTHER_NAMES: ReadonlySet<string> = new Set(OTHER_BOUNDS.split(/\s+/))
const ORDER: readonly string[] = [...Object.keys(GROUPS), ...Object.keys(LISTED_BOUNDS)]

/** @param isOwn true for a flag of this command alone */
export const headingOf = (name: string, isOwn = false): string =>
  isOwn ? OWN : (HEADINGS.get(name) ?? OWN)
export const orderOf = (heading: string): number => ORDER.indexOf(heading)
/** True for one of more than a hundred limits, which have a help of their own. */
export const isLimit = (name: string): boolean => name in LIMIT_FLAGS || OTHER_NAMES.has(name)
/** True for a limit that `--help limits` prints. */
export const isListedLimit = (name: string): boolean => LISTED.has(name)
