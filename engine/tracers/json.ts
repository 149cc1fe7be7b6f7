/** JSON text of traces. */
import type { Bytes } from '../primitives/bytes.ts'
import type { TraceOutput } from './types.ts'

export const hexText = (bytes: Bytes): string => `"0x${Buffer.from(bytes).toString('hex')}"`
/** A JSON-RPC quantity. */
export const quantityText = (value: bigint | number): string => `"0x${value.toString(16)}"`

/** Any text, in ASCII. */
export const stringText = (text: string): string =>
  JSON.stringify(text).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Hex text of bytes that may be many, a slice after the other. */
export function writeHex(output: TraceOutput, bytes: Bytes): void {
  output.write('"0x')
  for (let at = 0; at < bytes.length && !output.isFull; at += SLICE)
    output.write(Buffer.from(bytes.subarray(at, at + SLICE)).toString('hex'))
  output.write('"')
}

const SLICE = 16_384
