/** `flashnode bootstrap`: a new replica from one that runs. */
import { defineCommand } from '../../config/command.ts'
import { integer, needed, option, url } from '../../config/option.ts'
import { CHAIN, DB_CACHE_MB, WORKING } from '../../config/options.ts'

export const bootstrap = defineCommand({
  name: 'bootstrap',
  summary: 'copies state, history and blocks of a running node into a new data directory',
  heading: 'A data directory',
  examples: ['--from http://10.0.0.11:8545 --datadir DIR --token-file FILE'],
  flags: {
    from: {
      ...needed('URL', 'the node that is copied: one with whole state and --bootstrap-token-file'),
      decode: url('http', 'https'),
    },
    datadir: needed('DIR', 'the new directory; one that was cut off goes on where it was'),
    tokenFile: needed('FILE', 'the token that the node asks for (its --bootstrap-token-file)'),
    chain: {
      ...CHAIN,
      text: 'chain that it has to be, by name or a genesis.json',
      shown: 'that of the node',
    },
    retryMs: option('MS', integer(0, 86_400_000), {
      fallback: 120_000,
      text: 'how long a node that does not answer is asked again',
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
