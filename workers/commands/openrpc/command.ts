/** `flashnode openrpc`: prints the methods of an endpoint without starting a node. */
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
      text: 'endpoint whose methods are listed',
    }),
    methods: option('SET', choice('all', 'standard'), {
      fallback: 'all',
      text: 'all methods, or those of the X Layer service',
      isOwn: true,
    }),
    form: option('NAME', choice('json', 'markdown'), {
      fallback: 'json',
      text: 'json: the document; markdown: a page for people',
    }),
    config: CONFIG_FILE,
    ...LIMIT_FLAGS,
  },
  defaults: () => ({}),
  async run(config) {
    const { openrpcText } = await import('./openrpc.ts')
    const { print } = await import('../shared/print.ts')
    await print(openrpcText({ ...config, limits: limitsOf(config) }))
  },
})
