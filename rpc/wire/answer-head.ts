/** Answers as text, as Node writes them: the same lines for whoever reads them. */
import type { OutgoingHttpHeaders } from 'node:http'
import type { Answer } from '../seam/exchange.ts'

// An import would also load what `node:http` exports of undici: 40 ms of every start (2026-11).
const { STATUS_CODES, validateHeaderName, validateHeaderValue } =
  process.getBuiltinModule('node:http')

export interface AnswerHeads {
  /** Of an answer of so many bytes. @throws for a header that no head can have */
  of(answer: Pick<Answer, 'status' | 'headers'>, bytes: number): string
  /** All of an answer without text. @throws as above */
  withoutText(answer: Pick<Answer, 'status' | 'headers'>): string
}

/** Statuses that have no body (RFC 9110 6.4.1). */
const BODILESS: ReadonlySet<number> = new Set([204, 304])

/**
 * @param own headers of every answer
 * @param clock milliseconds since 1970
 */
export function createAnswerHeads(
  own: OutgoingHttpHeaders,
  { keepAliveMs, clock }: { readonly keepAliveMs: number; readonly clock: () => number },
): AnswerHeads {
  const kept = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1_000)}\r\n`
  let second = -1
  let end = ''
  /** Most answers have the headers of the one before. */
  let last: Answer['headers'] | undefined
  let lastLines = ''

  function endOf(headers: Answer['headers']): string {
    const now = Math.floor(clock() / 1_000)
    if (now !== second) {
      second = now
      end = `Date: ${new Date(now * 1_000).toUTCString()}\r\n${kept}`
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
