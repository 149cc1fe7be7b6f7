/** Text that a following node prints at its start. */
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { version } from '../../config/config.ts'
import type { FollowConfig } from './flags.ts'

/** Only the host is printed, because a path or a query may contain a key. */
const hostOf = (url: string): string => new URL(url).host

export function banner(
  { name, chainId }: ChainSpec,
  { upstream, feed }: Pick<FollowConfig, 'upstream' | 'feed'>,
): string {
  const feeds = feed.length === 0 ? 'no feed' : `feeds ${feed.map(hostOf).join(', ')}`
  return `flashnode ${version()}: follows ${name} (${chainId}), upstreams ${upstream.map(hostOf).join(', ')}, ${feeds}\n`
}
