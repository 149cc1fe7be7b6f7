/** Types of results: JSON text of each kind of value, and its schema. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytes, hash, hexText, quantityText, uint256 } from './codecs.ts'
import { asciiJson } from './envelope.ts'
import type { JsonSchema, Result } from './schema.ts'

export const quantityResult = (name: string): Result<bigint | number> => ({
  name,
  schema: uint256.schema,
  text: quantityText,
})
export const bytesResult = (name: string): Result<Bytes> => ({
  name,
  schema: bytes.schema,
  text: hexText,
})
export const hashResult = (name: string): Result<Bytes> => ({
  name,
  schema: hash.schema,
  text: hexText,
})
export const booleanResult = (name: string): Result<boolean> => ({
  name,
  schema: { type: 'boolean' },
  text: String,
})
export const stringResult = (name: string): Result<string> => ({
  name,
  schema: { type: 'string' },
  text: asciiJson,
})
/** A result that the handler has written to the output. */
export const writtenResult = (name: string, schema: JsonSchema): Result<void> => ({
  name,
  schema,
  text: () => '',
})
/** JSON text that the handler has assembled; undefined is null. */
export const textResult = (name: string, schema: JsonSchema): Result<string | undefined> => ({
  name,
  schema: { oneOf: [schema, { type: 'null' }] },
  text: (value) => value ?? 'null',
})
/** Makes a result type optional; undefined is null. */
export const orNull = <T>({ name, schema, text }: Result<T>): Result<T | undefined> => ({
  name,
  schema: { oneOf: [schema, { type: 'null' }] },
  text: (value) => (value === undefined ? 'null' : text(value)),
})
export const plainResult = (name: string, schema: JsonSchema): Result<unknown> => ({
  name,
  schema,
  text: asciiJson,
})
