/** `flashnode replay`: runs a node from a recording. */
import { defineCommand } from '../../config/command.ts'
import { text } from '../../config/option.ts'
import { servingDefaults, servingProblems } from '../../config/serving-options.ts'
import { FLAGS } from './flags.ts'

export const replay = defineCommand({
  name: 'replay',
  summary: 'runs a recorded node again, and compares its results with the recording',
  heading: 'Diagnostics',
  examples: ['strange.flashnode', 'strange.flashnode --until 34567890:3 --stay --port 8545'],
  flags: FLAGS,
  operands: { value: 'FILE', min: 1, max: 1, decode: text },
  defaults(given) {
    const { datadir, ephemeral } = given
    const defaults = servingDefaults(
      { ...given, chain: undefined },
      { command: 'replay', chain: undefined },
    )
    return { ...defaults, datadir: ephemeral ? undefined : datadir, chain: undefined }
  },
  problems: servingProblems,
  async run(config, [path]) {
    const { runReplay } = await import('./replay.ts')
    await runReplay(config, path!)
  },
})
