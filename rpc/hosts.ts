/** Which Host headers are served: a name that a stranger's page was made to point at this node is not (DNS rebinding). */
import { isIP } from 'node:net'

/**
 * Loopback names, literal addresses (no page can own one) and `names` pass; '*' lets all pass. A request without a Host header
 * (HTTP/1.0) comes from no browser and passes.
 */
export function createHostCheck(names: readonly string[]): (host: string | undefined) => boolean {
  if (names.includes('*')) return () => true
  const allowed = new Set(['localhost', ...names.map((name) => name.toLowerCase())])
  const isAllowed = (name: string) =>
    allowed.has(name) || isIP(name) !== 0 || name.endsWith('.localhost')
  // Clients say the same each time.
  let last = { host: 'localhost', isAllowed: true }
  return (host) => {
    if (host === undefined) return true
    if (host !== last.host) last = { host, isAllowed: isAllowed(nameOf(host)) }
    return last.isAllowed
  }
}

/** Without port and brackets. */
function nameOf(host: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(host)
  return (bracketed?.[1] ?? host.replace(/:\d*$/, '')).toLowerCase()
}
