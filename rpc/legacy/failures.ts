/** Why a request to another node came to nothing, for its operator: what happened, and what to do. */

type Failed = {
  readonly name?: string
  readonly code?: string
  readonly message?: string
  readonly errors?: readonly Failed[]
  /** What is no HTTP: text of fetch, bytes of ws. */
  readonly data?: unknown
  readonly rawPacket?: unknown
}

/** fetch says "fetch failed" and why in the cause; several addresses that all fail have one cause each. */
export function reasonOf(error: unknown): string {
  const failed = causeOf(error)
  const { message = '' } = failed
  const code = codeOf(error) ?? ''
  const known = REASONS[code] ?? reasonOfTls(code, message) ?? reasonOfBytes(code, failed)
  if (known !== undefined) return known
  if (message === 'unexpected redirect') return 'it redirects: give the URL that it leads to'
  return message.trim() || code || String(error)
}

function causeOf(error: unknown): Failed {
  const { cause = error } = error as { readonly cause?: unknown }
  return (cause as Failed).errors?.[0] ?? (cause as Failed)
}

/** For clients, because it names no host. */
export function codeOf(error: unknown): string | undefined {
  const { cause = error } = error as { readonly cause?: unknown }
  const code = causeOf(error).code ?? (cause as Failed).code
  return code !== undefined && /^[A-Z][A-Z0-9_]*$/.test(code) ? code : undefined
}

const CUT = 'it closed the connection without an answer: say https:// or wss:// if it speaks TLS'
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (ECONNREFUSED): start that node, or look at host and port',
  ENOTFOUND: 'its host name is not known (ENOTFOUND): look at its spelling, and at the DNS here',
  EAI_AGAIN: 'its host name cannot be looked up now (EAI_AGAIN): look at the DNS here',
  EHOSTUNREACH: 'its host cannot be reached (EHOSTUNREACH): look at the network between',
  ENETUNREACH: 'its network cannot be reached (ENETUNREACH): look at the network here',
  ETIMEDOUT: 'its host does not answer (ETIMEDOUT): look at the network and firewalls between',
  UND_ERR_CONNECT_TIMEOUT: 'its host does not answer: look at the network and firewalls between',
  UND_ERR_SOCKET: CUT,
  ECONNRESET: CUT,
}

function reasonOfTls(code: string, message: string): string | undefined {
  if (/wrong.version.number|packet.length.too.long|http.request/i.test(`${code} ${message}`))
    return 'it speaks no TLS: say http:// or ws:// in place of https:// or wss://'
  if (/CERT|SELF_SIGNED|ISSUER|ALTNAME/.test(code))
    return `its certificate is not accepted (${code}): give it one of a known authority, or name that authority in NODE_EXTRA_CA_CERTS`
  if (code === 'EPROTO' || code.startsWith('ERR_SSL_'))
    return 'the TLS handshake fails: look whether it speaks TLS 1.2 or newer, or say http:// or ws://'
  return undefined
}

/** First bytes of a record of TLS: an alert or a handshake, and the version's major number. */
const TLS_ALERT = 0x15
const TLS_HANDSHAKE = 0x16
const TLS_MAJOR = 3

function reasonOfBytes(code: string, { name, data, rawPacket }: Failed): string | undefined {
  if (name !== 'HTTPParserError' && !code.startsWith('HPE_')) return undefined
  const [type, major] =
    rawPacket instanceof Uint8Array
      ? rawPacket
      : [...String(data ?? '').slice(0, 2)].map((letter) => letter.charCodeAt(0))
  return (type === TLS_ALERT || type === TLS_HANDSHAKE) && major === TLS_MAJOR
    ? 'it speaks TLS: say https:// or wss:// in place of http:// or ws://'
    : 'it answers with what is not HTTP: look at its port'
}

/**
 * An answer that is no JSON-RPC.
 * @param text the beginning of its body, as far as it is known
 */
export function reasonOfAnswer(status: number, text: string): string {
  const known = STATUSES[status]
  if (known !== undefined) return `HTTP ${status}: ${known}`
  if (status >= 500) return `HTTP ${status}: it fails, or what stands behind it: look at that node`
  if (/plain http request was sent to https/i.test(text))
    return `HTTP ${status}: it speaks TLS: say https:// or wss:// in place of http:// or ws://`
  if (status >= 300) return `HTTP ${status}: look at its URL, which is that of no JSON-RPC`
  if (/^\s*</.test(text))
    return 'a web page, and no JSON: look at its URL, which is that of no JSON-RPC'
  return text.trim() === ''
    ? 'nothing: look at its URL, which may be that of no JSON-RPC'
    : 'something that is not JSON: look at its URL, which may be that of no JSON-RPC'
}

const LOGIN = 'it wants a key, or a user and a password: put them into its URL'
const BEHIND = 'the node behind it does not answer: look at that node, or wait until it is back'
const STATUSES: Readonly<Record<number, string>> = {
  401: LOGIN,
  403: 'it refuses this client: look at its key, and at the addresses that it admits',
  404: 'it has no such path: look at the path of its URL',
  407: 'a proxy between wants a login',
  429: 'it wants fewer requests: give a lower --upstream-rate, or ask for a higher bound there',
  502: BEHIND,
  503: BEHIND,
  504: BEHIND,
}
