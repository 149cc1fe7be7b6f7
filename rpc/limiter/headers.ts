/** Rate-limit headers of HTTP responses. */
import type { Refusal } from '../core/errors.ts'

/** Returns the headers of a response with status 429. */
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
