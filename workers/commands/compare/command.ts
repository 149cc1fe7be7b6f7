/** `flashnode compare`: sends the same requests to two nodes. */

import { defineCommand } from '../../config/command.ts'
import { integer, list, option, optional, text, url } from '../../config/option.ts'
import { JSON_OUT, WORKING } from '../../config/options.ts'

export const compare = defineCommand({
  name: 'compare',
  summary: 'sends two nodes the same requests, and reports where their answers differ',
  heading: 'Diagnostics',
  examples: [
    'http://127.0.0.1:8545/ https://other.example',
    'http://127.0.0.1:8545/ https://other.example --blocks 1000-1020 --methods eth_getBlockReceipts,eth_call --out differences',
    'http://127.0.0.1:8545/ https://other.example --replay differences/0001-eth_call.json',
  ],
  flags: {
    methods: option('NAME,…', optional(list(text)), {
      fallback: undefined,
      text: 'methods to call',
      defaultText: 'all whose answers do not depend on time',
      isOwn: true,
    }),
    blocks: option('N|FROM-TO', blocks, {
      fallback: { newest: 4 },
      text: 'number of newest blocks that both nodes have, or a range of blocks',
      defaultText: '4',
    }),
    perBlock: option('N', integer(1, 10_000), {
      fallback: 8,
      text: 'transactions and addresses of each block that requests are about',
    }),
    rate: option('N', integer(1, 100_000), {
      fallback: 90,
      text: 'requests per second to each node',
    }),
    known: option('FILE', optional(text), {
      fallback: undefined,
      text: 'file of known differences that are right, a JSON list of {method, path, kind, why}',
    }),
    out: option('DIR', optional(text), {
      fallback: undefined,
      text: 'directory for files of requests with different answers, one file each',
    }),
    replay: option('FILE', optional(text), {
      fallback: undefined,
      text: 'send only the request of such a file again',
    }),
    json: JSON_OUT,
    config: WORKING.config,
    logLevel: WORKING.logLevel,
    logFormat: WORKING.logFormat,
  },
  operands: { value: 'URL', min: 2, max: 2, decode: url('http', 'https', 'ws', 'wss') },
  defaults: () => ({}),
  async run(config, [a, b]) {
    const [{ runJob }, job] = await Promise.all([
      import('../shared/job.ts'),
      import('./compare.ts'),
    ])
    const urls = [a!, b!] as const
    await runJob(config, {
      run: (context) => job.runCompare({ ...config, urls }, context),
      fails: job.FAILS,
    })
  },
})

function blocks(wire: string) {
  const [, from, to] = /^(\d{1,15})-(\d{1,15})$/.exec(wire) ?? []
  if (from !== undefined && Number(from) <= Number(to))
    return { from: Number(from), to: Number(to) }
  if (/^[1-9]\d{0,5}$/.test(wire)) return { newest: Number(wire) }
  throw new Error('expected a number of blocks, or a range such as 100-120')
}
