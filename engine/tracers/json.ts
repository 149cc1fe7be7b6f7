/** JSON of tracers: reads switches from `tracerConfig`, and writes the text of traces. */
import type { Bytes } from '../primitives/bytes.ts'
import { type TraceOutput, TracerError } from './types.ts'

/**
 * Reads booleans of an object. An absent or null switch is false; unknown members are ignored, as
 * in go-ethereum.
 * @throws {TracerError} if the value is not an object, or a switch is not a boolean
 */
export function switches<const Name extends string>(
  config: unknown,
  names: readonly Name[],
): Readonly<Record<Name, boolean>> {
  const object = objectOf(config)
  const entries = names.map((name) => {
    const value = object[name] ?? false
    if (typeof value !== 'boolean')
      throw new TracerError(
        `invalid tracer config: ${name} is ${JSON.stringify(value).slice(0, 60)}, expected a boolean`,
        true,
      )
    return [name, value] as const
  })
  return Object.fromEntries(entries) as Record<Name, boolean>
}

/** @throws {TracerError} if the value is neither an object nor absent */
export function objectOf(config: unknown): Readonly<Record<string, unknown>> {
  if (config === undefined || config === null) return {}
  if (typeof config === 'object' && !Array.isArray(config))
    return config as Readonly<Record<string, unknown>>
  throw new TracerError(
    `invalid tracer config: ${JSON.stringify(config).slice(0, 60)}, expected an object`,
    true,
  )
}

export const hexText = (bytes: Bytes): string => `"0x${Buffer.from(bytes).toString('hex')}"`
/** Formats a JSON-RPC quantity. */
export const quantityText = (value: bigint | number): string => `"0x${value.toString(16)}"`

/** Formats any text in ASCII. */
export const stringText = (text: string): string =>
  JSON.stringify(text).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Writes the hex text of many bytes in slices. */
export function writeHex(output: TraceOutput, bytes: Bytes): void {
  output.write('"0x')
  for (let at = 0; at < bytes.length && !output.isFull; at += SLICE)
    output.write(Buffer.from(bytes.subarray(at, at + SLICE)).toString('hex'))
  output.write('"')
}

const SLICE = 16_384
