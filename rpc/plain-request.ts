/**
 * Recognises the request that nearly every JSON-RPC client sends: POST to an endpoint, a JSON body whose length is said, nothing that asks
 * for special treatment. This is no HTTP parser: it knows a part of HTTP/1.1 that leaves nothing open, and what it does not know is left,
 * byte for byte, to Node's parser.
 */
import type { Endpoint } from '../engine/chain/types.ts'

export const ENDPOINTS: ReadonlyMap<string, Endpoint> = new Map([
  ['/', 'standard'],
  ['/flashblocks', 'flashblocks'],
])

export type PlainRules = {
  readonly bodyBytes: number
  /** Whether browsers of every origin get the same headers. */
  readonly isAnyOrigin: boolean
  readonly isHostAllowed: (host: string | undefined) => boolean
}
export type PlainRequest = {
  readonly endpoint: Endpoint
  readonly forwardedFor: string | undefined
  readonly body: string
}
type Head = Omit<PlainRequest, 'body'> & { readonly bodyBytes: number }

/** A longer one is left to Node. */
const HEAD_BYTES = 2_048
/** Clients send few different ones, but for the length: they are looked at once. */
const KNOWN_HEADS = 512
const END = '\r\n\r\n'

/** Gives undefined when the bytes are anything else than one whole plain request. */
export function createPlainReader(rules: PlainRules): (bytes: Buffer) => PlainRequest | undefined {
  const known = new Map<string, Head>()
  function look(text: string): Head | undefined {
    const head = headOf(text, rules)
    if (head === undefined) return undefined
    if (known.size >= KNOWN_HEADS) known.clear()
    known.set(text, head)
    return head
  }
  return (bytes) => {
    const end = bytes.subarray(0, HEAD_BYTES).indexOf(END, 0, 'latin1')
    if (end < 0) return undefined
    const text = bytes.toString('latin1', 0, end)
    const head = known.get(text) ?? look(text)
    const start = end + END.length
    if (head === undefined || bytes.length !== start + head.bodyBytes) return undefined
    const { endpoint, forwardedFor } = head
    return { endpoint, forwardedFor, body: bytes.toString('utf8', start) }
  }
}

const REQUEST_LINES: ReadonlyMap<string, Endpoint> = new Map(
  [...ENDPOINTS].map(([path, endpoint]) => [`POST ${path} HTTP/1.1`, endpoint]),
)
/** A token, and visible ASCII with single gaps inside: no control characters, no folded lines, nothing empty. */
const FIELD = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([!-~]+(?:[ \t]+[!-~]+)*)[ \t]*$/
const TYPE = /^application\/json(; ?charset=utf-8)?$/i
/** They change what a message is, or what is to be done with it. */
const UNUSUAL: ReadonlySet<string> = new Set([
  'content-encoding',
  'expect',
  'http2-settings',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

function headOf(text: string, rules: PlainRules): Head | undefined {
  const [requestLine, ...lines] = text.split('\r\n')
  const endpoint = REQUEST_LINES.get(requestLine!)
  const fields = fieldsOf(lines)
  if (endpoint === undefined || fields === undefined) return undefined
  const [host, length] = [fields.get('host'), fields.get('content-length')]
  const isPlain =
    host !== undefined &&
    length !== undefined &&
    /^[0-9]{1,9}$/.test(length) &&
    Number(length) <= rules.bodyBytes &&
    TYPE.test(fields.get('content-type') ?? '') &&
    (fields.get('connection') ?? 'keep-alive').toLowerCase() === 'keep-alive' &&
    (rules.isAnyOrigin || !fields.has('origin')) &&
    rules.isHostAllowed(host)
  if (!isPlain) return undefined
  return { endpoint, forwardedFor: fields.get('x-forwarded-for'), bodyBytes: Number(length) }
}

/** By lower-case name; undefined: one is unusual, or comes twice. */
function fieldsOf(lines: readonly string[]): ReadonlyMap<string, string> | undefined {
  const fields = new Map<string, string>()
  for (const line of lines) {
    const [, given, value] = FIELD.exec(line) ?? []
    const name = given?.toLowerCase()
    if (name === undefined || value === undefined) return undefined
    if (UNUSUAL.has(name) || fields.has(name)) return undefined
    fields.set(name, value)
  }
  return fields
}
