/**
 * Flashblocks that were executed and are not canonical yet, on the disk: after a restart pending begins with them instead of nothing. What
 * goes wrong here costs that and nothing else.
 */
import { decodePacket, encodePacket } from '../../engine/flashblocks/codec.ts'
import { checksum } from '../../engine/primitives/checksum.ts'
import { createPacketLog, type PacketLog } from '../../engine/sources/sequencer/log.ts'
import { type FeedPacket, JOURNAL_FEED } from '../../engine/sources/writer/types.ts'
import { type Journal, JournalError, openJournal } from '../../engine/storage/directory/journal.ts'

export interface Frames {
  /** Those of before, in order. */
  readonly found: readonly FeedPacket[]
  executed(packet: FeedPacket): void
  /** Blocks up to this height are durable. */
  canonical(number: number): void
  close(): void
}

/** Of the file: eight blocks of the largest flashblocks that a feed may send are more, and go. */
const FRAMES_BYTES = 64 * 2 ** 20

/** @param warn where it goes on without a journal. */
export function openFrames(path: string, warn: (message: string) => void): Frames {
  try {
    // Flashblocks build on each other: those behind a damaged one cannot be executed.
    const journal = openJournal(path, { limitBytes: FRAMES_BYTES, ifDamaged: 'cut' })
    if (journal.damage !== undefined)
      warn(`flashblocks from before the restart are missing: ${journal.damage.message}`)
    return framesIn(journal, warn)
  } catch (error) {
    if (!(error instanceof JournalError)) throw error
    warn(`flashblocks are not kept for a restart: ${error.message}`)
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
      warn(`flashblocks are not kept for a restart any more: ${error.message}`)
      log = undefined
    }
  }
  return {
    found: journal.found.flatMap(packetOf),
    executed({ feed, message, raw }) {
      // Those of before are in it.
      if (message.type === 'end' || feed === JOURNAL_FEED) return
      const { base, blockNumber } = message
      // Those after index 0 need not name their block: they are of the one before.
      newest = Number(base?.blockNumber ?? blockNumber ?? newest)
      const packet = raw ?? encodePacket(message, 'plain')
      guarded((kept) => kept.append(BigInt(newest), packet, message))
    },
    canonical: (number) => guarded((kept) => kept.forget(BigInt(number))),
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
