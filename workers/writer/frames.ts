/**
 * Journal of executed flashblocks that are not canonical yet; after a restart, pending starts from
 * them.
 * A failure loses only this.
 */
import { decodePacket, encodePacket } from '../../engine/flashblocks/codec.ts'
import { checksum } from '../../engine/primitives/checksum.ts'
import { createPacketLog, type PacketLog } from '../../engine/sources/sequencer/log.ts'
import { type FeedPacket, JOURNAL_FEED } from '../../engine/sources/writer/types.ts'
import { type Journal, JournalError, openJournal } from '../../engine/storage/directory/journal.ts'

export interface Frames {
  /** Flashblocks from before the restart, in order. */
  readonly found: readonly FeedPacket[]
  executed(packet: FeedPacket): void
  /** Blocks up to this height are durable. */
  canonical(number: number): void
  close(): void
}

/**
 * Size limit of the file. Eight blocks with flashblocks of maximum size exceed it; journaling then
 * ends until a restart.
 */
const FRAMES_BYTES = 64 * 2 ** 20

/** @param warn called if the node continues without a journal */
export function openFrames(path: string, warn: (message: string) => void): Frames {
  try {
    // Flashblocks build on each other, so those after a damaged one cannot be executed.
    const journal = openJournal(path, { limitBytes: FRAMES_BYTES, ifDamaged: 'cut' })
    if (journal.damage !== undefined)
      warn(`flashblocks from before the restart are lost: ${journal.damage.message}`)
    return framesIn(journal, warn)
  } catch (error) {
    if (!(error instanceof JournalError)) throw error
    warn(`flashblocks are not journaled, so a restart loses them: ${error.message}`)
    return { found: [], executed() {}, canonical() {}, close() {} }
  }
}

function framesIn(journal: Journal, warn: (message: string) => void): Frames {
  let log: PacketLog | undefined = createPacketLog(journal, journal.found)
  let newest = -1
  const guarded = (work: (log: PacketLog) => void) => {
    try {
      if (log !== undefined) work(log)
    } catch (error) {
      if (!(error instanceof JournalError)) throw error
      warn(`flashblocks are no longer journaled, so a restart loses them: ${error.message}`)
      log = undefined
    }
  }
  return {
    found: journal.found.flatMap(packetOf),
    executed({ feed, message, raw }) {
      // Flashblocks from the journal are in it already.
      if (message.type === 'end' || feed === JOURNAL_FEED) return
      const { base, blockNumber } = message
      // A flashblock after index 0 may omit its block number; it belongs to the block before.
      newest = Number(base?.blockNumber ?? blockNumber ?? newest)
      const packet = raw ?? encodePacket(message, 'plain')
      guarded((frames) => frames.append(BigInt(newest), packet, message))
    },
    canonical: (number) => guarded((frames) => frames.forget(BigInt(number))),
    close: () => journal.close(),
  }
}

function packetOf(bytes: Uint8Array): readonly FeedPacket[] {
  const decoded = decodePacket(bytes)
  if (!('message' in decoded)) return []
  const { message } = decoded
  const receivedAtMs = performance.now()
  return [{ feed: JOURNAL_FEED, message, digest: checksum(bytes), receivedAtMs, raw: bytes }]
}
