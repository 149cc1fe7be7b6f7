/**
 * `flashnode doctor`: checks what an operator would check by hand before a node runs, or when it
 * misbehaves.
 */
import { defineCommand } from '../../config/command.ts'
import { FORK_TIME, forkTimeProblems } from '../../config/fork-time.ts'
import { integer, list, option, optional, orWord, url } from '../../config/option.ts'
import { CHAIN, CONFIG_FILE, JSON_OUT, WORKING } from '../../config/options.ts'
import { SERVING } from '../../config/serving-options.ts'

export const doctor = defineCommand({
  name: 'doctor',
  summary:
    'checks the machine, upstreams, feeds, ports and the data directory of a node, and says what to do',
  heading: 'Diagnostics',
  examples: [
    '',
    '--chain xlayer --upstream https://node.example --feed wss://feed.example --datadir DIR --port 8545',
  ],
  flags: {
    chain: CHAIN,
    forkTime: FORK_TIME,
    upstream: option('URL,…', list(url('http', 'https', 'ws', 'wss')), {
      fallback: [],
      text: 'upstreams to check',
      defaultText: 'none',
    }),
    feed: option('URL,…|none', orWord('none', list(url('ws', 'wss'))), {
      fallback: [],
      text: 'flashblocks feeds to check',
      defaultText: 'none',
    }),
    datadir: option(
      'DIR',
      optional((wire) => wire),
      {
        fallback: undefined,
        text: 'data directory to check; no node may have it open, and it may be absent',
        defaultText: 'none; the disk of the working directory is checked',
      },
    ),
    host: SERVING.host,
    port: option('PORT', optional(integer(0, 65_535)), {
      fallback: undefined,
      text: 'port that must be free',
      defaultText: 'none',
    }),
    adminPort: SERVING.adminPort,
    poolThreads: SERVING.poolThreads,
    sample: option('N', integer(0, 10_000_000), {
      fallback: 16,
      text: 'number of random blocks and accounts of the directory to verify; 0 is none',
    }),
    feedMs: option('MS', integer(100, 600_000), {
      fallback: 6_000,
      text: 'how long the command listens to each feed',
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
      ? ['--fork-time needs --chain, which names the chain of the forks']
      : forkTimeProblems(forkTime)
  },
  async run(config) {
    const [{ runJob }, job] = await Promise.all([import('../shared/job.ts'), import('./doctor.ts')])
    await runJob(config, { run: (context) => job.runDoctor(config, context), fails: [] })
  },
})
