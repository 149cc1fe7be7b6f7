/** `flashnode migrate`: an older data directory becomes one of this version. */
import { defineCommand } from '../../config/command.ts'
import { needed } from '../../config/option.ts'
import { CONFIG_FILE } from '../../config/options.ts'

export const migrate = defineCommand({
  name: 'migrate',
  summary: 'brings a data directory of an older format to this one; can be cut off and run again',
  heading: 'A data directory',
  examples: ['--datadir DIR'],
  flags: {
    // There is none that it could mean where none is named.
    datadir: needed('DIR', 'the directory to migrate'),
    config: CONFIG_FILE,
  },
  defaults: () => ({}),
  async run({ datadir }) {
    const { runMigration } = await import('./migrate.ts')
    process.exitCode = await runMigration(datadir)
  },
})
