/**
 * Parses requests with llhttp, the parser of `node:http`, from the WebAssembly of undici. llhttp
 * alone decides what a request is, where it ends, and whether its connection persists. This class
 * only decides whether a request is plain.
 */
import { compileLlhttp } from './internals.ts'

/**
 * Result of parsing. 'complete': a full plain request; 'head' or 'body': the start of a request;
 * 'unusual': not plain, or beyond the limits of this reader; 'refused': no HTTP.
 */
export type Outcome = 'complete' | 'head' | 'body' | 'unusual' | 'refused'

/** Constants of llhttp. */
const REQUEST = 1
const POST = 3
const PAUSED = 21
/** Return value of a callback that stops the parser. */
const STOP = 24

/** Maximum bytes copied for the parser: one read of a socket behind a buffered request. */
export const INPUT_BYTES = 163_840
const MAX_URL = 16
/** Maximum headers; Node reads a request with more, and has its own limits. */
const MAX_HEADERS = 64
const MAX_HEAD_BYTES = 8_192

type Exports = {
  readonly memory: WebAssembly.Memory
  malloc(bytes: number): number
  llhttp_alloc(type: number): number
  llhttp_reset(parser: number): void
  llhttp_execute(parser: number, at: number, bytes: number): number
  llhttp_finish(parser: number): number
  llhttp_get_error_pos(parser: number): number
  llhttp_get_method(parser: number): number
  llhttp_get_http_major(parser: number): number
  llhttp_get_http_minor(parser: number): number
}

/** Bits of headers that this server uses. A plain request has each at most once. */
const HOST = 1
const CONTENT_TYPE = 2
const CONTENT_LENGTH = 4
const FORWARDED_FOR = 8
const MIN_FLASHBLOCK = 16
const ORIGIN = 32
const CONNECTION = 64
const ACCEPT_ENCODING = 128
/** Bit of headers that only Node handles. */
const UNUSUAL = 256
const NEEDED = HOST | CONTENT_TYPE | CONTENT_LENGTH

const codes = (text: string): readonly number[] => [...Buffer.from(text)]
const JSON_TYPE = codes('application/json')
const KEEP_ALIVE = codes('keep-alive')
/** Header names by their length. */
const NAMES: readonly (readonly (readonly [name: readonly number[], field: number])[])[] = namesOf([
  ['host', HOST],
  ['content-type', CONTENT_TYPE],
  ['content-length', CONTENT_LENGTH],
  ['x-forwarded-for', FORWARDED_FOR],
  ['x-min-flashblock', MIN_FLASHBLOCK],
  ['origin', ORIGIN],
  ['connection', CONNECTION],
  ['accept-encoding', ACCEPT_ENCODING],
  ['authorization', UNUSUAL],
  ['x-api-key', UNUSUAL],
  ['proxy-connection', UNUSUAL],
  ['content-encoding', UNUSUAL],
  ['transfer-encoding', UNUSUAL],
  ['expect', UNUSUAL],
  ['upgrade', UNUSUAL],
  ['trailer', UNUSUAL],
])

/**
 * Reads requests of all connections, one at a time. Its fields describe the last request. No state
 * carries over between two requests.
 */
export class RequestReader {
  url = ''
  host = ''
  /** Header values, as sent. */
  forwardedFor: string | undefined
  minFlashblock: string | undefined
  acceptEncoding: string | undefined
  hasOrigin = false
  /** Value of Content-Length. */
  bodyBytes = 0
  headers = 0
  /** Offset of the request's end in the bytes; the end may not have arrived. */
  end = 0
  /** Head of the last request, if it was plain. */
  #head = NOTHING
  readonly #llhttp: Exports
  readonly #parser: number
  readonly #input: number
  #memory: Uint8Array
  /**
   * Bytes copied to the parser's memory, and their end. A header or URL that reaches the end may be
   * incomplete.
   */
  #bytes: Buffer | undefined
  #limit = 0
  #field = 0
  #seen = 0
  #isUnusual = false
  #isHeadRead = false
  #isComplete = false
  /** Offset of the body, and its bytes so far. */
  #bodyAt = -1
  #read = 0

