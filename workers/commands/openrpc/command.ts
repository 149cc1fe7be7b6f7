/** `flashnode openrpc`: what an endpoint serves, without a node. */
import { defineCommand } from '../../config/command.ts'
import { choice, option } from '../../config/option.ts'
import { CONFIG_FILE, LIMIT_FLAGS, limitsOf } from '../../config/options.ts'

export const openrpc = defineCommand({
  name: 'openrpc',
  summary: "prints the OpenRPC document of an endpoint, as a node's rpc.discover does",
  heading: 'More',
  examples: ['', '--form markdown'],
  flags: {
    endpoint: option('NAME', choice('flashblocks', 'standard'), {
      fallback: 'flashblocks',
      text: 'whose methods',
    }),
    methods: option('SET', choice('all', 'standard'), {
      fallback: 'all',
      text: 'all, or those that the service lists',
      isOwn: true,
    }),
    form: option('NAME', choice('json', 'markdown'), {
      fallback: 'json',
      text: 'the document, or a page of it for people',
    }),
    config: CONFIG_FILE,
    ...LIMIT_FLAGS,
  },
  defaults: () => ({}),
  async run(config) {
    const { openrpcText } = await import('./openrpc.ts')
    const { say } = await import('../shared/said.ts')
    await say(openrpcText({ ...config, limits: limitsOf(config) }))
  },
})
