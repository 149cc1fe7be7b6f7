/** Opens upstreams by their URLs. */
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { foreignChain, foreignId } from '../../engine/sources/upstream/check.ts'
import { checkedUpstream } from '../../engine/sources/upstream/checked.ts'
import { createUpstream, type Upstream } from '../../engine/sources/upstream/client.ts'
import type { RpcFault } from '../../engine/sources/upstream/error.ts'
import type { UpstreamLimits } from '../../engine/sources/upstream/limits.ts'
import type { ClientOptions, Transport } from '../../engine/sources/upstream/messages.ts'
import type { Clock } from '../../engine/sources/upstream/permits.ts'
import { isBecause } from '../../rpc/core/errors.ts'
import { openHttp } from './http.ts'
import { openWebSocket } from './websocket.ts'

export const CLOCK: Clock = {
  now: () => performance.now(),
  after(ms, run) {
    let turn: NodeJS.Immediate | undefined
    /*
     * After a pause of the process, timers run before sockets are read. The setImmediate lets a
     * waiting response arrive before its timeout.
     */
    const timer = setTimeout(() => {
      turn = setImmediate(run)
    }, ms)
    return () => {
      clearTimeout(timer)
      clearImmediate(turn)
    }
  },
}

export type FollowedChain = Pick<ChainSpec, 'chainId' | 'genesisHash' | 'genesisNumber' | 'name'>

/** Parses a URL with http, https, ws or wss. @throws {Error} saying what was expected */
export function upstreamUrl(text: string): URL {
  if (!URL.canParse(text) || !/^(https?|wss?):$/.test(new URL(text).protocol))
    throw new Error('expected a URL such as https://host/path or wss://host/path')
  return new URL(text)
}

/** @param url a URL that `upstreamUrl` accepts */
export function openUpstream(
  url: string,
  limits: UpstreamLimits,
  more: Partial<Pick<ClientOptions, 'name' | 'onSent'>> = {},
): Upstream {
  const target = upstreamUrl(url)
  const open: (url: URL, maxBytes: number) => Transport = target.protocol.startsWith('ws')
    ? openWebSocket
    : openHttp
  return createUpstream({
    name: nameOf(target),
    transport: open(target, limits.upstreamAnswerBytes),
    limits,
    clock: CLOCK,
    isLimited,
    ...more,
  })
}

/** Recognises rate limits by their code, or by words if the code is generic. */
const isLimited = (fault: RpcFault): boolean =>
  isBecause(fault, 'limited') || /rate limit|too many requests/i.test(fault.message)

/** Messages omit path and query, because they may contain a key. */
const nameOf = ({ protocol, host }: URL): string => `${protocol}//${host}`

/**
 * Opens the upstreams in order, each with a unique name. The chain of each is checked before other
 * requests.
 */
export function openUpstreams(
  urls: readonly string[],
  limits: UpstreamLimits,
  chain: FollowedChain,
): readonly Upstream[] {
  const names = urls.map((url) => nameOf(upstreamUrl(url)))
  return urls.map((url, at) => {
    const name = names[at]!
    const before = names.slice(0, at).filter((one) => one === name).length
    const upstream = openUpstream(url, limits, {
      name: before === 0 ? name : `${name} (${before + 1})`,
    })
    return checkedUpstream(upstream, (options) => foreignChain(upstream, chain, options))
  })
}

/** @returns the node that takes transactions; it gets none if it has another chain */
export function openSequencer(
  url: string,
  limits: UpstreamLimits,
  chain: Pick<ChainSpec, 'chainId' | 'name'>,
): Upstream {
  const sequencer = openUpstream(url, limits)
  return checkedUpstream(sequencer, (options) => foreignId(sequencer, chain, options))
}
