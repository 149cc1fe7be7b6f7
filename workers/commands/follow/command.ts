/** `flashnode follow`: a node of a public or private network. */
import { defineCommand } from '../../config/command.ts'
import { forkTimeProblems } from '../../config/fork-time.ts'
import { servingDefaults, servingProblems } from '../../config/serving-options.ts'
import { FLAGS, type FollowDefaults, sourcesOf } from './flags.ts'

export const follow = defineCommand({
  name: 'follow',
  summary:
    'follows a network by its flashblocks feeds, and by upstreams that decide which blocks are canonical',
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
        `--upstream URL is required: this version knows no public upstream of ${config.chain ?? 'the chain'}`,
      )
    if (config.upstream.length > MAX_UPSTREAMS)
      found.push(`--upstream names ${config.upstream.length} nodes, at most ${MAX_UPSTREAMS}`)
    if (config.feed.length > MAX_FEEDS)
      found.push(`--feed names ${config.feed.length} feeds, at most ${MAX_FEEDS}`)
    if (config.state === 'whole' && config.trustUpstream)
      found.push(
        '--trust-upstream is for --state lazy: with --state whole the node fetches no state, so leave it out',
      )
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

const MAX_UPSTREAMS = 16
/** Each feed has its own thread. */
const MAX_FEEDS = 8
