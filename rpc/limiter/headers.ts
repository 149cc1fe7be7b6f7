/** What an HTTP answer says of the rate limit. */
import type { Refusal } from '../seam/errors.ts'

/** For whoever is sent away with 429. */
export function headersOfRefusal(refusal: Refusal): Readonly<Record<string, string>> {
  const { limit, used, retryAfterMs } = refusal
  const bucket = refusal.bucket ?? 'address'
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000))
  return {
    'Retry-After': String(seconds),
    RateLimit: `"${bucket}";r=${Math.max(0, limit - used)};t=${seconds}`,
    'RateLimit-Policy': `"${bucket}";q=${limit};w=1`,
  }
}
