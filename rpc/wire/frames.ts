/** Encodes text messages of a WebSocket server as unmasked frames (RFC 6455, 5.2). */
import type { Message } from '../core/client.ts'

const TEXT_FRAME = 0x81
const LENGTH_16 = 126
const LENGTH_64 = 127

/** Returns one frame for each message, in one buffer. */
export function textFrames(messages: readonly Message[]): Buffer {
  const lengths = messages.map((message) => message.reduce((sum, { length }) => sum + length, 0))
  const size = lengths.reduce((sum, length) => sum + headerBytes(length) + length, 0)
  const frames = Buffer.allocUnsafe(size)
  let at = 0
  for (const [index, message] of messages.entries()) {
    at = putHeader(frames, at, lengths[index]!)
    for (const piece of message) {
      frames.set(piece, at)
      at += piece.length
    }
  }
  return frames
}

function headerBytes(length: number): number {
  if (length < LENGTH_16) return 2
  return length < 2 ** 16 ? 4 : 10
}

function putHeader(frames: Buffer, at: number, length: number): number {
  frames[at] = TEXT_FRAME
  if (length < LENGTH_16) {
    frames[at + 1] = length
    return at + 2
  }
  if (length < 2 ** 16) {
    frames[at + 1] = LENGTH_16
    return frames.writeUInt16BE(length, at + 2)
  }
  frames[at + 1] = LENGTH_64
  frames.writeUInt32BE(0, at + 2)
  return frames.writeUInt32BE(length, at + 6)
}
