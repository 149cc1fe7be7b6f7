/** Switches of a tracer, as they came in `tracerConfig`. */
import { TracerError } from './types.ts'

/**
 * Reads booleans of an object; what is absent or null is false, what is not named is left alone as go-ethereum does.
 * @throws {TracerError} when the value is no object or a switch no boolean
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

/** @throws {TracerError} when it is neither an object nor absent */
export function objectOf(config: unknown): Readonly<Record<string, unknown>> {
  if (config === undefined || config === null) return {}
  if (typeof config === 'object' && !Array.isArray(config))
    return config as Readonly<Record<string, unknown>>
  throw new TracerError(
    `invalid tracer config: ${JSON.stringify(config).slice(0, 60)}, expected an object`,
    true,
  )
}
