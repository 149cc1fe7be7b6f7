/** What the package gives to programs: a node for a test, in the process where its Node can run one, else beside it. */
import { DEV_ACCOUNTS } from '../../engine/chainspec/dev-accounts.ts'
import { isEnough } from '../process/node-version.ts'
import { openFeed } from './feed.ts'
import { argvOf } from './options.ts'
import { openEndpoint } from './provider.ts'
import type { Started, StartOptions } from './transport.ts'
import type { Hex, ListeningNode, LocalNode, NodeOptions } from './types.ts'

export type {
  Account,
  Feed,
  Head,
  Hex,
  ListeningNode,
  LocalNode,
  NodeOptions,
  Place,
  Provider,
  ProviderMessage,
} from './types.ts'

/**
 * Starts a development chain of its own, as `flashnode dev` does, and resolves when it is ready. Several may run in one process, each on
 * a data directory of its own: a temporary one, unless `datadir` is given. Variables of the environment are not read.
 * @throws {Error} whose message says what is wrong, as the command line does
 */
export function createNode(options: NodeOptions & { readonly port: 'none' }): Promise<LocalNode>
export function createNode(
  options?: NodeOptions & { readonly port?: number | undefined },
): Promise<ListeningNode>
export async function createNode(options: NodeOptions = {}): Promise<LocalNode> {
  const endpoints = {
    standard: openEndpoint('standard', (name, body) => started.ask(name, body)),
    flashblocks: openEndpoint('flashblocks', (name, body) => started.ask(name, body)),
  }
  const started = await start({
    argv: argvOf(options),
    hasPort: options.port !== 'none',
    tell: (name, text) => endpoints[name].hear(text),
  })
  try {
    const { provider } = endpoints.flashblocks
    const feed = openFeed(provider)
    if (options.feed === 'scripted') await feed.pause()
    const chainId = Number(await provider.request<Hex>({ method: 'eth_chainId' }))
    const accounts = DEV_ACCOUNTS as LocalNode['accounts']
    return Object.assign(provider, {
      ...{ sealed: endpoints.standard.provider, chainId, accounts, feed },
      ...addresses(started.url),
      close: started.close,
      [Symbol.asyncDispose]: started.close,
    })
  } catch (error) {
    await started.close()
    throw error
  }
}

async function start(options: StartOptions): Promise<Started> {
  if (isEnough(process.versions.node))
    return (await import('./in-process.ts')).startInProcess(options)
  return (await import('./child.ts')).startChild(options)
}

const addresses = (url: string) =>
  url === ''
    ? {}
    : {
        url,
        flashblocksUrl: `${url}/flashblocks`,
        feedUrl: `${url.replace(/^http/, 'ws')}/feed`,
      }
