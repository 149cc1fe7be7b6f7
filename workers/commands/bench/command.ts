/** `flashnode bench`: measures how fast nodes answer requests that any node can answer. */
import { defineCommand } from '../../config/command.ts'
import { integer, option, optional, text, url } from '../../config/option.ts'
import { JSON_OUT, WORKING } from '../../config/options.ts'

export const bench = defineCommand({
  name: 'bench',
  summary: 'measures how fast nodes answer requests about their newest blocks',
  heading: 'Diagnostics',
  examples: [
    'http://127.0.0.1:8545/',
    'http://127.0.0.1:8545/ https://other.example --seconds 5 --rounds 3 --only eth_call',
  ],
  flags: {
    seconds: option('N', integer(1, 3_600), {
      fallback: 3,
      text: 'seconds that each workload runs at each node in each round',
    }),
    rounds: option('N', integer(1, 100), {
      fallback: 3,
      text: 'number of measured rounds; the table has their median',
    }),
    connections: option('N', integer(1, 1_024), {
      fallback: 16,
      text: 'connections at a time, each with one unanswered request; expensive workloads use a quarter of them',
    }),
    blocks: option('N', integer(1, 1_024), {
      fallback: 32,
      text: 'newest blocks that all nodes have; the requests are about them',
    }),
    only: option('TEXT', optional(text), {
      fallback: undefined,
      text: 'run only workloads whose name contains this text',
      defaultText: 'all',
    }),
    json: JSON_OUT,
    config: WORKING.config,
    logLevel: WORKING.logLevel,
    logFormat: WORKING.logFormat,
  },
  operands: { value: 'URL', min: 1, max: 8, decode: url('http', 'https') },
  defaults: () => ({}),
  async run(config, urls) {
    const [{ runJob }, job] = await Promise.all([import('../shared/job.ts'), import('./bench.ts')])
    await runJob(config, {
      run: (context) => job.runBench({ ...config, urls }, context),
      fails: job.FAILS,
    })
  },
})
