/**
 * Shared memory of a task: carries its calls to a worker, and their replies back. The memory of a
 * task whose worker was ended is never used again.
 */
import type { Endpoint, FlashblockId } from '../../engine/chain/types.ts'
import type { Reads } from '../../engine/state/reads.ts'
import type { ReadFrom } from '../../rpc/core/executor.ts'
import type { WorkerReply } from '../../rpc/dispatch/worker-call.ts'
import { missingOfText, missingText } from './missing-text.ts'

export type TaskMemory = {
  readonly words: Int32Array<SharedArrayBuffer>
  readonly times: Float64Array<SharedArrayBuffer>
  readonly bytes: Buffer
}
/** Plain-data form of a call. */
export type TaskCall = {
  readonly method: string
  /** Parameters as JSON text. */
  readonly text: string
  readonly endpoint: Endpoint
  /** Snapshot to read; undefined is the newest one when the worker starts. */
  readonly snapshot: number | undefined
  /** Deadline on the clock that all threads share. */
  readonly deadline: number
  readonly wantsReads: boolean
}
/** Texts too long for the memory, by the call's index; Piscina carries them. */
export type LongTexts = readonly (readonly [index: number, text: string])[]
/** Replies too long for the memory, by the call's index; some are bytes of text. */
export type LongReplies = readonly (readonly [index: number, reply: LongReply])[]
export type LongReply = string | readonly Uint8Array[]

export const MAX_CALLS = 64
export const TASK_BYTES = 256 * 1024

// The memory has header words, then one line of words for each call.
const THREAD = 0
const COUNT = 1
const USED = 2
const LIVE = 3
const HEADER_WORDS = 8
const LINE_WORDS = 20
/** Offset of the texts, which follow the lines. */
const DATA_BYTES = (HEADER_WORDS + MAX_CALLS * LINE_WORDS) * 4

// Words of a line. The deadline and a block number take two words each.
const STATUS = 0
const CANCEL = 1
const SNAPSHOT = 2
const ENDPOINT = 3
const METHOD_BYTES = 4
const TEXT_BYTES = 5
const START = 6
const REPLY_START = 7
const REPLY_BYTES = 8
const MICROS = 9
const DEADLINE = 10
/**
 * In the request, 1 asks the reply to list what the call reads. In the reply, the number of keys
 * plus one; 0 means no list.
 */
const READS = 12
/** Block fields that the call read. */
const FIELDS = 13
/**
 * Pending block that was read: number as a double, kind of the id, flashblock index, and the
 * payload's two halves.
 */
const NUMBER = 14
const PENDING = 16
const INDEX = 17
const PAYLOAD = 18

// Values of PENDING.
const NONE = 0
const PLAIN = 1
const OF_PAYLOAD = 2

const WAITING = 0
const RESULT = 1
const ERROR = 2
const STALE = 3
const WRITTEN = 4
const MISSING = 5
const PIECES = 6
/** Added to the status of a reply that did not fit. */
const LONG = 8

/** Value of LIVE while the worker has not reported yet. */
const REQUESTED = -1

/** Share of the memory that a request may take, which leaves the other half to the reply. */
const REQUEST_SHARE = 0.5

export function createTaskMemory(buffer = new SharedArrayBuffer(TASK_BYTES)): TaskMemory {
  return {
    words: new Int32Array(buffer),
    times: new Float64Array(buffer),
    bytes: Buffer.from(buffer),
  }
}

/**
 * Writes the calls of a task; called by the front thread.
 * @returns the texts that did not fit
 */
export function writeCalls(memory: TaskMemory, calls: readonly TaskCall[]): LongTexts {
  const { words, times, bytes } = memory
  const long: [number, string][] = []
  let used = DATA_BYTES
  words[THREAD] = 0
  words[COUNT] = calls.length
  words[LIVE] = 0
  for (const [index, call] of calls.entries()) {
    const line = lineOf(index)
    words[line + STATUS] = WAITING
    words[line + CANCEL] = 0
    words[line + SNAPSHOT] = call.snapshot ?? 0
    words[line + ENDPOINT] = call.endpoint === 'flashblocks' ? 1 : 0
    words[line + START] = used
    words[line + MICROS] = 0
    words[line + READS] = call.wantsReads ? 1 : 0
    times[(line + DEADLINE) / 2] = call.deadline
    used += words[line + METHOD_BYTES] = bytes.write(call.method, used, 'latin1')
    /*
     * A character takes at most three bytes, so a text that fits by that bound need not be
     * measured.
     */
    const capacity = TASK_BYTES * REQUEST_SHARE - used
    const fits = call.text.length * 3 <= capacity || Buffer.byteLength(call.text) <= capacity
    if (!fits) long.push([index, call.text])
    used += words[line + TEXT_BYTES] = fits ? bytes.write(call.text, used, 'utf8') : 0
  }
  words[USED] = used
  return long
}

