/** How late a node may be for whoever asks for its readiness: a load balancer says it in its question. */

/** A day: whoever means longer means never. */
const MOST_LAG_MS = 86_400_000

/** `maxLagMs` of the URL, in milliseconds; undefined: it does not say. */
export function maxLagOf(
  url: string | undefined,
): { readonly maxLagMs: number | undefined } | { readonly wrong: string } {
  const question = (url ?? '').indexOf('?')
  const said = question < 0 ? [] : new URLSearchParams(url!.slice(question)).getAll('maxLagMs')
  if (said.length === 0) return { maxLagMs: undefined }
  const [text = ''] = said
  const maxLagMs = /^\d{1,8}$/.test(text) ? Number(text) : 0
  if (said.length === 1 && maxLagMs >= 1 && maxLagMs <= MOST_LAG_MS) return { maxLagMs }
  return {
    wrong: `maxLagMs is one whole number of milliseconds from 1 to ${MOST_LAG_MS}, not "${said.join('", "').slice(0, 64)}"`,
  }
}
