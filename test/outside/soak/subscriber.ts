/**
 * This thread only reads /feed, and compares the arrival of each flashblock with its time by the
 * chain's clock. A request for the results `so far` starts a new count; `end` ends the thread.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { WebSocket } from 'ws'
import { decodePacket } from '../../../engine/flashblocks/codec.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { watchLag } from './lag.ts'

export type FeedSeen = {
  readonly flashblocks: number
  readonly blocks: number
  /** The delay of each flashblock in milliseconds. */
  readonly late: readonly number[]
  /** The thread's own delay when each of these flashblocks came. */
  readonly ownLate: readonly number[]
  /**
   * The delays of this thread's timers in milliseconds, which a busy machine adds to everything.
   */
  readonly ownLag: readonly number[]
  /** The first hundred flashblocks that came later than a cadence: time, number, delay. */
  readonly worst: readonly string[]
  /** Flashblocks that came out of order, twice or never. */
  readonly gaps: readonly string[]
}
const { url, blockTimeMs, flashblockTimeMs } = workerData as {
  url: string
  blockTimeMs: number
  flashblockTimeMs: number
}

const TICK_MS = 20
const MAX_WORST = 100
const startedAt = Date.now()
/** The results since the last request. */
let seen = nothing()
/** The block in progress. */
let block: { number: number; start: number; next: number } | undefined

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
    flashblocks: 0,
    blocks: 0,
    late: [] as number[],
    ownLate: [] as number[],
    ownLag: [] as number[],
    worst: [] as string[],
    gaps: [] as string[],
  }
}

function take({ index, base }: Flashblock, now: number): void {
  // The subscriber joined in the middle of the first block.
  if (base === undefined && block === undefined) return
  if (base !== undefined) {
    const number = Number(base.blockNumber)
    if (block !== undefined && number !== block.number + 1)
      seen.gaps.push(`block ${number} after ${block.number}`)
    block = { number, start: Number(base.timestamp) * 1_000 - blockTimeMs, next: 0 }
    seen.blocks++
  }
  if (index !== block!.next)
    seen.gaps.push(`index ${index} of block ${block!.number}, expected ${block!.next}`)
  block!.next = index + 1
  seen.flashblocks++
  // Index 0 announces the block, index 1 opens it, the others follow one cadence after another.
  const ms = now - (block!.start + Math.max(0, index - 1) * flashblockTimeMs)
  seen.late.push(ms)
  seen.ownLate.push(lag.at(performance.now()))
  if (ms > flashblockTimeMs && seen.worst.length < MAX_WORST)
    seen.worst.push(
      `${Math.round((now - startedAt) / 1_000)} s: ${block!.number}.${index} ${ms} ms`,
    )
}
