/** An instance of the module: its functions, and views of its memory. */
import { getRandomValues } from 'node:crypto'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { type Exports, type Layout, layoutOf } from './module.ts'

/** Functions that the module calls while it runs (asm/host/imports.ts). */
export type HostCalls = Readonly<{
  stop(why: number): void
  poll(): void
  account(): number
  slot(): number
  hasSlots(): number
  code(): number
  blockHash(low: number, high: number): number
  precompile(id: number, input: number, length: number): number
  enter(kind: number, input: number, length: number): void
  exit(halt: number, output: number, length: number): void
  step(frame: number, op: number, halt: number): void
  text(at: number, length: number, steps: number): void
  log(at: number): void
}>

/** Lets a test make host calls fail, or count them. */
export type AroundHost = (calls: HostCalls) => HostCalls

/**
 * Maximum bytes of all idle instances of a thread. WebAssembly memory never shrinks, so an instance
 * beyond this limit is dropped.
 */
export const RETAINED_BYTES = 32 << 20

/**
 * `auto` translates code that runs again, `precise` interprets all code, `stream` translates all
 * code. The first is the default.
 */
export const ENGINE_TIERS = ['auto', 'precise', 'stream'] as const
export type EngineTier = (typeof ENGINE_TIERS)[number]

/**
 * Runs of code on its bytes before its translation runs (asm/translation/translate.ts). Init code
 * and traced runs are never translated.
 */
const STREAM_RUNS: Readonly<Record<EngineTier, number>> = {
  auto: 1,
  stream: 0,
  precise: 0xffffffff,
}

export type InstanceOptions = {
  readonly tier?: EngineTier | undefined
  readonly around?: AroundHost | undefined
}
const same: AroundHost = (calls) => calls

export class Instance {
  readonly exports: Exports
  readonly layout: Layout
  /** Host calls of the session that uses the instance. */
  calls: HostCalls | undefined
  /** True after the constant texts of steps were written. */
  hasTexts = false
  /** The rules that its tables are written for. */
  rules: unknown
  /** True after a trap; its memory is then undefined. */
  isBroken = false
  #bytes: Bytes
  #words: Uint32Array<ArrayBuffer>
  #data: DataView
  #requested: HostRequest

  constructor(module: WebAssembly.Module, { tier = 'auto', around = same }: InstanceOptions = {}) {
    const { exports } = new WebAssembly.Instance(module, { host: around(importsOf(this)) })
    this.exports = exports as Exports
    this.layout = layoutOf(exports as Readonly<Record<string, unknown>>)
    this.#bytes = NO_BYTES
    this.#words = new Uint32Array(0)
    this.#data = new DataView(new ArrayBuffer(0))
    this.#requested = { address: this.#words, key: this.#words, hash: this.#bytes }
    this.#poll()
    getRandomValues(this.#bytes.subarray(this.layout.ASKED, this.layout.ASKED + 16))
    this.exports.initialize()
    this.exports.setStreamRuns(STREAM_RUNS[tier])
  }

  /** Views are valid until the memory grows, which every call of the module may cause. */
  get bytes(): Bytes {
    if (this.#bytes.length === 0) this.#poll()
    return this.#bytes
  }
  get words(): Uint32Array<ArrayBuffer> {
    if (this.#bytes.length === 0) this.#poll()
    return this.#words
  }
  get data(): DataView {
    if (this.#bytes.length === 0) this.#poll()
    return this.#data
  }
  /** Arguments of the module's current import call. */
  get requested(): HostRequest {
    if (this.#bytes.length === 0) this.#poll()
    return this.#requested
  }

  /** Bytes of linear memory. */
  get size(): number {
    return this.exports.memory.buffer.byteLength
  }

  /** Copies a range of the memory. */
  slice(at: number, length: number): Bytes {
    return this.bytes.slice(at, at + length)
  }
  /** Copies a word as 32 bytes, big endian. */
  word(at: number): Bytes {
    return this.slice(at, 32).reverse()
  }
  /** Copies the low 20 bytes of a word, big endian. */
  address(at: number): Bytes {
    return this.slice(at, 20).reverse()
  }
  number(at: number): bigint {
    const { data } = this
    const low = data.getBigUint64(at, true)
    const [second, third, fourth] = [8, 16, 24].map((limb) => data.getBigUint64(at + limb, true))
    if ((second! | third! | fourth!) === 0n) return low
    return (fourth! << 192n) | (third! << 128n) | (second! << 64n) | low
  }
  putNumber(at: number, value: bigint): void {
    const { data } = this
    data.setBigUint64(at, value, true)
    const isSmall = value >> 64n === 0n
    for (const limb of LIMBS)
      data.setBigUint64(at + limb, isSmall ? 0n : value >> BigInt(8 * limb), true)
  }
  /** Writes big-endian bytes as a word. */
  putWord(at: number, value: Bytes): void {
    const { bytes } = this
    bytes.fill(0, at, at + 32)
    for (let byte = 0; byte < value.length; byte++)
      bytes[at + value.length - 1 - byte] = value[byte]!
  }

  #poll(): void {
    const { buffer } = this.exports.memory
    const { ASKED } = this.layout
    this.#bytes = new Uint8Array(buffer)
    this.#words = new Uint32Array(buffer)
    this.#data = new DataView(buffer)
    this.#requested = {
      address: new Uint32Array(buffer, ASKED, 5),
      key: new Uint32Array(buffer, ASKED + 32, 8),
      hash: this.#bytes.subarray(ASKED, ASKED + 32),
    }
  }
}

const LIMBS = [8, 16, 24] as const

type HostRequest = {
  readonly address: Uint32Array<ArrayBuffer>
  readonly key: Uint32Array<ArrayBuffer>
  readonly hash: Bytes
}

function importsOf(instance: Instance): HostCalls {
  return {
    stop: (why) => instance.calls!.stop(why),
    poll: () => instance.calls!.poll(),
    account: () => instance.calls!.account(),
    slot: () => instance.calls!.slot(),
    hasSlots: () => instance.calls!.hasSlots(),
    code: () => instance.calls!.code(),
    blockHash: (low, high) => instance.calls!.blockHash(low, high),
    precompile: (id, input, length) => instance.calls!.precompile(id, input, length),
    enter: (kind, input, length) => instance.calls!.enter(kind, input, length),
    exit: (halt, output, length) => instance.calls!.exit(halt, output, length),
    step: (frame, op, halt) => instance.calls!.step(frame, op, halt),
    text: (at, length, steps) => instance.calls!.text(at, length, steps),
    log: (at) => instance.calls!.log(at),
  }
}

export type IdleInstances = {
  take(): Instance
  /** Retains the instance for the next session unless it is broken or too large. */
  give(instance: Instance): void
}

/** Maximum idle instances: as many as sessions are usually open at once in a thread. */
const MAX_IDLE = 3

export function idleInstances(
  module: WebAssembly.Module,
  options?: InstanceOptions,
): IdleInstances {
  const idle: Instance[] = []
  return {
    take: () => idle.pop() ?? new Instance(module, options),
    give(instance) {
      instance.calls = undefined
      if (instance.isBroken || idle.length >= MAX_IDLE) return
      const idleBytes = idle.reduce((bytes, one) => bytes + one.size, 0)
      if (idleBytes + instance.size <= RETAINED_BYTES) idle.push(instance)
    },
  }
}
