/** Maximum lag of a node for `/readyz`, which a load balancer sends in its request. */

/** Maximum value, a day; a longer lag would never be reached. */
const MAX_LAG_MS = 86_400_000

/** Reads `maxLagMs` of a URL, in milliseconds; undefined when it is missing. */
export function maxLagOf(
  url: string | undefined,
): { readonly maxLagMs: number | undefined } | { readonly wrong: string } {
  const question = (url ?? '').indexOf('?')
  const said = question < 0 ? [] : new URLSearchParams(url!.slice(question)).getAll('maxLagMs')
  if (said.length === 0) return { maxLagMs: undefined }
  const [text = ''] = said
  const maxLagMs = /^\d{1,8}$/.test(text) ? Number(text) : 0
  if (said.length === 1 && maxLagMs >= 1 && maxLagMs <= MAX_LAG_MS) return { maxLagMs }
  return {
    wrong: `maxLagMs: expected one integer of milliseconds from 1 to ${MAX_LAG_MS}, got "${said.join('", "').slice(0, 64)}"`,
  }
}
