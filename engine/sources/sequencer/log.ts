/** The packets of blocks that are not durable yet: in the journal and in memory, so that a block can be begun again with the same prefix. */
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
  /** In this run of the process. */
  isSent: boolean
}
export type RecordedBlock = {
  /** Of its index 0. */
  readonly base: FlashblockBase
  readonly flashblocks: readonly (RecordedPacket & { readonly message: Flashblock })[]
  readonly end: RecordedPacket | undefined
}

export interface PacketLog {
  /** Nothing recorded waits to be sent. */
  readonly isSent: boolean
  /** Journals; only then the packet may be sent. */
  append(number: bigint, packet: Bytes, message: FeedMessage): void
  /** What was recorded of this height: 'other' when it does not begin with an index 0 on this parent. */
  find(number: bigint, parentHash: Bytes): RecordedBlock | 'other' | undefined
  /** Forgets heights from `number` on: they will never be part of the chain. */
  drop(number: bigint): void
  /** Blocks up to this height are durable. */
  forget(canonical: bigint): void
}

/** The file is written anew when this much of it is of no more use. */
const STALE_PACKETS = 256
const STALE_BYTES = 8 << 20

/** `journalled`: what the file holds at the start; packets that do not decode end it. */
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
        // It goes on as it is, longer than it need be; the next append says what the disk has.
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
    // An End belongs to the block before it.
    if (number !== undefined) add(listOf(blocks, number), { packet, message, isSent: false })
  }
  return blocks
}

/** Another flashblock of the same payload and index takes the place of the first, and of what came behind that. */
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
  const isWhole = packets.every(
    ({ message }, index) =>
      message.payloadId === first.payloadId &&
      (message.type === 'flashblock' ? message.index === index : index === packets.length - 1),
  )
  if (!isWhole) return 'other'
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