  constructor() {
    const env = this.#callbacks()
    this.#llhttp = new WebAssembly.Instance(compileLlhttp(), { env }).exports as unknown as Exports
    this.#parser = this.#llhttp.llhttp_alloc(REQUEST)
    this.#input = this.#llhttp.malloc(INPUT_BYTES)
    this.#memory = this.#view()
  }

  /** Reads the request at offset `from`. The body of a plain request ends at `end`. */
  read(bytes: Buffer, from: number): Outcome {
    const { length } = this.#head
    // Clients repeat the same head, so comparing it saves a microsecond of ten (2026-11).
    const isSame =
      length > 0 &&
      from + length <= bytes.length &&
      bytes.compare(this.#head, 0, length, from, from + length) === 0
    if (!isSame) return this.#parse(bytes, from)
    this.end = from + length + this.bodyBytes
    return this.end <= bytes.length ? 'complete' : 'body'
  }

  /**
   * Tells whether a connection that closes after these bytes ends inside a request. The bytes
   * contain no complete request.
   */
  isCutOff(bytes: Buffer): boolean {
    this.#parse(bytes, 0)
    return this.#llhttp.llhttp_finish(this.#parser) !== 0
  }

  #parse(bytes: Buffer, from: number): Outcome {
    this.#head = NOTHING
    if (bytes.length > INPUT_BYTES) return 'unusual'
    if (this.#bytes !== bytes) this.#load(bytes)
    this.#start()
    const { llhttp_reset, llhttp_execute, llhttp_get_error_pos } = this.#llhttp
    llhttp_reset(this.#parser)
    const fault = llhttp_execute(this.#parser, this.#input + from, bytes.length - from)
    if (this.#isUnusual) return 'unusual'
    if (this.#isComplete) this.end = llhttp_get_error_pos(this.#parser) - this.#input
    else if (fault !== 0) return 'refused'
    else if (!this.#isHeadRead) return bytes.length - from > MAX_HEAD_BYTES ? 'unusual' : 'head'
    else this.end = (this.#read > 0 ? this.#bodyAt : bytes.length) + this.bodyBytes
    const headEnd = this.end - this.bodyBytes
    if (headEnd - from > MAX_HEAD_BYTES) return 'unusual'
    this.#head = Buffer.from(bytes.subarray(from, headEnd))
    return this.#isComplete ? 'complete' : 'body'
  }

  #start(): void {
    this.forwardedFor = undefined
    this.minFlashblock = undefined
    this.acceptEncoding = undefined
    this.hasOrigin = false
    this.headers = 0
    this.#field = 0
    this.#seen = 0
    this.#isUnusual = false
    this.#isHeadRead = false
    this.#isComplete = false
    this.#read = 0
  }

  #view(): Uint8Array {
    return new Uint8Array(this.#llhttp.memory.buffer, this.#input, INPUT_BYTES)
  }
  #load(bytes: Buffer): void {
    // A memory that has grown has a new buffer.
    if (this.#memory.length === 0) this.#memory = this.#view()
    this.#memory.set(bytes)
    this.#bytes = bytes
    this.#limit = this.#input + bytes.length
  }

  #unusual(): number {
    this.#isUnusual = true
    return STOP
  }

  #callbacks() {
    return {
      wasm_on_message_begin: () => 0,
      wasm_on_status: () => 0,
      wasm_on_url: (_parser: number, at: number, length: number) => {
        if (at + length === this.#limit) return 0
        if (length > MAX_URL) return this.#unusual()
        this.url = length === 1 ? '/' : this.#textOf(at, length)
        return length === 1 && this.#memory[at - this.#input] !== SLASH ? this.#unusual() : 0
      },
      wasm_on_header_field: (_parser: number, at: number, length: number) => {
        if (++this.headers > MAX_HEADERS) return this.#unusual()
        if (at + length === this.#limit) return 0
        this.#field = this.#fieldOf(at - this.#input, length)
        if (this.#field === 0) return 0
        if ((this.#seen & this.#field) !== 0 || this.#field === UNUSUAL) return this.#unusual()
        this.#seen |= this.#field
        return 0
      },
      wasm_on_header_value: (_parser: number, at: number, length: number) => {
        const field = this.#field
        if (field === 0 || at + length === this.#limit) return 0
        this.#field = UNUSUAL // A second part of the value makes the request unusual.
        return this.#isPlain(field, at, length) ? 0 : this.#unusual()
      },
      wasm_on_headers_complete: (
        parser: number,
        _status: number,
        upgrade: number,
        isPersistent: number,
      ) => {
        const { llhttp_get_method, llhttp_get_http_major, llhttp_get_http_minor } = this.#llhttp
        this.#isHeadRead = true
        const isPlain =
          isPersistent === 1 &&
          upgrade === 0 &&
          (this.#seen & NEEDED) === NEEDED &&
          llhttp_get_method(parser) === POST &&
          llhttp_get_http_major(parser) === 1 &&
          llhttp_get_http_minor(parser) === 1
        return isPlain ? 0 : this.#unusual()
      },
      wasm_on_body: (_parser: number, at: number, length: number) => {
        if (this.#read === 0) this.#bodyAt = at - this.#input
        this.#read += length
        return 0
      },
      wasm_on_message_complete: () => {
        this.#isComplete = true
        return PAUSED
      },
    }
  }

  #fieldOf(at: number, length: number): number {
    const names = NAMES[length]
    if (names === undefined) return 0
    for (const [name, field] of names) if (this.#isText(name, at)) return field
    return 0
  }

  /**
   * Compares a text without regard to case.
   * @param text lower-case text
   */
  #isText(text: readonly number[], at: number): boolean {
    const memory = this.#memory
    for (let index = 0; index < text.length; index++)
      if ((memory[at + index]! | SMALL) !== text[index]) return false
    return true
  }
  #isExactly(text: readonly number[], at: number, length: number): boolean {
    if (length !== text.length) return false
    const memory = this.#memory
    for (let index = 0; index < length; index++)
      if (memory[at + index] !== text[index]) return false
    return true
  }

  /** Reads the value of a header. False: a plain request has no such value. */
  #isPlain(field: number, pointer: number, length: number): boolean {
    const at = pointer - this.#input
    // Node removes trailing space.
    if (length === 0 || this.#memory[at + length - 1]! <= SPACE) return false
    switch (field) {
      case HOST:
        this.host = this.#textOf(pointer, length)
        return true
      case CONTENT_TYPE:
        return this.#isExactly(JSON_TYPE, at, length)
      case CONTENT_LENGTH:
        this.bodyBytes = Number(this.#textOf(pointer, length))
        return this.bodyBytes <= Number.MAX_SAFE_INTEGER
      case FORWARDED_FOR:
        this.forwardedFor = this.#textOf(pointer, length)
        return true
      case MIN_FLASHBLOCK:
        this.minFlashblock = this.#textOf(pointer, length)
        return true
      case ACCEPT_ENCODING:
        this.acceptEncoding = this.#textOf(pointer, length)
        return true
      case ORIGIN:
        this.hasOrigin = true
        return true
      default:
        return field === CONNECTION && length === KEEP_ALIVE.length && this.#isText(KEEP_ALIVE, at)
    }
  }

  #textOf(pointer: number, length: number): string {
    const at = pointer - this.#input
    return this.#bytes!.toString('latin1', at, at + length)
  }
}

const NOTHING = Buffer.alloc(0)
const SLASH = 0x2f
const SPACE = 0x20
/** Bit that turns a capital letter into a small one. */
const SMALL = 0x20

function namesOf(all: readonly (readonly [name: string, field: number])[]) {
  const names: [name: readonly number[], field: number][][] = []
  for (const [name, field] of all) {
    names[name.length] ??= []
    names[name.length]!.push([codes(name), field])
  }
  return names
}
