/** `flashnode bootstrap`: makes a new replica from a running node. */
import { defineCommand } from '../../config/command.ts'
import { integer, needed, option, url } from '../../config/option.ts'
import { CHAIN, DB_CACHE_MB, WORKING } from '../../config/options.ts'

export const bootstrap = defineCommand({
  name: 'bootstrap',
  summary: 'copies state, history and blocks of a running node into a new data directory',
  heading: 'Data directories',
  examples: ['--from http://10.0.0.11:8545 --datadir DIR --token-file FILE'],
  flags: {
    from: {
      ...needed('URL', 'node to copy: one that runs with --state whole and --bootstrap-token-file'),
      decode: url('http', 'https'),
    },
    datadir: needed('DIR', 'new data directory; an interrupted copy continues'),
    tokenFile: needed(
      'FILE',
      'file with the token that the node requires (its --bootstrap-token-file)',
    ),
    chain: {
      ...CHAIN,
      text: 'chain that the node must have: a name or a genesis.json',
      defaultText: 'any',
    },
    retryMs: option('MS', integer(0, 86_400_000), {
      fallback: 120_000,
      text: 'how long a request is repeated while the node does not answer',
    }),
    dbCache: WORKING.dbCache,
    config: WORKING.config,
    logLevel: WORKING.logLevel,
    logFormat: WORKING.logFormat,
  },
  defaults: ({ dbCache = DB_CACHE_MB }) => ({ dbCache }),
  async run(config) {
    const [{ runJob }, job] = await Promise.all([
      import('../shared/job.ts'),
      import('./bootstrap.ts'),
    ])
    await runJob(config, { run: (context) => job.runBootstrap(config, context), fails: job.FAILS })
  },
})
