/** Leaders whose feeds are applied: what their flags must not say. */
import { isIP } from 'node:net'
import { isPrivate } from '../../../rpc/seam/address.ts'
import { tokenProblems } from '../../config/token-file.ts'
import { MOST_LEADERS } from '../../leaders/limits.ts'
import type { FollowConfig } from './flags.ts'

type Leading = Pick<FollowConfig, 'apply' | 'applyTokenFile' | 'upstream' | 'feed'>

/** What is wrong between the flags. */
export function leaderProblems({ apply, applyTokenFile, upstream, feed }: Leading): string[] {
  const found = [...tokenProblems(applyTokenFile)]
  if (apply.length > MOST_LEADERS)
    found.push(`--apply names ${apply.length} leaders, at most ${MOST_LEADERS}`)
  const leaders = new Set(apply.map(hostOf))
  if (leaders.size < apply.length) found.push('--apply names a leader twice')
  for (const one of upstream)
    if (leaders.has(hostOf(one)))
      found.push(
        `--upstream ${hostOf(one)} is a leader of --apply: its blocks have to be held against those of another node`,
      )
  if (apply.length > 0 && feed.length > 0 && feed.every((one) => leaders.has(hostOf(one))))
    found.push(
      '--feed names leaders of --apply alone: a feed of our own is what they are held against',
    )
  for (const one of apply)
    if (isPublicInTheClear(one))
      found.push(`--apply ${hostOf(one)} is no private address: give wss://`)
  return found
}

/** With the port, also where it is that of the scheme. */
function hostOf(text: string): string {
  const { hostname, port, protocol } = new URL(text)
  const isPlain = protocol === 'ws:' || protocol === 'http:'
  return `${hostname}:${port === '' ? (isPlain ? 80 : 443) : port}`
}

/** Names are looked up when they are connected to. */
function isPublicInTheClear(text: string): boolean {
  const { hostname, protocol } = new URL(text)
  const host = hostname.replace(/^\[|\]$/g, '')
  return protocol === 'ws:' && isIP(host) !== 0 && !isPrivate(host)
}
