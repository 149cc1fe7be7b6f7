/** `flashnode follow`: a node of a network that exists. */
import { defineCommand } from '../../config/command.ts'
import { forkTimeProblems } from '../../config/fork-time.ts'
import { servingDefaults, servingProblems } from '../../config/serving.ts'
import { FLAGS, type FollowDefaults, sourcesOf } from './flags.ts'

export const follow = defineCommand({
  name: 'follow',
  summary: 'follows a network: its flashblocks feeds, and upstreams that say what is canonical',
  heading: 'A node',
  examples: [
    '--chain xlayer --trust-upstream',
    '--chain DIR/genesis.json --upstream http://127.0.0.1:8545 --feed ws://127.0.0.1:8545/feed',
  ],
  flags: FLAGS,
  defaults(given): FollowDefaults {
    return {
      ...servingDefaults(given, { command: 'follow', chain: given.chain }),
      ...sourcesOf(given),
      sequencer: given.sequencer,
    }
  },
  problems(config, isFlag) {
    const found = [...servingProblems(config, isFlag), ...forkTimeProblems(config.forkTime)]
    if (config.upstream.length === 0)
      found.push(
        `--upstream URL is needed: ${config.chain ?? 'the chain'} publishes none that is known here`,
      )
    if (config.upstream.length > MOST_UPSTREAMS)
      found.push(`--upstream names ${config.upstream.length} nodes, at most ${MOST_UPSTREAMS}`)
    if (config.feed.length > MOST_FEEDS)
      found.push(`--feed names ${config.feed.length} feeds, at most ${MOST_FEEDS}`)
    if (config.state === 'whole' && config.trustUpstream)
      found.push('--trust-upstream is for --state lazy: whole state takes nothing on trust')
    return found
  },
  async run(config) {
    const [{ runNode }, { followRole }] = await Promise.all([
      import('../shared/node.ts'),
      import('./role.ts'),
    ])
    await runNode(config, followRole(config))
  },
})

const MOST_UPSTREAMS = 16
/** Each has a thread. */
const MOST_FEEDS = 8
