/** Methods about the node and its chain. */
import { keccak256 } from '../../engine/primitives/keccak.ts'
import { failed } from '../core/errors.ts'
import { blockId, bytes } from '../json/codecs.ts'
import {
  booleanResult,
  hashResult,
  plainResult,
  quantityResult,
  stringResult,
} from '../json/results.ts'
import { frontMethod, optional, param, poolMethod } from '../method/method.ts'
import { LATEST, resolveBlock } from '../method/resolve.ts'
import { forkConfigs } from './shared/fork-config.ts'

const LISTED = ['standard', 'flashblocks'] as const

export const eth_chainId = frontMethod({
  name: 'eth_chainId',
  summary: 'Chain id of this network.',
  listed: LISTED,
  params: [],
  result: quantityResult('Chain ID'),
  handler: ({ chain }) => chain.chainId,
})

export const net_version = frontMethod({
  name: 'net_version',
  summary: 'Network id as a decimal string.',
  listed: LISTED,
  params: [],
  result: stringResult('Network ID'),
  handler: ({ chain }) => chain.chainId.toString(),
})

export const eth_blockNumber = frontMethod({
  name: 'eth_blockNumber',
  summary: 'Height of the latest block, or of the block that the tag names.',
  listed: LISTED,
  params: [optional('Block', blockId, LATEST)],
  result: quantityResult('Block number'),
  handler: ({ view }, selector) =>
    selector === LATEST ? view.latest.number : resolveBlock(view, selector).number,
})

/** It runs in a worker, because only workers have an engine, which lists the precompiles. */
export const eth_config = poolMethod({
  name: 'eth_config',
  summary:
    'Configurations of three forks: that of the latest block, the next one and the last one.',
  runs: 'call',
  params: [],
  result: plainResult('Configuration', { type: 'object' }),
  handler({ chain, engine, view }) {
    const configs = forkConfigs(chain, engine, resolveBlock(view, LATEST).header)
    if (configs === undefined)
      throw failed('the latest block is before Cancun, where EIP-7910 defines no configuration')
    return configs
  },
})

export const eth_syncing = frontMethod({
  name: 'eth_syncing',
  summary: 'False, or the progress of the node while it syncs.',
  listed: LISTED,
  params: [],
  result: {
    name: 'Syncing status',
    schema: { oneOf: [{ type: 'boolean' }, { type: 'object' }] },
    text: (status: false | Readonly<Record<string, bigint>>) =>
      status === false
        ? 'false'
        : JSON.stringify(status, (_key, value: unknown) =>
            typeof value === 'bigint' ? `0x${value.toString(16)}` : value,
          ),
  },
  handler: ({ services }) => services.syncing(),
})

export const eth_protocolVersion = frontMethod({
  name: 'eth_protocolVersion',
  summary: 'Always zero, because the node has no peers and no protocol version.',
  listed: LISTED,
  params: [],
  result: quantityResult('Protocol version'),
  handler: () => 0,
})

export const eth_getCompilers = frontMethod({
  name: 'eth_getCompilers',
  summary: 'Always empty, because the node has no compilers.',
  listed: LISTED,
  params: [],
  result: plainResult('Compilers', { type: 'array', items: { type: 'string' } }),
  handler: () => [],
})

export const net_listening = frontMethod({
  name: 'net_listening',
  summary: 'Always true: the node accepts connections.',
  params: [],
  result: booleanResult('Listening'),
  handler: () => true,
})

export const net_peerCount = frontMethod({
  name: 'net_peerCount',
  summary: 'Always zero: blocks come from a feed, so the node has no peers.',
  params: [],
  result: quantityResult('Peers'),
  handler: () => 0,
})

export const web3_clientVersion = frontMethod({
  name: 'web3_clientVersion',
  summary: 'Name and version of this node.',
  listed: LISTED,
  params: [],
  result: stringResult('Client version'),
  handler: ({ services }) => services.clientVersion,
})

export const web3_sha3 = frontMethod({
  name: 'web3_sha3',
  summary: 'Keccak-256 of the data.',
  listed: LISTED,
  isPure: true,
  params: [param('Data', bytes)],
  result: hashResult('Hash'),
  handler: (_context, data) => keccak256(data),
})

export const rpc_modules = frontMethod({
  name: 'rpc_modules',
  summary: 'Namespaces of this endpoint, with their versions.',
  params: [],
  result: plainResult('Modules', { type: 'object' }),
  handler: ({ services, client }) => services.modules[client.endpoint],
})

export const eth_flashblocksEnabled = frontMethod({
  name: 'eth_flashblocksEnabled',
  summary: 'Whether this endpoint has a pending block that is still under construction.',
  params: [],
  result: booleanResult('Enabled'),
  handler: ({ readNewest, client }) =>
    client.endpoint === 'flashblocks' &&
    readNewest(({ pending, latest }) => pending.number > latest.number),
})
