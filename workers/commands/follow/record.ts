/** `flashnode record`: follows a network, and takes down all that the node was given. */
import { defineCommand } from '../../config/command.ts'
import { follow } from './command.ts'
import { FLAGS, RECORD_FLAGS } from './flags.ts'

export const record = defineCommand({
  name: 'record',
  summary: 'follows a network in a directory of its own, and writes all that it was told to a file',
  heading: 'What is wrong, and what happened',
  examples: ['--chain xlayer --trust-upstream --out strange.flashnode --seconds 600'],
  flags: { ...FLAGS, ...RECORD_FLAGS },
  defaults(given) {
    const { datadir } = given
    // It begins where nothing is: what was there before would be missing in the record.
    return { ...follow.defaults(given), datadir: given.ephemeral ? undefined : datadir }
  },
  problems: (config, isFlag) => follow.problems?.(config, isFlag) ?? [],
  async run(config) {
    const { runRecord } = await import('./recording.ts')
    await runRecord(config)
  },
})
