/**
 * One connection to a leader, message after message: each has to follow from those before it, so that a flashblock of another payload, index
 * or parent, a message of another run, one that came before and one that is missing show at once. It holds no state of the chain.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { equalBytes } from '../../primitives/words.ts'
import { WHOLE_INDEX } from '../../views/whole-index.ts'
import type { LeaderMessage } from './message.ts'
import { LeaderError, type ToldDiff } from './types.ts'

type Told = {
  readonly number: number
  readonly payloadId: string | undefined
  readonly parentHash: Bytes
  hash: Bytes
  /** The next index. */
  parts: number
}

/** Blocks that are remembered: more than a reorg takes back. */
const MOST_BLOCKS = 256

export class LeaderLine {
  #run: string | undefined
  #seq = 0
  /** Newest last, without a hole. */
  #blocks: Told[] = []

  /** The diffs of the message, in order. @throws {LeaderError}: nothing of this connection is to be believed any more */
  take(message: LeaderMessage): readonly ToldDiff[] {
    const { run, seq, isSnapshot, removedAbove, headers, diffs } = message
    if (this.#run === undefined && !isSnapshot)
      throw new LeaderError('sequence', 'the first message is no snapshot')
    if (this.#run !== undefined && run !== this.#run)
      throw new LeaderError('run', `run ${run} after ${this.#run}`)
    if (this.#run !== undefined && seq !== this.#seq + 1)
      throw new LeaderError('sequence', `message ${seq} after ${this.#seq}`)
    this.#run = run
    this.#seq = seq
    if (isSnapshot) this.#blocks = []
    if (removedAbove !== undefined)
      this.#blocks = this.#blocks.filter(({ number }) => number <= removedAbove)
    for (const header of headers) this.#finish(header)
    for (const told of diffs) this.#add(told)
    if (this.#blocks.length > MOST_BLOCKS) this.#blocks.splice(0, this.#blocks.length - MOST_BLOCKS)
    return diffs
  }

  #finish({ number, hash }: LeaderMessage['headers'][number]): void {
    const block = this.#blocks.find((one) => one.number === number)
    if (block !== undefined) block.hash = hash
  }

  #add(told: ToldDiff): void {
    const { number, index, payloadId, parentHash, hash } = told
    const tip = this.#blocks.at(-1)
    if (index === 0) {
      if (tip !== undefined && number !== tip.number + 1)
        throw new LeaderError('index', `block ${number} begins on block ${tip.number}`)
      if (tip !== undefined && !equalBytes(parentHash, tip.hash)) throw wrongParent(told, tip.hash)
      this.#blocks.push({ number, payloadId, parentHash, hash, parts: 1 })
      return
    }
    if (tip === undefined) throw new LeaderError('index', `${nameOf(told)} goes on with nothing`)
    // What its flashblocks did not tell of a block comes last of it.
    const isDue = index === tip.parts || (index === WHOLE_INDEX && index > tip.parts)
    if (number !== tip.number || !isDue)
      throw new LeaderError('index', `${nameOf(told)} after ${tip.number}:${tip.parts - 1}`)
    if (payloadId !== tip.payloadId)
      throw new LeaderError('payload', `${nameOf(told)} is of ${payloadId}, not ${tip.payloadId}`)
    if (!equalBytes(parentHash, tip.parentHash)) throw wrongParent(told, tip.parentHash)
    tip.parts = index + 1
    tip.hash = hash
  }
}

const nameOf = ({ number, index }: ToldDiff): string => `${number}:${index}`

const wrongParent = (told: ToldDiff, hash: Bytes) =>
  new LeaderError(
    'parent',
    `${nameOf(told)} stands on ${bytesToHex(told.parentHash)}, not ${bytesToHex(hash)}`,
  )
