/**
 * A thread that does nothing but read /feed: when each flashblock came, against when the clock of the chain says it is due. Asked for what
 * it has seen `so far`, it begins anew; `end` ends it.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { WebSocket } from 'ws'
import { decodePacket } from '../../../engine/flashblocks/codec.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { watchLag } from './lag.ts'

export type FeedSeen = {
  readonly flashblocks: number
  readonly blocks: number
  /** Milliseconds after it was due, one for each flashblock. */
  readonly late: readonly number[]
  /** Of each of these: how late this thread itself was when it came. */
  readonly ownLate: readonly number[]
  /** Milliseconds that timers of this thread were late: what a busy machine adds to everything. */
  readonly ownLag: readonly number[]
  /** Those that came later than a cadence, the first hundred: when, which, by how much. */
  readonly worst: readonly string[]
  /** What came out of order, twice or not at all. */
  readonly gaps: readonly string[]
}
const { url, blockTimeMs, flashblockTimeMs } = workerData as {
  url: string
  blockTimeMs: number
  flashblockTimeMs: number
}

const TICK_MS = 20
const MOST_WORST = 100
const startedAt = Date.now()
/** Since it was asked last. */
let seen = nothing()
/** The block that is under way. */
let block: { number: number; begin: number; next: number } | undefined

const socket = new WebSocket(url)
socket.once('open', () => parentPort!.postMessage('open'))
socket.on('error', (error) => seen.gaps.push(`the feed: ${error.message}`))
socket.on('close', (code) => seen.gaps.push(`the feed closed with ${code}`))
socket.on('message', (data: Buffer) => {
  const now = Date.now()
  const frame = decodePacket(data)
  if (!('message' in frame)) seen.gaps.push(`a frame is not read: ${JSON.stringify(frame)}`)
  else if (frame.message.type === 'flashblock') take(frame.message, now)
})
const lag = watchLag(TICK_MS, performance.now())
const timer = setInterval(() => seen.ownLag.push(lag.tick(performance.now())), TICK_MS)
parentPort!.on('message', (what: 'so far' | 'end') => {
  parentPort!.postMessage(seen satisfies FeedSeen)
  seen = nothing()
  if (what === 'so far') return
  clearInterval(timer)
  socket.removeAllListeners('close')
  socket.terminate()
  parentPort!.close()
})

function nothing() {
  return {
    ...{ flashblocks: 0, blocks: 0 },
    late: [] as number[],
    ownLate: [] as number[],
    ownLag: [] as number[],
    worst: [] as string[],
    gaps: [] as string[],
  }
}

function take({ index, base }: Flashblock, now: number): void {
  // The first block was joined in its middle.
  if (base === undefined && block === undefined) return
  if (base !== undefined) {
    const number = Number(base.blockNumber)
    if (block !== undefined && number !== block.number + 1)
      seen.gaps.push(`block ${number} after ${block.number}`)
    block = { number, begin: Number(base.timestamp) * 1_000 - blockTimeMs, next: 0 }
    seen.blocks++
  }
  if (index !== block!.next)
    seen.gaps.push(`index ${index} of block ${block!.number}, expected ${block!.next}`)
  block!.next = index + 1
  seen.flashblocks++
  // Index 0 announces the block, index 1 opens it, the others follow one cadence after another.
  const ms = now - (block!.begin + Math.max(0, index - 1) * flashblockTimeMs)
  seen.late.push(ms)
  seen.ownLate.push(lag.at(performance.now()))
  if (ms > flashblockTimeMs && seen.worst.length < MOST_WORST)
    seen.worst.push(
      `${Math.round((now - startedAt) / 1_000)} s: ${block!.number}.${index} ${ms} ms`,
    )
}
