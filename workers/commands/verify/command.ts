/** `flashnode verify`: checks if a data directory agrees with its chain. */
import { defineCommand } from '../../config/command.ts'
import { integer, needed, option, optional } from '../../config/option.ts'
import { DB_CACHE_MB, JSON_OUT, WORKING } from '../../config/options.ts'

export const verify = defineCommand({
  name: 'verify',
  summary:
    'checks the roots, hashes and checksums of a data directory, and executes its blocks again',
  heading: 'Data directories',
  examples: ['--datadir DIR', '--datadir DIR --sample 1000'],
  flags: {
    datadir: needed('DIR', 'directory to verify; no node may have it open'),
    sample: option('N', optional(integer(1, 10_000_000)), {
      fallback: undefined,
      text: 'number of random blocks and accounts to verify',
      defaultText: 'all',
    }),
    json: JSON_OUT,
    dbCache: WORKING.dbCache,
    engine: WORKING.engine,
    config: WORKING.config,
    logLevel: WORKING.logLevel,
    logFormat: WORKING.logFormat,
  },
  defaults: ({ dbCache = DB_CACHE_MB }) => ({ dbCache }),
  async run(config) {
    const [{ runJob }, job] = await Promise.all([import('../shared/job.ts'), import('./verify.ts')])
    await runJob(config, { run: (context) => job.runVerify(config, context), fails: job.FAILS })
  },
})
