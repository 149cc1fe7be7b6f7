/** `flashnode import`: makes a chain from a file of blocks. */
import { defineCommand } from '../../config/command.ts'
import { FORK_TIME, forkTimeProblems } from '../../config/fork-time.ts'
import { needed, option, optional } from '../../config/option.ts'
import { DATADIR, DB_CACHE_MB, directoryOf, WORKING } from '../../config/options.ts'

export const importBlocks = defineCommand({
  name: 'import',
  summary: 'executes and verifies a file of blocks into a data directory',
  heading: 'Data directories',
  examples: ['--genesis genesis.json --chain chain.rlp --datadir DIR'],
  flags: {
    genesis: needed('FILE', 'genesis.json of the blocks'),
    chain: needed('FILE', 'file of blocks (RLP)'),
    head: option('HASH', optional(blockHash), {
      fallback: undefined,
      text: 'last block to import',
      defaultText: 'the last one of the file',
    }),
    forkTime: FORK_TIME,
    datadir: DATADIR,
    ...WORKING,
  },
  defaults: ({ genesis, datadir, dbCache = DB_CACHE_MB }) => ({
    dbCache,
    datadir: datadir ?? directoryOf('import', genesis),
  }),
  problems: ({ forkTime }) => forkTimeProblems(forkTime),
  async run(config) {
    const [{ runJob }, job] = await Promise.all([import('../shared/job.ts'), import('./import.ts')])
    await runJob(config, { run: (context) => job.runImport(config, context), fails: job.FAILS })
  },
})

function blockHash(wire: string): `0x${string}` {
  if (!/^0x[0-9a-fA-F]{64}$/.test(wire)) throw new Error('expected 0x and 64 hex digits')
  return wire.toLowerCase() as `0x${string}`
}
