/**
 * Lines are sent in pieces: larger pieces compress better, smaller ones lose less when the process
 * is killed.
 */
import type { Line } from './lines.ts'
import { encodeLine } from './values.ts'

const PIECE_BYTES = 256 * 1_024
const PIECE_MS = 250

export interface Pieces {
  add(line: Line): void
  /** Sends all lines that wait. */
  flush(): void
}

export function createPieces(emit: (lines: Uint8Array<ArrayBuffer>) => void): Pieces {
  let texts: string[] = []
  let bytes = 0
  let timer: NodeJS.Timeout | undefined
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (texts.length > 0) emit(new TextEncoder().encode(texts.join('')))
    texts = []
    bytes = 0
  }
  return {
    flush,
    add(line) {
      const text = `${encodeLine(line)}\n`
      texts.push(text)
      bytes += text.length
      if (bytes >= PIECE_BYTES) flush()
      else timer ??= setTimeout(flush, PIECE_MS)
    },
  }
}
