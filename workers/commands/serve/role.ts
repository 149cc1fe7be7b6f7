/** The node of a directory that somebody has filled: no block comes, no key is known. */
import { type ChainChoice, heldChain } from '../../data/datadir.ts'
import type { Role } from '../../node/role.ts'
import { StartError } from '../../process/context.ts'

type Asked = { readonly chain?: string | undefined; readonly legacyRpc?: string | undefined }

export const serveRole = (config: Asked): Role => ({
  chain: servedChain(config),
  keys: [],
  // The head need not move.
  readiness: { headMs: undefined, feedMs: undefined },
  legacyUrl: config.legacyRpc,
  // A directory that is served as it is is never behind anybody.
  syncing: () => false,
  startSource: undefined,
})

export const servedChain = ({ chain: asked, legacyRpc }: Asked): ChainChoice => ({
  choose: (place) => heldChain(asked, place),
  made: undefined,
  check(chain) {
    if (legacyRpc !== undefined && chain.genesisNumber === 0n)
      throw new StartError(
        `--legacy-rpc is for a chain that goes on from an older one: ${chain.name} begins at block 0, leave it out`,
      )
  },
})
