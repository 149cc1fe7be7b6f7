/** Reasons why an upstream gave no usable response. */

/** The error in a response, unchanged (JSON-RPC 2.0, 5.1). */
export type RpcFault = {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/**
 * `refused`: the response is an error. `limited`: the upstream wants fewer requests. `silent`: no
 * response came in time. `unreachable`: the call never left. `large`: the response exceeds the
 * limit. `broken`: the connection ended, or the response is malformed. `wrong`: the response
 * contradicts itself or the request. `foreign`: the upstream has another chain, and the call was
 * not sent.
 */
export type FailureKind =
  | 'refused'
  | 'limited'
  | 'silent'
  | 'unreachable'
  | 'large'
  | 'broken'
  | 'wrong'
  | 'foreign'

export class UpstreamError extends Error {
  override name = 'UpstreamError'
  readonly kind: FailureKind
  /** Set for `refused`. */
  readonly fault: RpcFault | undefined
  /** Set for `limited`: milliseconds without calls. */
  readonly retryAfterMs: number
  /** Text for clients that says more than the kind; it names no host. */
  readonly outside: string | undefined
  constructor(
    kind: FailureKind,
    message: string,
    more: {
      readonly fault?: RpcFault
      readonly retryAfterMs?: number
      readonly outside?: string
    } = {},
  ) {
    super(message)
    this.kind = kind
    this.fault = more.fault
    this.retryAfterMs = more.retryAfterMs ?? 0
    this.outside = more.outside
  }
}

export const isFault = (value: unknown): value is RpcFault => {
  if (typeof value !== 'object' || value === null) return false
  const { code, message } = value as { readonly code?: unknown; readonly message?: unknown }
  return Number.isSafeInteger(code) && typeof message === 'string'
}

/**
 * Describes the failure for clients, without an upstream's host or system messages.
 * @param who such as "the upstream" or "the sequencer"
 */
export function outsideText({ kind, fault, outside }: UpstreamError, who = 'the upstream'): string {
  if (outside !== undefined) return outside
  const said = fault === undefined ? '' : `: ${withoutAddresses(fault.message, who)}`
  return OUTSIDE[kind](who) + said
}

const OUTSIDE: Readonly<Record<FailureKind, (who: string) => string>> = {
  refused: (who) => `${who} refuses the call`,
  limited: (who) => `${who} wants fewer requests`,
  silent: (who) => `${who} gave no answer in time`,
  unreachable: (who) => `${who} cannot be reached`,
  large: (who) => `the answer of ${who} is too long`,
  broken: (who) => `${who} gave no answer that can be read`,
  wrong: (who) => `${who} gave a wrong answer`,
  foreign: (who) => `${who} has another chain`,
}

/**
 * Replaces URLs and addresses with a port, because another node's error may quote its own upstream.
 */
export const withoutAddresses = (text: string, who = 'the upstream'): string =>
  text.replace(URL_IN_TEXT, who).replace(ADDRESS_IN_TEXT, who)

const URL_IN_TEXT = /\b(?:https?|wss?):\/\/[^\s"'<>,;)]+/gi
const ADDRESS_IN_TEXT = /(?:\b\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]*:[0-9a-f:.]*\]):\d{1,5}\b/gi
