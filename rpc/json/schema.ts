/** Codecs: one declaration gives the decoder, the encoder, the TypeScript type and the JSON Schema of a parameter. */

import type { Limits } from '../seam/limits.ts'

export type JsonSchema = { readonly [key: string]: unknown }

export interface Codec<T> {
  /** @param limits of this node. @throws {SchemaError} when the wire value does not fit. */
  decode(wire: unknown, limits: Limits): T
  encode(value: T): unknown // Method syntax, so that a Codec<bigint> is a Codec<unknown>.
  /** A bound may be the name of a limit: `schemaFor` puts its value there. */
  readonly schema: JsonSchema
}
/** A codec that no limit bears on. */
export interface PlainCodec<T> extends Codec<T> {
  decode(wire: unknown): T
}

export type TypeOf<C> = C extends Codec<infer T> ? T : never

/**
 * What is wrong with a wire value, in the words go-ethereum has for it, because callers match them. With a `type` the problem is one of
 * Go's JSON decoder ("json: cannot unmarshal non-string into Go value of type common.Address"), which names the field by itself.
 */
export class SchemaError extends Error {
  override name = 'SchemaError'
  readonly problem: string
  readonly type: string | undefined
  path = ''
  title = ''

  constructor(problem: string, type?: string) {
    super(problem)
    this.problem = problem
    this.type = type
  }

  /** The value stands below `key` of an object (or array) called `title`. */
  below(key: string, title: string): this {
    this.path = this.path === '' ? key : `${key}.${this.path}`
    this.title = title
    return this
  }

  describe(): string {
    if (this.type === undefined)
      return this.path === '' ? this.problem : `${this.path}: ${this.problem}`
    const place = this.path === '' ? 'value' : `struct field ${this.title}.${this.path}`
    return `json: cannot unmarshal ${this.problem} into Go ${place} of type ${this.type}`
  }
}

/** How many there may be: always the same, or as a limit of this node says. */
export type Bound = number | keyof Limits
const boundOf = (bound: Bound, limits: Limits): number =>
  typeof bound === 'number' ? bound : limits[bound]

const BOUNDS: ReadonlySet<string> = new Set(['maxItems', 'maxProperties'])
/** The schema with this node's limits where it names them. */
export function schemaFor(schema: JsonSchema, limits: Limits): JsonSchema {
  const resolve = (value: unknown, key?: string): unknown => {
    if (key !== undefined && BOUNDS.has(key)) return boundOf(value as Bound, limits)
    if (Array.isArray(value)) return value.map((one) => resolve(one))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => [name, resolve(one, name)]),
    )
  }
  return resolve(schema) as JsonSchema
}

/** What Go's decoder calls a JSON value. */
export function kindOf(wire: unknown): string {
  if (wire === null) return 'null'
  return Array.isArray(wire) ? 'array' : typeof wire === 'boolean' ? 'bool' : typeof wire
}

export const boolean: PlainCodec<boolean> = {
  decode(wire) {
    if (wire === null) return false
    if (typeof wire !== 'boolean') throw new SchemaError(kindOf(wire), 'bool')
    return wire
  },
  encode: (value) => value,
  schema: { type: 'boolean' },
}

/** A string as it is, at most `max` characters. */
export function text(title: string, max: number, type = 'string'): PlainCodec<string> {
  return {
    decode(wire) {
      if (typeof wire !== 'string') throw new SchemaError(kindOf(wire), type)
      if (wire.length > max) throw new SchemaError(`string longer than ${max} characters`)
      return wire
    },
    encode: (value) => value,
    schema: { title, type: 'string', maxLength: max },
  }
}

