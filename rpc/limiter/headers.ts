/** What an HTTP answer says of the rate limit. */
import type { Refusal } from '../seam/errors.ts'

/** For whoever is sent away with 429. */
export function headersOfRefusal({
  limit,
  used,
  retryAfterMs,
}: Refusal): Readonly<Record<string, string>> {
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000))
  return {
    'Retry-After': String(seconds),
    RateLimit: `"address";r=${Math.max(0, limit - used)};t=${seconds}`,
    'RateLimit-Policy': `"address";q=${limit};w=1`,
  }
}
