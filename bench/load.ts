/**
 * Load of keep-alive connections, each with one question at a time, made when it is asked: two connections never ask the same unless they
 * are told to. Times are exact, and an error in an answer is counted, which is a success of HTTP.
 */
import { connect, type Socket } from 'node:net'

export type Load = {
  readonly url: string
  readonly connections: number
  /** JSON of the next question; undefined: there is none. */
  next(): string | undefined
}
export type Loaded = {
  readonly answers: number
  /** To the last answer. */
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly errors: number
  readonly firstError: string | undefined
}
type Tally = {
  readonly latenciesMs: number[]
  errors: number
  firstError: string | undefined
}

/** Until there is no further question and all have their answers. @throws where a connection ends before its answer */
export async function load({ url, connections, next }: Load): Promise<Loaded> {
  const tally: Tally = { latenciesMs: [], errors: 0, firstError: undefined }
  const started = performance.now()
  await Promise.all(Array.from({ length: connections }, () => ask(new URL(url), next, tally)))
  const seconds = (performance.now() - started) / 1_000
  const sorted = tally.latenciesMs.toSorted((a, b) => a - b)
  const percentile = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0
  return {
    answers: sorted.length - tally.errors,
    seconds,
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
    errors: tally.errors,
    firstError: tally.firstError,
  }
}

/** Questions of one connection; a server may end it after an answer that says so. */
function ask(url: URL, next: Load['next'], tally: Tally): Promise<void> {
  const head = `POST ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\ncontent-type: application/json\r\ncontent-length: `
  return new Promise((resolve, reject) => {
    let socket: Socket
    let sent = 0
    const reader = createReader((answer) => {
      tally.latenciesMs.push(performance.now() - sent)
      if (answer.status !== 200 || ERROR.test(answer.text)) {
        tally.errors++
        tally.firstError ??= `${answer.status} ${answer.text.slice(0, 300)}`
      }
      if (answer.isLast) open()
      else send()
    })
    function send(): void {
      const body = next()
      if (body === undefined) {
        resolve()
        socket.destroy()
        return
      }
      sent = performance.now()
      socket.write(`${head}${body.length}\r\n\r\n${body}`, 'latin1')
    }
    function open(): void {
      socket?.removeAllListeners('close').destroy()
      socket = connect(Number(url.port), url.hostname, send)
      socket.setNoDelay(true)
      socket.on('data', reader)
      socket.on('error', reject)
      socket.on('close', () => reject(new Error('the server closed a connection')))
    }
    open()
  })
}
const ERROR = /"error":\s*\{/

type Answer = { readonly status: number; readonly text: string; readonly isLast: boolean }
/** Of a body that is longer, the begin is looked at: it says whether it is an error. */
const LOOKED_AT = 65_536
const END_OF_CHUNKS = '\r\n0\r\n\r\n'

/** Reads one answer after the other, with a length or in chunks, keeping no more of a body than is looked at. */
function createReader(done: (answer: Answer) => void): (chunk: Buffer) => void {
  let head: string | undefined
  let early: Buffer = Buffer.alloc(0)
  let text = ''
  let tail = ''
  /** Bytes to come; undefined where chunks say it. */
  let missing: number | undefined

  function body(chunk: Buffer): void {
    if (text.length < LOOKED_AT) text += chunk.toString('latin1', 0, LOOKED_AT)
    if (missing === undefined)
      tail = (
        tail + chunk.toString('latin1', Math.max(0, chunk.length - END_OF_CHUNKS.length))
      ).slice(-END_OF_CHUNKS.length)
    else missing -= chunk.length
    if (missing === undefined ? tail !== END_OF_CHUNKS : missing > 0) return
    const answer = {
      status: Number(head!.slice(9, 12)),
      text,
      isLast: /\r\nconnection: close/i.test(head!),
    }
    head = undefined
    text = ''
    tail = ''
    early = Buffer.alloc(0)
    done(answer)
  }

  return (chunk) => {
    if (head !== undefined) return body(chunk)
    early = early.length === 0 ? chunk : Buffer.concat([early, chunk])
    const end = early.indexOf('\r\n\r\n')
    if (end < 0) return
    head = early.toString('latin1', 0, end)
    const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1]
    missing = length === undefined ? undefined : Number(length)
    body(early.subarray(end + 4))
  }
}
