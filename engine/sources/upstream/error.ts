/** Why an upstream gave no answer that can be used. */

/** The error of its answer, as it came (JSON-RPC 2.0, 5.1). */
export type RpcFault = {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/**
 * `refused`: it answered with an error. `limited`: it wants fewer requests. `silent`: no answer in time. `unreachable`: the call never
 * left. `large`: the answer is longer than it may be. `broken`: the connection ended, or what came is no answer. `wrong`: the answer
 * contradicts itself or what was asked.
 */
export type FailureKind =
  | 'refused'
  | 'limited'
  | 'silent'
  | 'unreachable'
  | 'large'
  | 'broken'
  | 'wrong'

export class UpstreamError extends Error {
  override name = 'UpstreamError'
  readonly kind: FailureKind
  /** Of `refused`. */
  readonly fault: RpcFault | undefined
  /** Of `limited`: how long it wants to be left alone. */
  readonly retryAfterMs: number
  constructor(
    kind: FailureKind,
    message: string,
    more: { readonly fault?: RpcFault; readonly retryAfterMs?: number } = {},
  ) {
    super(message)
    this.kind = kind
    this.fault = more.fault
    this.retryAfterMs = more.retryAfterMs ?? 0
  }
}

export const isFault = (value: unknown): value is RpcFault => {
  if (typeof value !== 'object' || value === null) return false
  const { code, message } = value as { readonly code?: unknown; readonly message?: unknown }
  return Number.isSafeInteger(code) && typeof message === 'string'
}
