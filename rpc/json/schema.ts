/**
 * Codecs: one declaration gives the decoder, encoder, TypeScript type and JSON Schema of a
 * parameter.
 */

import type { Limits } from '../core/limits.ts'

export type JsonSchema = { readonly [key: string]: unknown }

export interface Codec<T> {
  /**
   * @param limits limits of this node
   * @throws {SchemaError} when the wire value does not fit
   */
  decode(wire: unknown, limits: Limits): T
  // Method syntax makes a Codec<bigint> assignable to Codec<unknown>.
  encode(value: T): unknown
  /** A bound may be the name of a limit, which `schemaFor` replaces by its value. */
  readonly schema: JsonSchema
  /** An optional parameter receives null as a value; otherwise null counts as left out. */
  readonly takesNull?: true
}
/** A codec that needs no limits. */
export interface PlainCodec<T> extends Codec<T> {
  decode(wire: unknown): T
}

export type TypeOf<C> = C extends Codec<infer T> ? T : never

/**
 * Error of a wire value, in go-ethereum's words, because callers match them. With a `type` it is an
 * error of Go's JSON decoder, which names the field. An example is "json: cannot unmarshal
 * non-string into Go value of type common.Address".
 */
export class SchemaError extends Error {
  override name = 'SchemaError'
  readonly problem: string
  readonly type: string | undefined
  path = ''
  title = ''
  /**
   * True when the value has another form than its codec takes; otherwise `problem` is the broken
   * rule.
   */
  readonly #isForm: boolean
  #mismatch: { readonly wire: unknown; readonly schema: JsonSchema } | undefined

  constructor(problem: string, type?: string, isForm = type !== undefined) {
    super(problem)
    this.problem = problem
    this.type = type
    this.#isForm = isForm
  }

  /**
   * Records the refused value and its codec's schema. Only the first call, of the innermost codec,
   * has an effect.
   */
  refusing(wire: unknown, { schema }: Pick<Codec<unknown>, 'schema'>): this {
    this.#mismatch ??= { wire, schema }
    return this
  }

  /** Adds the `key` of an object or array called `title` to the path of the value. */
  below(key: string, title: string): this {
    this.path = this.path === '' ? key : `${key}.${this.path}`
    this.title = title
    return this
  }

  describe(): string {
    if (this.type === undefined)
      return this.path === '' ? this.problem : `${this.path}: ${this.problem}`
    const subject = this.path === '' ? 'value' : `struct field ${this.title}.${this.path}`
    return `json: cannot unmarshal ${this.problem} into Go ${subject} of type ${this.type}`
  }

  /**
   * Describes the error for methods that go-ethereum does not have: location, expected form and
   * actual value.
   */
  describeOwn(parameter: string): string {
    const subject = this.path === '' ? parameter : `${parameter}.${this.path}`
    if (!this.#isForm || this.#mismatch === undefined) return `${subject}: ${this.problem}`
    const { wire, schema } = this.#mismatch
    return `${subject}: expected ${formOf(schema)}, got ${quotedValue(wire)}`
  }
}

/** Maximum number: fixed, or the name of a limit of this node. */
export type Bound = number | keyof Limits
const boundOf = (bound: Bound, limits: Limits): number =>
  typeof bound === 'number' ? bound : limits[bound]

const BOUNDS: ReadonlySet<string> = new Set(['maxItems', 'maxProperties'])
/** Replaces the names of limits in a schema by this node's values. */
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

/** Returns the name of a JSON value's type in Go's decoder. */
export function kindOf(wire: unknown): string {
  if (wire === null) return 'null'
  return Array.isArray(wire) ? 'array' : typeof wire === 'boolean' ? 'bool' : typeof wire
}

/** Describes the values of a schema in words. */
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

const QUOTED_CHARACTERS = 64
/**
 * Quotes a caller's value as JSON, without the contents of objects and arrays, and with long texts
 * cut.
 */
export function quotedValue(wire: unknown): string {
  if (wire === undefined) return 'nothing'
  if (Array.isArray(wire)) return 'an array'
  if (typeof wire === 'object' && wire !== null) return 'an object'
  if (typeof wire !== 'string' || wire.length <= QUOTED_CHARACTERS) return JSON.stringify(wire)
  return `${JSON.stringify(wire.slice(0, QUOTED_CHARACTERS))}…`
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

/** Codec of a string of at most `max` characters. */
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
      const bound = boundOf(max, limits)
      if (wire.length > bound) throw new SchemaError(`more than ${bound} items`)
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

/**
 * Codec of a JSON object used as a map with at most `max` entries; every key and value is decoded.
 */
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
      const bound = boundOf(max, limits)
      if (entries.length > bound) throw new SchemaError(`more than ${bound} entries`)
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

/**
 * Codec of an object whose fields are all optional. Null counts as left out and unknown keys are
 * ignored, as in go-ethereum.
 */
export const object = <const F extends Fields>(title: string, fields: F): Codec<Optional<F>> =>
  objectCodec(title, fields, false)

/**
 * Codec of an object that refuses unknown fields, so that a misspelt field does not change a call's
 * effect.
 */
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
        // Only own keys count, because the parsed input inherits from Object.prototype.
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

/**
 * Checks an object's keys.
 * @throws {SchemaError} with the first field that is not in `known`
 */
export function refuseUnknown(input: object, known: readonly string[]): void {
  const other = Object.keys(input).find((key) => !known.includes(key))
  if (other === undefined) return
  throw new SchemaError(`unknown field ${quotedValue(other)}, expected one of ${known.join(', ')}`)
}

/** Derives a codec that checks or converts the decoded value. */
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
  /** Value of a parameter that is left out. */
  readonly fallback: T | undefined
}

/** JSON Schema of a result, and its conversion to JSON text in ASCII. */
export type Result<T> = {
  readonly name: string
  readonly schema: JsonSchema
  // Method syntax makes a Result<bigint> assignable to Result<unknown>.
  text(value: T): string
}
