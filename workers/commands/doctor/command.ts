/** `flashnode doctor`: what an operator would look at by hand before a node runs, or when it does not run well. */
import { defineCommand } from '../../config/command.ts'
import { FORK_TIME, forkTimeProblems } from '../../config/fork-time.ts'
import { integer, list, option, optional, orWord, url } from '../../config/option.ts'
import { CHAIN, CONFIG_FILE, JSON_OUT, WORKING } from '../../config/options.ts'
import { SERVING } from '../../config/serving.ts'

export const doctor = defineCommand({
  name: 'doctor',
  summary:
    'looks at the machine, upstreams, feeds, ports and the data directory of a node, and says what to do',
  heading: 'What is wrong, and what happened',
  examples: [
    '',
    '--chain xlayer --upstream https://node.example --feed wss://feed.example --datadir DIR --port 8545',
  ],
  flags: {
    chain: CHAIN,
    forkTime: FORK_TIME,
    upstream: option('URL,…', list(url('http', 'https', 'ws', 'wss')), {
      fallback: [],
      text: 'nodes that say which block is canonical',
      shown: 'none is looked at',
    }),
    feed: option('URL,…|none', orWord('none', list(url('ws', 'wss'))), {
      fallback: [],
      text: 'flashblocks feeds',
      shown: 'none is looked at',
    }),
    datadir: option(
      'DIR',
      optional((wire) => wire),
      {
        fallback: undefined,
        text: 'a data directory that no node has open, or where one is to be',
        shown: 'the working directory, for its disk',
      },
    ),
    host: SERVING.host,
    port: option('PORT', optional(integer(0, 65_535)), {
      fallback: undefined,
      text: 'a port that is to be free',
      shown: 'none is looked at',
    }),
    adminPort: SERVING.adminPort,
    poolThreads: SERVING.poolThreads,
    sample: option('N', integer(0, 10_000_000), {
      fallback: 16,
      text: 'blocks and accounts of the directory that are verified; 0 is none',
    }),
    feedMs: option('MS', integer(100, 600_000), {
      fallback: 6_000,
      text: 'how long a feed is listened to',
    }),
    json: JSON_OUT,
    config: CONFIG_FILE,
    logLevel: WORKING.logLevel,
    logFormat: WORKING.logFormat,
  },
  defaults: () => ({}),
  problems({ chain, forkTime }) {
    const isAlone = chain === undefined && forkTime.length > 0
    return isAlone
      ? ['--fork-time needs the --chain whose forks it moves']
      : forkTimeProblems(forkTime)
  },
  async run(config) {
    const [{ runJob }, job] = await Promise.all([import('../shared/job.ts'), import('./doctor.ts')])
    await runJob(config, { run: (context) => job.runDoctor(config, context), fails: [] })
  },
})
