/** `flashnode migrate`: converts an older data directory to the format of this version. */
import { defineCommand } from '../../config/command.ts'
import { needed } from '../../config/option.ts'
import { CONFIG_FILE } from '../../config/options.ts'

export const migrate = defineCommand({
  name: 'migrate',
  summary:
    'converts a data directory of an older format to the current one; an interrupted run continues',
  heading: 'Data directories',
  examples: ['--datadir DIR'],
  flags: {
    // The flag is required, because no directory is a safe default for a migration.
    datadir: needed('DIR', 'the directory to migrate'),
    config: CONFIG_FILE,
  },
  defaults: () => ({}),
  async run({ datadir }) {
    const { runMigration } = await import('./migrate.ts')
    process.exitCode = await runMigration(datadir)
  },
})
