/** Role of a node that serves a filled directory: it gets no blocks and has no keys. */
import { type ChainChoice, storedChain } from '../../data/datadir.ts'
import type { Role } from '../../node/role.ts'
import { StartError } from '../../process/context.ts'

type ServeConfig = { readonly chain?: string | undefined; readonly legacyRpc?: string | undefined }

export const serveRole = (config: ServeConfig): Role => ({
  chain: servedChain(config),
  keys: [],
  // The head does not move, so its age has no bound.
  readiness: { headMs: undefined, feedMs: undefined },
  forwardingUrl: config.legacyRpc,
  // A served directory has no chain to catch up with.
  syncing: () => false,
  startSource: undefined,
})

export const servedChain = ({ chain: requested, legacyRpc }: ServeConfig): ChainChoice => ({
  choose: (chainDirectory) => storedChain(requested, chainDirectory),
  made: undefined,
  check(chain) {
    if (legacyRpc !== undefined && chain.genesisNumber === 0n)
      throw new StartError(
        `--legacy-rpc is for a chain that continues an older one, but ${chain.name} starts at block 0: leave it out`,
      )
  },
})
