/** Role of a following node: blocks come from upstreams and feeds, and it has no keys. */
import { NETWORKS } from '../../../engine/chainspec/networks.ts'
import { lazyDirectory } from '../../../engine/storage/lazy/directory.ts'
import { forkTimesOf } from '../../config/fork-time.ts'
import { flashblockLagOf } from '../../config/serving-options.ts'
import { type ChainChoice, storedChain } from '../../data/datadir.ts'
import type { Opened } from '../../data/open.ts'
import type { Role } from '../../node/role.ts'
import { StartError } from '../../process/context.ts'
import type { FollowConfig } from './flags.ts'
import { type FollowStart, prepareFollowing } from './prepare.ts'
import { startFollowing } from './source.ts'

/** Several block times of the slowest named chain. */
const HEAD_MS = 15_000
const FEED_MS = 3_000

/** @param recorded the sink of the recording, and the callback that receives the start */
export function followRole(
  config: FollowConfig,
  recorded?: {
    readonly recording: Role['recording'] & object
    readonly onStarted: (started: FollowStart) => void
    readonly isQuiet: boolean
  },
): Role {
  let started: FollowStart | undefined
  return {
    chain: followedChain(config),
    async prepare(opened, context) {
      if (recorded !== undefined) checkEmpty(opened)
      started = await prepareFollowing(config, opened, {
        ...context,
        isPatient: recorded === undefined,
      })
      recorded?.onStarted(started)
    },
    keys: [],
    readiness: { headMs: HEAD_MS, feedMs: config.feed.length === 0 ? undefined : FEED_MS },
    get mode() {
      return started?.mode
    },
    lazyCacheBytes: config.lazyCache * 2 ** 20,
    forwardingUrl: config.legacyRpc,
    shareTransactions: config.shareTransactions,
    flashblockLag: flashblockLagOf(config.flashblockLag, config.cadenceMs),
    syncing: () => false,
    feeds: config.feed.length,
    startSource: (link) =>
      startFollowing(config, link, { lazy: started?.lazy, isRecorded: recorded !== undefined }),
    recording: recorded?.recording,
    isQuiet: recorded?.isQuiet ?? false,
    hidesBlocks: recorded !== undefined,
  }
}

/**
 * A recording starts from an empty directory, because a replay has no other.
 * @throws {StartError}
 */
function checkEmpty({ database, path }: Opened): void {
  if (lazyDirectory(database).status !== 'empty')
    throw new StartError(
      `${path} already has a chain, but a recording starts with an empty directory: leave out --datadir, or give an empty one`,
    )
}

export const DEFAULT_CHAIN = 'xlayer'

/**
 * The chain of the directory, which --chain has to match; an empty directory gets the chain of
 * --chain.
 */
export const followedChain = ({
  chain: requested,
  forkTime = [],
}: Pick<FollowConfig, 'chain'> & Partial<Pick<FollowConfig, 'forkTime'>>): ChainChoice => ({
  choose(chainDirectory) {
    const forkTimes = forkTimesOf(forkTime)
    return chainDirectory.marker === undefined
      ? { name: requested ?? DEFAULT_CHAIN, forkTimes }
      : storedChain(requested, chainDirectory, { forkTimes })
  },
  made: undefined,
  file: requested === undefined || NETWORKS.has(requested) ? undefined : requested,
  advice: () => (requested === undefined ? '' : 'leave out --chain'),
  check() {},
})
