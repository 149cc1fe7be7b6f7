/** `flashnode verify`: whether a data directory holds what its chain says. */
import { defineCommand } from '../../config/command.ts'
import { integer, needed, option, optional } from '../../config/option.ts'
import { DB_CACHE_MB, JSON_OUT, WORKING } from '../../config/options.ts'

export const verify = defineCommand({
  name: 'verify',
  summary:
    'holds a data directory to its roots, hashes and checksums, and executes its blocks again',
  heading: 'A data directory',
  examples: ['--datadir DIR', '--datadir DIR --sample 1000'],
  flags: {
    datadir: needed('DIR', 'the directory to look at; no node may have it open'),
    sample: option('N', optional(integer(1, 10_000_000)), {
      fallback: undefined,
      text: 'so many blocks and accounts, chosen by chance',
      shown: 'all',
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
