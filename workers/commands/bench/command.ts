/** `flashnode bench`: how fast nodes answer what can be asked of any. */
import { defineCommand } from '../../config/command.ts'
import { integer, option, optional, text, url } from '../../config/option.ts'
import { JSON_OUT, WORKING } from '../../config/options.ts'

export const bench = defineCommand({
  name: 'bench',
  summary: 'asks nodes in turns what their newest blocks allow, and how fast each is',
  heading: 'What is wrong, and what happened',
  examples: [
    'http://127.0.0.1:8545/',
    'http://127.0.0.1:8545/ https://other.example --seconds 5 --rounds 3 --only eth_call',
  ],
  flags: {
    seconds: option('N', integer(1, 3_600), {
      fallback: 3,
      text: 'of each workload at each node in each round',
    }),
    rounds: option('N', integer(1, 100), {
      fallback: 3,
      text: 'turns, of which the middle one is told',
    }),
    connections: option('N', integer(1, 1_024), {
      fallback: 16,
      text: 'at a time, each with one request on its way; of dear workloads a quarter',
    }),
    blocks: option('N', integer(1, 1_024), {
      fallback: 32,
      text: 'newest blocks that all nodes have, which questions are made of',
    }),
    only: option('TEXT', optional(text), {
      fallback: undefined,
      text: 'workloads whose name has this',
      shown: 'all',
    }),
    json: JSON_OUT,
    config: WORKING.config,
    logLevel: WORKING.logLevel,
    logFormat: WORKING.logFormat,
  },
  operands: { value: 'URL', least: 1, most: 8, decode: url('http', 'https') },
  defaults: () => ({}),
  async run(config, urls) {
    const [{ runJob }, job] = await Promise.all([import('../shared/job.ts'), import('./bench.ts')])
    await runJob(config, {
      run: (context) => job.runBench({ ...config, urls }, context),
      fails: job.FAILS,
    })
  },
})
