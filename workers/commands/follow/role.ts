/** The node of a network that exists: blocks come from upstreams and feeds, and nobody's key is known. */
import { NETWORKS } from '../../../engine/chainspec/networks.ts'
import { type ChainChoice, heldChain } from '../../data/datadir.ts'
import type { Role } from '../../node/role.ts'
import { type Begun, beginFollowing } from './begin.ts'
import type { FollowConfig } from './flags.ts'
import { startFollowing } from './source.ts'

/** Several blocks of the slowest chain that has a name. */
const HEAD_MS = 15_000
const FEED_MS = 3_000

export function followRole(config: FollowConfig): Role {
  let begun: Begun | undefined
  return {
    chain: followedChain(config),
    async begin(opened, context) {
      begun = await beginFollowing(config, opened, context)
    },
    keys: [],
    readiness: { headMs: HEAD_MS, feedMs: config.feed.length === 0 ? undefined : FEED_MS },
    get mode() {
      return begun?.mode
    },
    lazyCacheBytes: config.lazyCache * 2 ** 20,
    legacyUrl: config.legacyRpc,
    syncing: () => false,
    feeds: config.feed.length,
    startSource: (link) => startFollowing(config, link, begun?.lazy),
  }
}

const DEFAULT_CHAIN = 'xlayer'

/** That of the directory, which a `--chain` has to match; an empty one gets the chain that is asked for. */
export const followedChain = ({ chain: asked }: Pick<FollowConfig, 'chain'>): ChainChoice => ({
  choose: (place) =>
    place.marker === undefined ? { name: asked ?? DEFAULT_CHAIN } : heldChain(asked, place),
  made: undefined,
  file: asked === undefined || NETWORKS.has(asked) ? undefined : asked,
  check() {},
})
