/**
 * Packets of blocks that are not durable yet, in the journal and in memory. A block can thus
 * restart with the same prefix.
 */
import { decodePacket } from '../../flashblocks/codec.ts'
import { isSameFlashblock } from '../../flashblocks/identity.ts'
import type { FeedMessage, Flashblock, FlashblockBase } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { JournalError } from '../../storage/directory/journal.ts'
import type { PacketJournal } from './types.ts'

export type RecordedPacket = {
  readonly packet: Bytes
  readonly message: FeedMessage
  /** The packet was sent in this run of the process. */
  isSent: boolean
}
export type RecordedBlock = {
  /** Base of the block's index 0. */
  readonly base: FlashblockBase
  readonly flashblocks: readonly (RecordedPacket & { readonly message: Flashblock })[]
  readonly end: RecordedPacket | undefined
}

export interface PacketLog {
  /** Every recorded packet has been sent. */
  readonly isSent: boolean
  /** Appends a packet to the journal; it must not be sent before. */
  append(number: bigint, packet: Bytes, message: FeedMessage): void
  /**
   * Returns the packets of this height; 'other': they do not start with an index 0 on this parent.
   */
  find(number: bigint, parentHash: Bytes): RecordedBlock | 'other' | undefined
  /** Forgets heights from `number` on, which will never be part of the chain. */
  drop(number: bigint): void
  /** Forgets blocks up to this height, which are durable. */
  forget(canonical: bigint): void
}

/** Size of stale packets at which the file is rewritten. */
const STALE_PACKETS = 256
const STALE_BYTES = 8 << 20

/**
 * Makes a log.
 * @param journalled packets of the file at the start; the first one that does not decode ends them
 */
export function createPacketLog(journal: PacketJournal, journalled: Iterable<Bytes>): PacketLog {
  const blocks = readBlocks(journalled)
  let stale = { packets: 0, bytes: 0 }

  const rewrite = () => {
    journal.rewrite([...blocks.values()].flat().map(({ packet }) => packet))
    stale = { packets: 0, bytes: 0 }
  }
  return {
    get isSent() {
      return [...blocks.values()].every((packets) => packets.every(({ isSent }) => isSent))
    },
    append(number, packet, message) {
      journal.append(packet)
      add(listOf(blocks, number), { packet, message, isSent: true })
    },
    find(number, parentHash) {
      const packets = blocks.get(number)
      return packets && blockOf(packets, parentHash)
    },
    drop(from) {
      for (const number of blocks.keys()) if (number >= from) blocks.delete(number)
      rewrite()
    },
    forget(canonical) {
      for (const [number, packets] of blocks) {
        if (number > canonical) continue
        blocks.delete(number)
        stale.packets += packets.length
        for (const { packet } of packets) stale.bytes += packet.length
      }
      if (stale.packets < STALE_PACKETS && stale.bytes < STALE_BYTES) return
      try {
        rewrite()
      } catch (error) {
        // The longer file stays in use. The next append reports the disk's error.
        if (!(error instanceof JournalError)) throw error
      }
    },
  }
}

function readBlocks(journalled: Iterable<Bytes>): Map<bigint, RecordedPacket[]> {
  const blocks = new Map<bigint, RecordedPacket[]>()
  let number: bigint | undefined
  for (const packet of journalled) {
    const decoded = decodePacket(packet)
    if (!('message' in decoded)) break
    const { message } = decoded
    if (message.type === 'flashblock') number = message.blockNumber ?? number
    // An End belongs to the block of the flashblock before it.
    if (number !== undefined) add(listOf(blocks, number), { packet, message, isSent: false })
  }
  return blocks
}

/**
 * Adds a packet. Another flashblock of a known payload and index replaces the first and everything
 * after it.
 */
function add(packets: RecordedPacket[], recorded: RecordedPacket): void {
  const { message } = recorded
  if (message.type === 'flashblock') {
    const isOfIt = (other: RecordedPacket) =>
      isFlashblock(other) &&
      other.message.payloadId === message.payloadId &&
      other.message.index === message.index
    const at = packets.findIndex(isOfIt)
    const known = packets[at]
    if (known !== undefined && isFlashblock(known)) {
      if (isSameFlashblock(known.message, message)) return
      packets.length = at
    }
  }
  packets.push(recorded)
}

function listOf(blocks: Map<bigint, RecordedPacket[]>, number: bigint): RecordedPacket[] {
  const list = blocks.get(number) ?? []
  blocks.set(number, list)
  return list
}

function blockOf(packets: readonly RecordedPacket[], parentHash: Bytes): RecordedBlock | 'other' {
  const flashblocks = packets.filter(isFlashblock)
  const first = flashblocks[0]?.message
  if (!first?.base || !equalBytes(first.base.parentHash, parentHash)) return 'other'
  const isComplete = packets.every(
    ({ message }, index) =>
      message.payloadId === first.payloadId &&
      (message.type === 'flashblock' ? message.index === index : index === packets.length - 1),
  )
  if (!isComplete) return 'other'
  return {
    base: first.base,
    flashblocks,
    end: packets.find(({ message }) => message.type === 'end'),
  }
}

const isFlashblock = (
  recorded: RecordedPacket,
): recorded is RecordedPacket & { readonly message: Flashblock } =>
  recorded.message.type === 'flashblock'
