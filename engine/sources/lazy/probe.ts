/** Probes the depth of all upstreams. */
import type { ChainSpec } from '../../chainspec/types.ts'
import { Refusal } from '../../primitives/json-fields.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import { headOf } from './agree.ts'
import { type Depth, depthIn, type LazyMode, type Probed, probeDepth } from './depth.ts'
import type { LazySource } from './start.ts'

export type ProbedUpstream = { readonly upstream: Upstream; readonly depth: Depth }
export type Probing = {
  /** Upstreams that answer, in the order of naming. */
  readonly probed: readonly ProbedUpstream[]
  /** Reasons why the other upstreams were not probed. */
  readonly silent: readonly string[]
  /** Message about an upstream with another chain. */
  readonly foreign: string | undefined
}

/** @param upstreams fail as `foreign` if they have another chain */
export async function probeAll(upstreams: readonly Upstream[], chain: ChainSpec): Promise<Probing> {
  const found = await Promise.all(upstreams.map((upstream) => probeOne(upstream, chain)))
  return {
    probed: found.filter((one) => typeof one === 'object' && 'depth' in one),
    silent: found.flatMap((one) => ('silent' in one ? [one.silent] : [])),
    foreign: found.flatMap((one) => ('foreign' in one ? [one.foreign] : []))[0],
  }
}

async function probeOne(
  upstream: Upstream,
  chain: ChainSpec,
): Promise<ProbedUpstream | { readonly silent: string } | { readonly foreign: string }> {
  try {
    const head = await headOf(upstream, 'latest', {})
    if (head === undefined) return { silent: `${upstream.name}: it has no latest block` }
    const first = Number(chain.genesisNumber)
    return { upstream, depth: await probeDepth(upstream, { ...head, first }) }
  } catch (error) {
    if (!(error instanceof UpstreamError || error instanceof Refusal)) throw error
    if (error instanceof UpstreamError && error.kind === 'foreign')
      return { foreign: error.message }
    return {
      silent: error instanceof Refusal ? `${upstream.name}: ${error.message}` : error.message,
    }
  }
}

/** Returns sources of this mode. Upstreams that give no state are included, because they vote. */
export const sourcesIn = (mode: LazyMode, probed: readonly ProbedUpstream[]): LazySource[] =>
  probed.map(({ upstream, depth }) => ({
    upstream,
    depth: depthIn(mode, depth),
  }))

export const namedIn = (probed: readonly ProbedUpstream[]): Probed[] =>
  probed.map(({ upstream: { name }, depth }) => ({ name, depth }))
