/** The node of a network that exists: blocks come from upstreams and feeds, and nobody's key is known. */
import { NETWORKS } from '../../../engine/chainspec/networks.ts'
import { lazyDirectory } from '../../../engine/storage/lazy/begin.ts'
import { forkTimesOf } from '../../config/fork-time.ts'
import { behindOf } from '../../config/serving.ts'
import { type ChainChoice, heldChain } from '../../data/datadir.ts'
import type { Opened } from '../../data/open.ts'
import type { Role } from '../../node/role.ts'
import { StartError } from '../../process/context.ts'
import { type Begun, beginFollowing } from './begin.ts'
import type { FollowConfig } from './flags.ts'
import { startFollowing } from './source.ts'

/** Several blocks of the slowest chain that has a name. */
const HEAD_MS = 15_000
const FEED_MS = 3_000

/** @param recorded where what it takes goes, and what it has begun with */
export function followRole(
  config: FollowConfig,
  recorded?: {
    readonly tape: Role['tape'] & object
    readonly onBegun: (begun: Begun) => void
    readonly isQuiet: boolean
  },
): Role {
  let begun: Begun | undefined
  return {
    chain: followedChain(config),
    async begin(opened, context) {
      if (recorded !== undefined) checkEmpty(opened)
      begun = await beginFollowing(config, opened, {
        ...context,
        isPatient: recorded === undefined,
      })
      recorded?.onBegun(begun)
    },
    keys: [],
    readiness: { headMs: HEAD_MS, feedMs: config.feed.length === 0 ? undefined : FEED_MS },
    get mode() {
      return begun?.mode
    },
    lazyCacheBytes: config.lazyCache * 2 ** 20,
    legacyUrl: config.legacyRpc,
    shareTransactions: config.shareTransactions,
    behind: behindOf(config.behind, config.cadenceMs),
    syncing: () => false,
    feeds: config.feed.length,
    startSource: (link) =>
      startFollowing(config, link, { lazy: begun?.lazy, isRecorded: recorded !== undefined }),
    tape: recorded?.tape,
    isQuiet: recorded?.isQuiet ?? false,
    hidesBlocks: recorded !== undefined,
  }
}

/** A record begins with nothing: whoever replays it has no other directory. @throws {StartError} */
function checkEmpty({ database, path }: Opened): void {
  if (lazyDirectory(database).status !== 'empty')
    throw new StartError(
      `${path} holds a chain already, which a record would lack: leave --datadir out, or give an empty one`,
    )
}

export const DEFAULT_CHAIN = 'xlayer'

/** That of the directory, which a `--chain` has to match; an empty one gets the chain that is asked for. */
export const followedChain = ({
  chain: asked,
  forkTime = [],
}: Pick<FollowConfig, 'chain'> & Partial<Pick<FollowConfig, 'forkTime'>>): ChainChoice => ({
  choose(place) {
    const forkTimes = forkTimesOf(forkTime)
    return place.marker === undefined
      ? { name: asked ?? DEFAULT_CHAIN, forkTimes }
      : heldChain(asked, place, { forkTimes })
  },
  made: undefined,
  file: asked === undefined || NETWORKS.has(asked) ? undefined : asked,
  advice: () => (asked === undefined ? '' : 'leave out --chain'),
  check() {},
})
