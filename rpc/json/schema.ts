/** Codecs: one declaration gives the decoder, the encoder, the TypeScript type and the JSON Schema of a parameter. */

import type { Limits } from '../seam/limits.ts'

export type JsonSchema = { readonly [key: string]: unknown }

export interface Codec<T> {
  /** @param limits of this node. @throws {SchemaError} when the wire value does not fit. */
  decode(wire: unknown, limits: Limits): T
  encode(value: T): unknown // Method syntax, so that a Codec<bigint> is a Codec<unknown>.
  /** A bound may be the name of a limit: `schemaFor` puts its value there. */
  readonly schema: JsonSchema
  /** An optional parameter that is null is a value to it; otherwise it counts as left out. */
  readonly takesNull?: true
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
  /** Whether the value has another form than its codec takes; otherwise `problem` names the rule that it breaks. */
  readonly #isForm: boolean
  #mismatch: { readonly wire: unknown; readonly schema: JsonSchema } | undefined

  constructor(problem: string, type?: string, isForm = type !== undefined) {
    super(problem)
    this.problem = problem
    this.type = type
    this.#isForm = isForm
  }

  /** Notes which value was refused and what its codec takes. The innermost codec is noted first, and stays. */
  refusing(wire: unknown, { schema }: Pick<Codec<unknown>, 'schema'>): this {
    this.#mismatch ??= { wire, schema }
    return this
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

  /** The same in the words of methods that go-ethereum does not have: where the value stands, what is expected there, what came. */
  describeOwn(parameter: string): string {
    const place = this.path === '' ? parameter : `${parameter}.${this.path}`
    if (!this.#isForm || this.#mismatch === undefined) return `${place}: ${this.problem}`
    const { wire, schema } = this.#mismatch
    return `${place}: expected ${formOf(schema)}, got ${shownValue(wire)}`
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

/** The values that a schema describes, in words for people. */
export function formOf(schema: JsonSchema): string {
  const { title, type, properties, items, oneOf } = schema
  if (typeof properties === 'object' && properties !== null)
    return `an object {${Object.keys(properties).join(', ')}}`
  if (type === 'boolean') return 'true or false'
  if (type === 'array')
    return items === undefined ? 'an array' : `an array of: ${formOf(items as JsonSchema)}`
  if (Array.isArray(oneOf)) return oneOf.map((one) => formOf(one)).join(' or ')
  if (typeof title === 'string') return title.charAt(0).toLowerCase() + title.slice(1)
  if (type === 'object') return 'an object'
  return type === 'integer' ? 'a whole number' : `a ${String(type ?? 'value')}`
}

const SHOWN_CHARACTERS = 64
/** What a caller wrote, as JSON; long texts and the contents of objects and arrays are left out. */
export function shownValue(wire: unknown): string {
  if (wire === undefined) return 'nothing'
  if (Array.isArray(wire)) return 'an array'
  if (typeof wire === 'object' && wire !== null) return 'an object'
  if (typeof wire !== 'string' || wire.length <= SHOWN_CHARACTERS) return JSON.stringify(wire)
  return `${JSON.stringify(wire.slice(0, SHOWN_CHARACTERS))}…`
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
          throw located(error, { key: String(index), title, wire: value, codec: item })
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
          throw located(error, { key, title, wire: value, codec: values })
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
export const object = <const F extends Fields>(title: string, fields: F): Codec<Optional<F>> =>
  objectCodec(title, fields, false)

/** An object whose unknown fields are refused by name, so that a misspelt one does not change what a call does. */
export const strictObject = <const F extends Fields>(
  title: string,
  fields: F,
): Codec<Optional<F>> => objectCodec(title, fields, true)

function objectCodec<const F extends Fields>(
  title: string,
  fields: F,
  isStrict: boolean,
): Codec<Optional<F>> {
  const entries = Object.entries(fields)
  return {
    decode(wire, limits) {
      const output: Record<string, unknown> = {}
      if (wire === null) return output as Optional<F>
      const input = plainObject(wire, title)
      if (isStrict) refuseUnknown(input, Object.keys(fields))
      for (const [key, codec] of entries) {
        // Own keys only: the parsed input has Object.prototype behind it.
        const value = Object.hasOwn(input, key) ? input[key] : undefined
        if (value === undefined || value === null) continue
        try {
          output[key] = codec.decode(value, limits)
        } catch (error) {
          throw located(error, { key, title, wire: value, codec })
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
      ...(isStrict ? { additionalProperties: false } : {}),
    },
  }
}

/** @throws {SchemaError} that names the first field that is not among `known` */
export function refuseUnknown(input: object, known: readonly string[]): void {
  const other = Object.keys(input).find((key) => !known.includes(key))
  if (other === undefined) return
  throw new SchemaError(`unknown field ${shownValue(other)}, expected one of ${known.join(', ')}`)
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

function located(
  error: unknown,
  at: {
    readonly key: string
    readonly title: string
    readonly wire: unknown
    readonly codec: Codec<unknown>
  },
): unknown {
  if (!(error instanceof SchemaError)) return error
  return error.refusing(at.wire, at.codec).below(at.key, at.title)
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