/** Reads one call of a task; called by the worker. */
export function readCall(memory: TaskMemory, index: number, long: LongTexts): TaskCall {
  const { words, times, bytes } = memory
  const line = lineOf(index)
  const start = words[line + START]!
  const textStart = start + words[line + METHOD_BYTES]!
  const text = long.find(([at]) => at === index)?.[1]
  return {
    method: bytes.toString('latin1', start, textStart),
    text: text ?? bytes.toString('utf8', textStart, textStart + words[line + TEXT_BYTES]!),
    endpoint: words[line + ENDPOINT] === 1 ? 'flashblocks' : 'standard',
    snapshot: snapshotOf(words, line),
    deadline: times[(line + DEADLINE) / 2]!,
    wantsReads: words[line + READS] !== 0,
  }
}

export const countOf = (memory: TaskMemory): number => memory.words[COUNT]!

/**
 * Stores the worker's thread id, so that the front thread can end it when a call outlives its
 * deadline.
 */
export function startTask(memory: TaskMemory, thread: number): void {
  Atomics.store(memory.words, THREAD, thread)
}
/** Thread id of the worker that runs the task; 0 means that it has not started. */
export const threadOf = (memory: TaskMemory): number => Atomics.load(memory.words, THREAD)

export function cancelCall(memory: TaskMemory, index: number): void {
  Atomics.store(memory.words, lineOf(index) + CANCEL, 1)
}
export const isCancelled = (memory: TaskMemory, index: number): boolean =>
  Atomics.load(memory.words, lineOf(index) + CANCEL) !== 0

/**
 * Asks the worker to collect garbage at its next deadline check, and to report what is live. The
 * front thread calls this.
 */
export function requestLive(memory: TaskMemory): void {
  Atomics.store(memory.words, LIVE, REQUESTED)
}
export const isLiveRequested = (memory: TaskMemory): boolean =>
  Atomics.load(memory.words, LIVE) === REQUESTED
export function reportLive(memory: TaskMemory, megabytes: number): void {
  Atomics.store(memory.words, LIVE, megabytes)
}
/**
 * Live megabytes of the worker. It is 0 before the first request, and invalid while a request is
 * open.
 */
export const liveOf = (memory: TaskMemory): number => Atomics.load(memory.words, LIVE)

/**
 * Writes a reply behind the calls.
 * @returns the reply for a message, where it does not fit
 */
export function writeReply(
  memory: TaskMemory,
  index: number,
  { reply, micros }: { readonly reply: WorkerReply; readonly micros: number },
): LongReply | undefined {
  const { words } = memory
  const line = lineOf(index)
  Atomics.store(words, line + MICROS, Math.min(micros, 2 ** 31 - 1))
  if ('stale' in reply) {
    const { missing } = reply
    if (missing !== undefined) return writeText(memory, line, MISSING, missingText(missing))
    setStatus(words, line, STALE)
    return undefined
  }
  writeReadFrom(memory, line, reply)
  if ('written' in reply) {
    words[line + REPLY_BYTES] = reply.written
    setStatus(words, line, WRITTEN)
    return undefined
  }
  if ('pieces' in reply) {
    setStatus(words, line, PIECES)
    return reply.pieces
  }
  writeReads(memory, line, reply.reads)
  return 'result' in reply
    ? writeText(memory, line, RESULT, reply.result)
    : writeText(memory, line, ERROR, JSON.stringify(reply.error))
}

function writeReadFrom(
  { words, times }: TaskMemory,
  line: number,
  { snapshot, pending }: ReadFrom,
): void {
  words[line + SNAPSHOT] = snapshot ?? 0
  words[line + PENDING] = NONE
  if (pending === undefined) return
  const { number, index, payloadId } = pending
  times[(line + NUMBER) / 2] = Number(number)
  words[line + INDEX] = index
  words[line + PENDING] = payloadId === undefined ? PLAIN : OF_PAYLOAD
  if (payloadId === undefined) return
  words[line + PAYLOAD] = Number.parseInt(payloadId.slice(2, 10), 16)
  words[line + PAYLOAD + 1] = Number.parseInt(payloadId.slice(10), 16)
}

const readFrom = (memory: TaskMemory, line: number): ReadFrom => ({
  snapshot: snapshotOf(memory.words, line),
  pending: pendingOf(memory, line),
})