export function array<T>(item: Codec<T>, max: Bound, title = 'array'): Codec<readonly T[]> {
  return {
    decode(wire, limits) {
      if (!Array.isArray(wire)) throw new SchemaError(kindOf(wire), `[]${title}`)
      const most = boundOf(max, limits)
      if (wire.length > most) throw new SchemaError(`more than ${most} items`)
      return wire.map((value, index) => {
        try {
          return item.decode(value, limits)
        } catch (error) {
          throw located(error, String(index), title)
        }
      })
    },
    encode: (value) => value.map((one) => item.encode(one)),
    schema: { type: 'array', items: item.schema, maxItems: max },
  }
}

/** A JSON object used as a map: every key and every value is decoded; at most `max` entries. */
export function record<K, V>(options: {
  readonly title: string
  readonly key: Codec<K>
  readonly value: Codec<V>
  readonly max: Bound
}): Codec<readonly (readonly [key: K, value: V])[]> {
  const { title, key: keys, value: values, max } = options
  return {
    decode(wire, limits) {
      const entries = Object.entries(plainObject(wire, title))
      const most = boundOf(max, limits)
      if (entries.length > most) throw new SchemaError(`more than ${most} entries`)
      return entries.map(([key, value]) => {
        try {
          return [keys.decode(key, limits), values.decode(value, limits)] as const
        } catch (error) {
          throw located(error, key, title)
        }
      })
    },
    encode: (entries) =>
      Object.fromEntries(
        entries.map(([key, value]) => [keys.encode(key) as string, values.encode(value)]),
      ),
    schema: {
      title,
      type: 'object',
      additionalProperties: values.schema,
      maxProperties: max,
    },
  }
}

type Fields = { readonly [key: string]: Codec<unknown> }
type Optional<F extends Fields> = { readonly [K in keyof F]?: TypeOf<F[K]> }

/** An object whose fields may all be left out; null counts as left out, unknown keys are ignored, as go-ethereum does. */
export function object<const F extends Fields>(title: string, fields: F): Codec<Optional<F>> {
  const entries = Object.entries(fields)
  return {
    decode(wire, limits) {
      const output: Record<string, unknown> = {}
      if (wire === null) return output as Optional<F>
      const input = plainObject(wire, title)
      for (const [key, codec] of entries) {
        // Own keys only: the parsed input has Object.prototype behind it.
        const value = Object.hasOwn(input, key) ? input[key] : undefined
        if (value === undefined || value === null) continue
        try {
          output[key] = codec.decode(value, limits)
        } catch (error) {
          throw located(error, key, title)
        }
      }
      return output as Optional<F>
    },
    encode(value) {
      const input = value as Record<string, unknown>
      const output: Record<string, unknown> = {}
      for (const [key, codec] of entries)
        if (input[key] !== undefined) output[key] = codec.encode(input[key])
      return output
    },
    schema: {
      title,
      type: 'object',
      properties: Object.fromEntries(entries.map(([key, codec]) => [key, codec.schema])),
    },
  }
}

/** The same codec with a check, or a change, of the decoded value. */
export function refine<A, B>(
  from: Codec<A>,
  decode: (value: A, limits: Limits) => B,
  encode: (value: B) => A,
): Codec<B> {
  return {
    decode: (wire, limits) => decode(from.decode(wire, limits), limits),
    encode: (value) => from.encode(encode(value)),
    schema: from.schema,
  }
}

export function plainObject(wire: unknown, title: string): Record<string, unknown> {
  if (typeof wire !== 'object' || wire === null || Array.isArray(wire))
    throw new SchemaError(kindOf(wire), title)
  return wire as Record<string, unknown>
}

function located(error: unknown, key: string, title: string): unknown {
  return error instanceof SchemaError ? error.below(key, title) : error
}

export type Param<T = unknown> = {
  readonly name: string
  readonly codec: Codec<T>
  readonly required: boolean
  /** Value of a parameter left out. */
  readonly fallback: T | undefined
}

/** A result's JSON Schema and how its JSON text is made (ASCII only). */
export type Result<T> = {
  readonly name: string
  readonly schema: JsonSchema
  text(value: T): string // Method syntax, so that a Result<bigint> is a Result<unknown>.
}
