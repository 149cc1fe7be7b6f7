/**
 * Requests as llhttp reads them: the parser of `node:http`, as the WebAssembly that undici ships. What a request is, where it ends and
 * whether its connection goes on is its word alone; here it is only asked whether a request is a plain one.
 */
import { createRequire } from 'node:module'

/**
 * 'whole': a plain request is here; 'head', 'body': so much of one that its rest may come; 'unusual': it is no plain one, or says more
 * than is read here; 'refused': it is no HTTP.
 */
export type Outcome = 'whole' | 'head' | 'body' | 'unusual' | 'refused'

/** llhttp's own numbers (its `constants`). */
const REQUEST = 1
const POST = 3
const PAUSED = 21
/** Of whoever uses it: it is not to go on. */
const STOP = 24

/** What is copied for the parser at most: what one read of a socket brings, behind what was kept of a request. */
export const INPUT_BYTES = 163_840
const MOST_URL = 16
/** A request of more is Node's, which knows how much it may have. */
const MOST_HEADERS = 64
const MOST_HEAD_BYTES = 8_192

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

/** Headers that say something to this server, each at most once in a plain request. */
const HOST = 1
const CONTENT_TYPE = 2
const CONTENT_LENGTH = 4
const FORWARDED_FOR = 8
const MIN_FLASHBLOCK = 16
const ORIGIN = 32
const CONNECTION = 64
const ACCEPT_ENCODING = 128
/** What only Node knows to answer to. */
const UNUSUAL = 256
const NEEDED = HOST | CONTENT_TYPE | CONTENT_LENGTH

const codes = (text: string): readonly number[] => [...Buffer.from(text)]
const JSON_TYPE = codes('application/json')
const KEEP_ALIVE = codes('keep-alive')
/** By the length of their names. */
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

/** Reads one request after the other; what it says of the last one stands until the next. One for all connections: between two it knows nothing. */
export class RequestReader {
  url = ''
  host = ''
  /** As they were sent. */
  forwardedFor: string | undefined
  minFlashblock: string | undefined
  acceptEncoding: string | undefined
  hasOrigin = false
  /** Content-Length. */
  bodyBytes = 0
  headers = 0
  /** Where it ends, or will end once it is whole. */
  end = 0
  /** Of the request that was read last, where it is a plain one. */
  #head = NOTHING
  readonly #llhttp: Exports
  readonly #parser: number
  readonly #input: number
  #memory: Uint8Array
  /** What lies in the memory, and where that ends: what reaches it may not be all. */
  #bytes: Buffer | undefined
  #limit = 0
  #field = 0
  #seen = 0
  #isUnusual = false
  #isHeadRead = false
  #isWhole = false
  /** Of the body that is here. */
  #bodyAt = -1
  #read = 0

  constructor() {
    const env = this.#callbacks()
    this.#llhttp = new WebAssembly.Instance(compile(), { env }).exports as unknown as Exports
    this.#parser = this.#llhttp.llhttp_alloc(REQUEST)
    this.#input = this.#llhttp.malloc(INPUT_BYTES)
    this.#memory = this.#view()
  }

  /** The request that begins at `from`. The bytes of a plain body stand before its `end`. */
  read(bytes: Buffer, from: number): Outcome {
    const { length } = this.#head
    // Clients say the same each time, and the same bytes are read the same: a microsecond of ten (2026-11).
    const isSame =
      length > 0 &&
      from + length <= bytes.length &&
      bytes.compare(this.#head, 0, length, from, from + length) === 0
    if (!isSame) return this.#parse(bytes, from)
    this.end = from + length + this.bodyBytes
    return this.end <= bytes.length ? 'whole' : 'body'
  }

  /** Whether a connection that ends behind these bytes, of which none is a whole request, ends within one. */
  isCutOff(bytes: Buffer): boolean {
    this.#parse(bytes, 0)
    return this.#llhttp.llhttp_finish(this.#parser) !== 0
  }

  #parse(bytes: Buffer, from: number): Outcome {
    this.#head = NOTHING
    if (bytes.length > INPUT_BYTES) return 'unusual'
    if (this.#bytes !== bytes) this.#load(bytes)
    this.#begin()
    const { llhttp_reset, llhttp_execute, llhttp_get_error_pos } = this.#llhttp
    llhttp_reset(this.#parser)
    const fault = llhttp_execute(this.#parser, this.#input + from, bytes.length - from)
    if (this.#isUnusual) return 'unusual'
    if (this.#isWhole) this.end = llhttp_get_error_pos(this.#parser) - this.#input
    else if (fault !== 0) return 'refused'
    else if (!this.#isHeadRead) return bytes.length - from > MOST_HEAD_BYTES ? 'unusual' : 'head'
    else this.end = (this.#read > 0 ? this.#bodyAt : bytes.length) + this.bodyBytes
    const headEnd = this.end - this.bodyBytes
    if (headEnd - from > MOST_HEAD_BYTES) return 'unusual'
    this.#head = Buffer.from(bytes.subarray(from, headEnd))
    return this.#isWhole ? 'whole' : 'body'
  }

  #begin(): void {
    this.forwardedFor = undefined
    this.minFlashblock = undefined
    this.acceptEncoding = undefined
    this.hasOrigin = false
    this.headers = 0
    this.#field = 0
    this.#seen = 0
    this.#isUnusual = false
    this.#isHeadRead = false
    this.#isWhole = false
    this.#read = 0
  }

  #view(): Uint8Array {
    return new Uint8Array(this.#llhttp.memory.buffer, this.#input, INPUT_BYTES)
  }
  #load(bytes: Buffer): void {
    // Memory that has grown has another buffer.
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
        if (length > MOST_URL) return this.#unusual()
        this.url = length === 1 ? '/' : this.#textOf(at, length)
        return length === 1 && this.#memory[at - this.#input] !== SLASH ? this.#unusual() : 0
      },
      wasm_on_header_field: (_parser: number, at: number, length: number) => {
        if (++this.headers > MOST_HEADERS) return this.#unusual()
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
        this.#field = UNUSUAL // A value in two parts.
        return this.#isPlain(field, at, length) ? 0 : this.#unusual()
      },
      wasm_on_headers_complete: (
        parser: number,
        _status: number,
        upgrade: number,
        isKept: number,
      ) => {
        const { llhttp_get_method, llhttp_get_http_major, llhttp_get_http_minor } = this.#llhttp
        this.#isHeadRead = true
        const isPlain =
          isKept === 1 &&
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
        this.#isWhole = true
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

  /** @param text in small letters; capitals are as good */
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

  /** Takes the value of a header; false: it is none that a plain request has. */
  #isPlain(field: number, pointer: number, length: number): boolean {
    const at = pointer - this.#input
    // Node takes away space behind it.
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
/** Makes a small letter of a capital. */
const SMALL = 0x20

function compile(): WebAssembly.Module {
  const bytes = createRequire(import.meta.url)('undici/lib/llhttp/llhttp_simd-wasm.js') as Buffer
  return new WebAssembly.Module(new Uint8Array(bytes))
}

function namesOf(all: readonly (readonly [name: string, field: number])[]) {
  const names: [name: readonly number[], field: number][][] = []
  for (const [name, field] of all) {
    names[name.length] ??= []
    names[name.length]!.push([codes(name), field])
  }
  return names
}