function pendingOf({ words, times }: TaskMemory, line: number): FlashblockId | undefined {
  if (words[line + PENDING] === NONE) return undefined
  const half = (at: number) => (words[line + at]! >>> 0).toString(16).padStart(8, '0')
  return {
    number: BigInt(times[(line + NUMBER) / 2]!),
    index: words[line + INDEX]!,
    payloadId:
      words[line + PENDING] === OF_PAYLOAD ? `0x${half(PAYLOAD)}${half(PAYLOAD + 1)}` : undefined,
  }
}

/**
 * Writes the keys before the text of the reply. Keys that do not fit are left out, and the reply
 * then lists no reads.
 */
function writeReads({ words }: TaskMemory, line: number, reads: Reads | undefined): void {
  words[line + READS] = 0
  if (reads === undefined) return
  const { keys, fields } = reads
  const from = (words[USED]! + 3) >> 2
  if (from * 4 + keys.byteLength > TASK_BYTES) return
  words.set(keys, from)
  words[USED] = from * 4 + keys.byteLength
  words[line + READS] = keys.length + 1
  words[line + FIELDS] = fields
}

function readReads({ words }: TaskMemory, line: number): Reads | undefined {
  const readsLength = words[line + READS]!
  if (readsLength === 0) return undefined
  const end = words[line + REPLY_START]! >> 2
  return {
    keys: new Int32Array(words.subarray(end - readsLength + 1, end)),
    fields: words[line + FIELDS]!,
  }
}

function writeText(
  { words, bytes }: TaskMemory,
  line: number,
  status: number,
  text: string,
): string | undefined {
  const used = words[USED]!
  const size = Buffer.byteLength(text)
  words[line + REPLY_START] = used
  words[line + REPLY_BYTES] = size
  setStatus(words, line, status)
  if (size > TASK_BYTES - used) {
    setStatus(words, line, LONG + status)
    return text
  }
  words[USED] = used + bytes.write(text, used, size === text.length ? 'latin1' : 'utf8')
  return undefined
}

/**
 * Reads a reply of a finished task; called by the front thread. Undefined means that the worker did
 * not reach the call.
 */
export function readReply(
  memory: TaskMemory,
  index: number,
  long: LongReplies,
): WorkerReply | undefined {
  const { words, bytes } = memory
  const line = lineOf(index)
  const status = words[line + STATUS]!
  if (status === WAITING) return undefined
  if (status === STALE) return { stale: true }
  if (status === WRITTEN) return { written: words[line + REPLY_BYTES]!, ...readFrom(memory, line) }
  const start = words[line + REPLY_START]!
  const end = start + words[line + REPLY_BYTES]!
  const carried = status > LONG || status === PIECES ? carriedOf(long, index) : ''
  if (typeof carried !== 'string') return { pieces: carried, ...readFrom(memory, line) }
  const text =
    status > LONG
      ? carried
      : // Results are always ASCII; error texts may have other characters.
        status === RESULT
        ? bytes.toString('latin1', start, end)
        : bytes.toString('utf8', start, end)
  if (status % LONG === MISSING) return { stale: true, missing: missingOfText(text) }
  const from = readFrom(memory, line)
  const reads = readReads(memory, line)
  return status % LONG === RESULT
    ? { result: text, ...from, reads }
    : { error: JSON.parse(text), ...from, reads }
}

const carriedOf = (long: LongReplies, index: number): LongReply =>
  long.find(([at]) => at === index)?.[1] ?? ''

/**
 * Sets the status last, because the front thread reads the other words as soon as the status has
 * changed.
 */
const setStatus = (words: TaskMemory['words'], line: number, status: number): void =>
  void Atomics.store(words, line + STATUS, status)

/** Counts the finished calls, from the first on. */
export function finishedCallsOf({ words }: TaskMemory): number {
  const count = words[COUNT]!
  let index = 0
  while (index < count && Atomics.load(words, lineOf(index) + STATUS) !== WAITING) index++
  return index
}

/** Processor time of the worker that the call has taken, in microseconds. */
export const microsOf = (memory: TaskMemory, index: number): number =>
  Atomics.load(memory.words, lineOf(index) + MICROS)

const lineOf = (index: number) => HEADER_WORDS + index * LINE_WORDS
/**
 * Snapshot that the call requests or, in the reply, the snapshot that it read. No snapshot has the
 * number 0.
 */
const snapshotOf = (words: TaskMemory['words'], line: number): number | undefined =>
  words[line + SNAPSHOT] || undefined
