/** Explains failed requests to another node for its operator: the cause and the remedy. */

type Failed = {
  readonly name?: string
  readonly code?: string
  readonly message?: string
  readonly errors?: readonly Failed[]
  /** Received data that is not HTTP: text in errors of fetch, bytes in errors of ws. */
  readonly data?: unknown
  readonly rawPacket?: unknown
}

/**
 * Returns the reason of a failure. fetch only reports "fetch failed" with a cause, and has one
 * cause for each address that failed.
 */
export function reasonOf(error: unknown): string {
  const failed = causeOf(error)
  const { message = '' } = failed
  const code = codeOf(error) ?? ''
  const known = REASONS[code] ?? reasonOfTls(code, message) ?? reasonOfBytes(code, failed)
  if (known !== undefined) return known
  if (message === 'unexpected redirect') return 'it redirects: use the URL that it redirects to'
  return message.trim() || code || String(error)
}

function causeOf(error: unknown): Failed {
  const { cause = error } = error as { readonly cause?: unknown }
  return (cause as Failed).errors?.[0] ?? (cause as Failed)
}

/** Returns an error code that clients may see, because it contains no host. */
export function codeOf(error: unknown): string | undefined {
  const { cause = error } = error as { readonly cause?: unknown }
  const code = causeOf(error).code ?? (cause as Failed).code
  return code !== undefined && /^[A-Z][A-Z0-9_]*$/.test(code) ? code : undefined
}

const CUT = 'it closed the connection without a response: if it speaks TLS, use https:// or wss://'
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (ECONNREFUSED): start that node, or check host and port',
  ENOTFOUND:
    'its host name is unknown (ENOTFOUND): check its spelling, and the DNS of this machine',
  EAI_AGAIN: 'its host name cannot be resolved now (EAI_AGAIN): check the DNS of this machine',
  EHOSTUNREACH: 'its host is unreachable (EHOSTUNREACH): check the network in between',
  ENETUNREACH: 'its network is unreachable (ENETUNREACH): check the network of this machine',
  ETIMEDOUT: 'its host does not respond (ETIMEDOUT): check the network and firewalls in between',
  UND_ERR_CONNECT_TIMEOUT: 'its host does not respond: check the network and firewalls in between',
  UND_ERR_SOCKET: CUT,
  ECONNRESET: CUT,
}

function reasonOfTls(code: string, message: string): string | undefined {
  if (/wrong.version.number|packet.length.too.long|http.request/i.test(`${code} ${message}`))
    return 'it does not speak TLS: use http:// or ws:// instead of https:// or wss://'
  if (/CERT|SELF_SIGNED|ISSUER|ALTNAME/.test(code))
    return `its certificate is not accepted (${code}): give it a certificate of a known authority, or name its authority in NODE_EXTRA_CA_CERTS`
  if (code === 'EPROTO' || code.startsWith('ERR_SSL_'))
    return 'the TLS handshake fails: check that it speaks TLS 1.2 or newer, or use http:// or ws://'
  return undefined
}

/** First bytes of a TLS record: an alert or a handshake, and the major version. */
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
    ? 'it speaks TLS: use https:// or wss:// instead of http:// or ws://'
    : 'its response is not HTTP: check its port'
}

/**
 * Explains a response that is not JSON-RPC.
 * @param text start of its body, as far as known
 */
export function reasonOfResponse(status: number, text: string): string {
  const known = STATUSES[status]
  if (known !== undefined) return `HTTP ${status}: ${known}`
  if (status >= 500) return `HTTP ${status}: it or a server behind it fails: check that node`
  if (/plain http request was sent to https/i.test(text))
    return `HTTP ${status}: it speaks TLS: use https:// or wss:// instead of http:// or ws://`
  if (status >= 300)
    return `HTTP ${status}: check its URL, which does not lead to a JSON-RPC endpoint`
  if (/^\s*</.test(text))
    return 'a web page instead of JSON: check its URL, which does not lead to a JSON-RPC endpoint'
  return text.trim() === ''
    ? 'an empty body: check its URL, which may not lead to a JSON-RPC endpoint'
    : 'data that is not JSON: check its URL, which may not lead to a JSON-RPC endpoint'
}

const LOGIN = 'it requires a key, or a user and a password: put them into its URL'
const UPSTREAM_DOWN =
  'the node behind it does not respond: check that node, or wait until it is back'
const STATUSES: Readonly<Record<number, string>> = {
  401: LOGIN,
  403: 'it refuses this client: check the key, and the addresses that it admits',
  404: 'it has no such path: check the path of its URL',
  407: 'a proxy in between requires a login',
  429: 'it wants fewer requests: set a lower --upstream-rate, or ask its operator for a higher limit',
  502: UPSTREAM_DOWN,
  503: UPSTREAM_DOWN,
  504: UPSTREAM_DOWN,
}
