/** Under which heading of the help a flag stands: each that is no limit is in one of these. */
import { LIMIT_FLAGS } from './options.ts'

/** What a command is for stands first, under no heading. */
const OWN = ''

export const GROUPS: Readonly<Record<string, string>> = {
  [OWN]: `head block sample feedMs blocks perBlock rate known out replay seconds rounds connections only megabytes requests requestBytes
    speed until stay atOnce endpoint form`,
  Network: `chain genesis feed upstream sequencer shareTransactions trustUpstream state legacyRpc chainId genesisAlloc gasLimit blockTimeMs flashblockTimeMs
    safeLag finalizedLag feedForm l1BaseFee l1BlobBaseFee l1BaseFeeScalar l1BlobBaseFeeScalar operatorFeeScalar operatorFeeConstant
    daFootprintScalar`,
  Data: `datadir ephemeral historyBlocks heldFlashblocks snapshotBlocks ledgerHours ledgerSize lazyCache`,
  Serving: `host port http adminPort page cors agentPort agentHost drainMs hosts methods latest receiptHold traceModeOptional`,
  Clients: `rateLimit rateLimitOf apiKeys limitBy limitStore trustProxy proxyProtocol enrichTokenFile`,
  Accounts: `unlock keystore passwordFile allowInsecureUnlock`,
  'Engine and memory': `engine verifySample poolThreads frontThreads viewMemory stateCache dbCache`,
  'Upstreams and feeds': `upstreamRate upstreamCallMs upstreamAnswerBytes upstreamInFlight upstreamBatch upstreamWaiting upstreamRestMs
    upstreamLagBlocks catchUpBlocks catchUpBytes catchUpRange catchUpRanges feedWireBytes feedJsonBytes feedDecodeMs feedFrames feedBurst
    feedHeldFrames feedHeldBytes apply applyTokenFile applyMs verifyShare
    applyMessageBytes applyHeldDiffs applyHeldBytes forwardMs forwardsPerClient forwardsTotal`,
  'Log and configuration': `slowCallMs slowCallParams logLevel logFormat json config`,
}
const HEADINGS: ReadonlyMap<string, string> = new Map(
  Object.entries(GROUPS).flatMap(([heading, names]) =>
    heading === OWN ? [] : names.split(/\s+/).map((name) => [name, `${heading}:`] as const),
  ),
)

/** undefined: none. */
export const headingOf = (name: string): string | undefined => HEADINGS.get(name)
/** One of a hundred bounds, which have a help of their own. */
export const isLimit = (name: string): boolean => name in LIMIT_FLAGS
