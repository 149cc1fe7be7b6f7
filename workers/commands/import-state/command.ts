/** `flashnode import-state`: makes a chain of one block from the accounts of its state. */
import { defineCommand } from '../../config/command.ts'
import { needed } from '../../config/option.ts'
import { CHAIN, DATADIR, DB_CACHE_MB, directoryOf, WORKING } from '../../config/options.ts'

export const importState = defineCommand({
  name: 'import-state',
  summary: 'loads an account dump as the state of a block into a new data directory',
  heading: 'Data directories',
  examples: ['--chain genesis.json --state dump.jsonl.gz --block header.json --datadir DIR'],
  flags: {
    chain: CHAIN,
    state: needed('FILE', 'account dump: JSON lines, gzipped if the name ends with .gz'),
    block: needed(
      'FILE',
      'header of the block that has this state, as eth_getBlockByNumber returns it',
    ),
    datadir: DATADIR,
    ...WORKING,
  },
  defaults: ({ chain = 'xlayer', datadir, dbCache = DB_CACHE_MB }) => ({
    chain,
    dbCache,
    datadir: datadir ?? directoryOf('import-state', chain),
  }),
  async run(config) {
    const [{ runJob }, job] = await Promise.all([
      import('../shared/job.ts'),
      import('./import-state.ts'),
    ])
    await runJob(config, {
      run: (context) => job.runStateImport(config, context),
      fails: job.FAILS,
    })
  },
})
