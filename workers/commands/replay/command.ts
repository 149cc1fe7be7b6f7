/** `flashnode replay`: the node of a record again. */
import { defineCommand } from '../../config/command.ts'
import { text } from '../../config/option.ts'
import { servingDefaults, servingProblems } from '../../config/serving.ts'
import { FLAGS } from './flags.ts'

export const replay = defineCommand({
  name: 'replay',
  summary: 'runs the node of a record again, and holds what it shows to what was shown',
  heading: 'What is wrong, and what happened',
  examples: ['strange.flashnode', 'strange.flashnode --until 34567890:3 --stay --port 8545'],
  flags: FLAGS,
  operands: { value: 'FILE', least: 1, most: 1, decode: text },
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
