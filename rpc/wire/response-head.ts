/** Writes the heads of responses as text, with the same lines as Node. */
import type { OutgoingHttpHeaders } from 'node:http'
import type { RpcResponse } from '../core/exchange.ts'

// An import would also load the parts of undici that `node:http` exports: 40 ms of every start
// (2026-11).
const { STATUS_CODES, validateHeaderName, validateHeaderValue } =
  process.getBuiltinModule('node:http')

export interface ResponseHeads {
  /**
   * Returns the head of a response with `bytes` of body.
   * @throws for an invalid header
   */
  of(response: Pick<RpcResponse, 'status' | 'headers'>, bytes: number): string
  /**
   * Returns the whole response without a body.
   * @throws for an invalid header
   */
  withoutText(response: Pick<RpcResponse, 'status' | 'headers'>): string
}

/** Statuses that have no body (RFC 9110 6.4.1). */
const BODILESS: ReadonlySet<number> = new Set([204, 304])

/**
 * Creates the writer of heads.
 * @param own headers of every response
 * @param options `clock` gives milliseconds since 1970
 */
export function createResponseHeads(
  own: OutgoingHttpHeaders,
  { keepAliveMs, clock }: { readonly keepAliveMs: number; readonly clock: () => number },
): ResponseHeads {
  const persistent = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1_000)}\r\n`
  let second = -1
  let end = ''
  /** Headers of the previous response, because most responses repeat them. */
  let last: RpcResponse['headers'] | undefined
  let lastLines = ''

  function endOf(headers: RpcResponse['headers']): string {
    const now = Math.floor(clock() / 1_000)
    if (now !== second) {
      second = now
      end = `Date: ${new Date(now * 1_000).toUTCString()}\r\n${persistent}`
    }
    if (headers !== last) {
      lastLines = linesOf({ ...(own as Readonly<Record<string, string>>), ...headers })
      last = headers
    }
    return lastLines + end
  }

  return {
    of: ({ status, headers }, bytes) =>
      `${statusLine(status)}content-type: application/json\r\ncontent-length: ${bytes}\r\n${endOf(headers)}\r\n`,
    withoutText({ status, headers }) {
      const head = `${statusLine(status)}${endOf(headers)}`
      return BODILESS.has(status)
        ? `${head}\r\n`
        : `${head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`
    },
  }
}

const statusLine = (status: number): string =>
  status === 200 ? 'HTTP/1.1 200 OK\r\n' : `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`

function linesOf(headers: Readonly<Record<string, string>>): string {
  let lines = ''
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    if (!ASCII.test(value)) throw new Error(`the header ${name} is not plain ASCII`)
    lines += `${name}: ${value}\r\n`
  }
  return lines
}
const ASCII = /^[\t -~]*$/
