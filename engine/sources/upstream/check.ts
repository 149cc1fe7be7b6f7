/** Checks an upstream's chain by its chain id and genesis block. */

import type { ChainSpec } from '../../chainspec/types.ts'
import { bytesToHex, quantity } from '../../primitives/hex.ts'
import type { Upstream } from './client.ts'
import { UpstreamError } from './error.ts'
import type { CallOptions } from './messages.ts'

/**
 * Checks whether an upstream has another chain. Only another chain id or genesis hash counts; any
 * other response is an error, and the upstream is asked again.
 * @returns what is wrong, in one line; undefined: nothing
 * @throws {UpstreamError} without a response; 'wrong' when the response is no chain id or block
 */
export async function foreignChain(
  upstream: Upstream,
  chain: Pick<ChainSpec, 'chainId' | 'genesisHash' | 'genesisNumber' | 'name'>,
  options: CallOptions = {},
): Promise<string | undefined> {
  const { name } = upstream
  const number = chain.genesisNumber
  const calls = [
    { method: 'eth_chainId', params: [] },
    { method: 'eth_getBlockByNumber', params: [quantity(number), false] },
  ]
  const [id, first] = await upstream.batch(calls, options)
  if (id === undefined || first === undefined)
    throw new UpstreamError('broken', `${name} is silent`)
  if ('error' in id) throw id.error
  if ('error' in first) throw first.error
  const theirs = String(id.result).toLowerCase()
  if (!CHAIN_ID.test(theirs))
    throw new UpstreamError(
      'wrong',
      `${name} gives ${JSON.stringify(theirs.slice(0, 40))} as its chain id`,
    )
  if (theirs !== quantity(chain.chainId))
    return `${name} has chain ${format(theirs)}, not ${chain.chainId} (${chain.name}): give another --upstream, or another --chain`
  // The node may be starting, or be one of several behind its address, so its chain is unknown.
  if (first.result === null) throw new UpstreamError('wrong', `${name} has no block ${number}`)
  const hash = (first.result as { readonly hash?: unknown } | null)?.hash
  const ours = bytesToHex(chain.genesisHash)
  if (typeof hash !== 'string' || !HASH.test(hash))
    throw new UpstreamError('wrong', `${name} gives what is no block for block ${number}`)
  if (hash.toLowerCase() === ours) return undefined
  return `${name} has block ${hash} as ${number}, the first of ${chain.name} is ${ours}: give another --upstream, or another --chain`
}

/**
 * Checks a node that takes transactions and may give no blocks. Only its chain id is compared, if
 * it gives one.
 * @throws {UpstreamError} without a response
 */
export async function foreignId(
  upstream: Upstream,
  chain: Pick<ChainSpec, 'chainId' | 'name'>,
  options: CallOptions = {},
): Promise<string | undefined> {
  try {
    const id = String(await upstream.call('eth_chainId', [], options)).toLowerCase()
    if (!CHAIN_ID.test(id) || id === quantity(chain.chainId)) return undefined
    return `${upstream.name} has chain ${format(id)}, not ${chain.chainId} (${chain.name}): give another --sequencer, or another --chain`
  } catch (error) {
    if (error instanceof UpstreamError && error.kind === 'refused') return undefined
    throw error
  }
}

/** Lower case, at most 64 bits. */
const CHAIN_ID = /^0x[0-9a-f]{1,16}$/
const HASH = /^0x[0-9a-f]{64}$/i

const format = (id: string): string => `${BigInt(id)}`
