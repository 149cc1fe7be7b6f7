/** `flashnode serve`: a node on a chain that does not move. */
import { defineCommand } from '../../config/command.ts'
import { option, optional, url } from '../../config/option.ts'
import { CHAIN } from '../../config/options.ts'
import { SERVING, servingDefaults, servingProblems } from '../../config/serving-options.ts'

export const serve = defineCommand({
  name: 'serve',
  summary: 'serves a data directory, without new blocks',
  heading: 'A node',
  examples: ['--datadir DIR', '--datadir DIR --legacy-rpc https://older.example'],
  flags: {
    ...SERVING,
    chain: { ...CHAIN, defaultText: 'that of the data directory' },
    legacyRpc: option('URL', optional(url('http', 'https')), {
      fallback: undefined,
      text: 'node of the older chain that this chain continues; it answers for blocks below the first one',
    }),
  },
  defaults: (given) => servingDefaults(given, { command: 'serve', chain: given.chain }),
  problems: servingProblems,
  async run(config) {
    const [{ runNode }, { serveRole }] = await Promise.all([
      import('../shared/node.ts'),
      import('./role.ts'),
    ])
    await runNode(config, serveRole(config))
  },
})
