/** The package's API for programs: a node for a test, in the same process or as a child. */
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
  FlashblockPosition,
  Head,
  Hex,
  ListeningNode,
  LocalNode,
  NodeOptions,
  Provider,
  ProviderMessage,
} from './types.ts'

/**
 * Starts a development chain like `flashnode dev`, and resolves when it is ready.
 * Several nodes may run in one process, each with its own data directory: a temporary one unless
 * `datadir` is given. The environment is ignored.
 * @throws {Error} with the command line's message
 */
export function createNode(options: NodeOptions & { readonly port: 'none' }): Promise<LocalNode>
export function createNode(
  options?: NodeOptions & { readonly port?: number | undefined },
): Promise<ListeningNode>
export async function createNode(options: NodeOptions = {}): Promise<LocalNode> {
  const endpoints = {
    standard: openEndpoint('standard', (name, body) => started.request(name, body)),
    flashblocks: openEndpoint('flashblocks', (name, body) => started.request(name, body)),
  }
  const started = await start({
    argv: argvOf(options),
    hasPort: options.port !== 'none',
    onMessage: (name, text) => endpoints[name].onMessage(text),
  })
  try {
    const { provider } = endpoints.flashblocks
    const feed = openFeed(provider)
    if (options.feed === 'scripted') await feed.pause()
    const chainId = Number(await provider.request<Hex>({ method: 'eth_chainId' }))
    const accounts = DEV_ACCOUNTS as LocalNode['accounts']
    return Object.assign(provider, {
      sealed: endpoints.standard.provider,
      chainId,
      accounts,
      feed,
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
