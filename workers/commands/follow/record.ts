/** `flashnode record`: follows a network and records all input of the node. */
import { defineCommand } from '../../config/command.ts'
import { follow } from './command.ts'
import { FLAGS, RECORD_FLAGS } from './flags.ts'

export const record = defineCommand({
  name: 'record',
  summary: 'follows a network in a separate directory, and records all its input in a file',
  heading: 'Diagnostics',
  examples: ['--chain xlayer --trust-upstream --out strange.flashnode --seconds 600'],
  flags: { ...FLAGS, ...RECORD_FLAGS },
  defaults(given) {
    const { datadir } = given
    // A recording starts from an empty directory, because stored state would be missing in it.
    return { ...follow.defaults(given), datadir: given.ephemeral ? undefined : datadir }
  },
  problems: (config, isFlag) => follow.problems?.(config, isFlag) ?? [],
  async run(config) {
    const { runRecord } = await import('./recording.ts')
    await runRecord(config)
  },
})
