/** Why a node is not ready, as its public page may say it: whom the node follows, and at which address, stays inside. */

const FOLLOWED = ['upstreams', 'feeds', 'leaders'] as const

/** @param details of /readyz, which name whom it follows */
export function publicReasons(
  reasons: readonly string[],
  details: Readonly<Record<string, unknown>>,
): readonly string[] {
  const names = FOLLOWED.flatMap((kind) => namesOf(details[kind]))
  return reasons.map((reason) => withoutNames(reason, names))
}

/** `feed 0 (host) is not connected` is told without the host; what goes on from a name may have its address again, and is cut off. */
function withoutNames(reason: string, names: readonly string[]): string {
  const bare = names.reduce((text, name) => text.replaceAll(` (${name})`, ''), reason)
  const places = names.map((name) => bare.indexOf(name)).filter((at) => at >= 0)
  if (places.length === 0) return bare
  const before = bare.slice(0, Math.min(...places)).replace(/[\s:,;(]+$/, '')
  return before === '' ? 'whom it follows is in doubt' : `${before} …`
}

const namesOf = (rows: unknown): readonly string[] =>
  Array.isArray(rows)
    ? rows
        .map(({ name }: { readonly name?: unknown }) => name)
        .filter((name): name is string => typeof name === 'string' && name !== '')
    : []
