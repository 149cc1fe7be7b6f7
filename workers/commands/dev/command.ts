/** `flashnode dev`: the embedded development network. */
import { defineCommand } from '../../config/command.ts'
import { forkTimeProblems } from '../../config/fork-time.ts'
import { isOpenToAll, servingDefaults, servingProblems } from '../../config/serving-options.ts'
import { type DevDefaults, FLAGS, socketsPerClientOn } from './flags.ts'

/**
 * A large cache would fill for hours on a chain that starts empty, which looks like a memory leak.
 */
const SMALL_CACHE_MB = 64

export const dev = defineCommand({
  name: 'dev',
  summary: 'runs a development network: sequencer, feed and node in one process',
  heading: 'A node',
  examples: [
    '',
    '--port 9000 --ephemeral',
    '--block-time-ms 2000 --host 0.0.0.0 --allow-insecure-unlock',
  ],
  flags: FLAGS,
  defaults(given): DevDefaults {
    const { chain = 'xlayer', adminPort = 8_546, dbCache = SMALL_CACHE_MB } = given
    const { limitSocketsPerClient = socketsPerClientOn(given.host) } = given
    const own = { adminPort, dbCache, limitSocketsPerClient }
    return {
      chain,
      limitSocketsPerClient,
      ...servingDefaults({ ...given, ...own }, { command: 'dev', chain }),
    }
  },
  problems(config, isFlag) {
    const found = [...servingProblems(config, isFlag), ...forkTimeProblems(config.forkTime)]
    if (config.flashblockTimeMs > config.blockTimeMs)
      found.push('--flashblock-time-ms is longer than --block-time-ms: give a shorter one')
    if (config.safeLag > config.finalizedLag)
      found.push(
        '--safe-lag is larger than --finalized-lag, but a finalized block is safe too: give a smaller --safe-lag',
      )
    if (config.unlock.length === 0 && isOpenToAll(config))
      found.push(
        `dev on the public --host ${config.host} lets anybody spend and deposit, because its accounts are unlocked: add --allow-insecure-unlock if you want this`,
      )
    return found
  },
  async run(config) {
    const [{ runNode }, { devRole }] = await Promise.all([
      import('../shared/node.ts'),
      import('./role.ts'),
    ])
    await runNode(config, devRole(config))
  },
})
