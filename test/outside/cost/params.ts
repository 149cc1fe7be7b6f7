/**
 * Parameters of a method, made from the JSON Schemas of its codecs: valid ones, long ones, and some
 * that do not fit.
 */

import type { JsonSchema } from '../../../rpc/json/schema.ts'
import type { Method } from '../../../rpc/method/method.ts'
import { anyValue, stringOf } from './json.ts'
import type { Dice } from './random.ts'
import { rawTransaction } from './rlp.ts'
import { lengthOf, type Rope } from './rope.ts'

const ADDRESSES: readonly Rope[] = [
  ['0x', { digits: 40 }],
  '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266',
  `0x${'4'.padStart(40, '0')}`,
]
const HEX_OF: readonly Rope[] = ['ab', '00', 'ff', '5b', 'AB', '6000']

export function paramsOf(dice: Dice, { name, params }: Method, characters: number): Rope {
  if (params.length === 0 && dice.chance(0.9)) return '[]'
  const long = dice.int(Math.max(1, params.length))
  const given = params.map(({ codec, required }, at) => {
    if (!required && dice.chance(0.3)) return 'null'
    const size = at === long ? characters : 64
    if (name.startsWith('eth_sendRaw') && at === 0 && dice.chance(0.8))
      return ['"0x', rawTransaction(dice, size), '"']
    return fitting(dice, codec.schema, size)
  })
  if (dice.chance(0.03)) given.push(anyValue(dice, characters))
  return ['[', given.flatMap((one, at) => (at === 0 ? [one] : [',', one])), ']']
}

/** Makes a value that the schema allows, or nearly. */
function fitting(dice: Dice, schema: JsonSchema, characters: number, depth = 0): Rope {
  if (dice.chance(0.04)) return anyValue(dice, characters, 2)
  const { oneOf, type, pattern, properties, items, additionalProperties } = schema as Shape
  if (schema['enum'] !== undefined) return JSON.stringify(dice.pick(schema['enum'] as string[]))
  if (oneOf !== undefined) {
    const long = oneOf.filter(canBeLong)
    const isLong = characters > SHORT && long.length > 0 && dice.chance(0.75)
    return fitting(dice, dice.pick(isLong ? long : oneOf), characters, depth)
  }
  if (pattern !== undefined) return ['"', hexOf(dice, pattern, characters), '"']
  if (type === 'boolean') return dice.pick(['true', 'false'])
  if (type === 'number' || type === 'integer')
    return dice.pick([['', { digits: 1 }], '1', '50', '0.5'])
  if (type === 'string') {
    // In lists the values should differ, because equal values are quickly found again.
    if (depth > 0 && dice.chance(0.5)) return ['"0x', { digits: dice.pick([40, 64]) }, '"']
    return dice.chance(0.5) ? ['"', dice.pick(words(characters)), '"'] : stringOf(dice, characters)
  }
  if (type === 'array') return listOf(dice, items, { characters, depth })
  if (properties !== undefined) return objectOf(dice, properties, { characters, depth })
  if (additionalProperties !== undefined) {
    const value = fitting(dice, additionalProperties, dice.size(1, characters), depth + 1)
    const key = ['"0x', { digits: dice.pick([40, 64, 64, 2]) }, '":', value]
    return ['{', key, { of: [',', key], times: timesFor(dice, value, characters) }, '}']
  }
  return anyValue(dice, characters, 2)
}
type Shape = {
  readonly oneOf?: readonly JsonSchema[]
  readonly type?: string
  readonly pattern?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly items?: JsonSchema
  readonly additionalProperties?: JsonSchema
}
/** Any value may have this many characters. */
const SHORT = 200

function canBeLong(schema: JsonSchema): boolean {
  const { oneOf, type, pattern } = schema as Shape
  if (oneOf !== undefined) return oneOf.some(canBeLong)
  if (type === 'string') return schema['enum'] === undefined && !/\}\)?\$$/.test(pattern ?? '')
  return type === 'array' || type === 'object' || type === undefined
}
type Capacity = { readonly characters: number; readonly depth: number }

const words = (characters: number): readonly Rope[] => [
  ...ADDRESSES,
  ['0x', { digits: 64 }],
  ['0x', { of: 'ab', times: Math.max(1, characters >> 1) }],
  'callTracer',
  'prestateTracer',
  '5s',
]

function hexOf(dice: Dice, pattern: string, characters: number): Rope {
  const exact = /\{(\d+)\}\$$/.exec(pattern)
  if (exact !== null && dice.chance(0.95)) {
    const digits = Number(exact[1])
    return digits === 40 ? dice.pick(ADDRESSES) : ['0x', { digits }]
  }
  if (pattern.includes('{2})*')) return ['0x', { of: dice.pick(HEX_OF), times: characters >> 1 }]
  if (dice.chance(0.1)) return ['0x1', { of: dice.pick(['0', 'f']), times: characters }]
  return dice.pick<Rope>(['0x0', '0x1', '0xffff', ['0x1', { digits: 3 }], '0x5208'])
}

function listOf(dice: Dice, items: JsonSchema | undefined, { characters, depth }: Capacity): Rope {
  const inner = depth > 2 || dice.chance(0.6) ? 40 : dice.size(40, Math.max(41, characters))
  const item = items === undefined ? anyTopic(dice, inner) : fitting(dice, items, inner, depth + 1)
  return ['[', item, { of: [',', item], times: timesFor(dice, item, characters) }, ']']
}
/** Makes an item for a list without an item schema: a string, or a list of strings, like topics. */
function anyTopic(dice: Dice, characters: number): Rope {
  const word: Rope = ['"0x', { digits: 64 }, '"']
  if (dice.chance(0.3)) return word
  return ['[', word, { of: [',', word], times: Math.max(1, Math.floor(characters / 69)) }, ']']
}
function timesFor(dice: Dice, item: Rope, characters: number): number {
  const times = Math.max(1, Math.floor(characters / (lengthOf(item) + 1)))
  return dice.chance(0.7) ? times : Math.min(times, dice.pick([1, 100, 1_000, 10_000]))
}
/** Makes an object with a few of the fields, one of which is long. */
function objectOf(
  dice: Dice,
  properties: NonNullable<Shape['properties']>,
  { characters, depth }: Capacity,
): Rope {
  const all = Object.keys(properties)
  const growing = all.filter((key) => canBeLong(properties[key]!))
  const long = dice.pick(growing.length > 0 && dice.chance(0.85) ? growing : all)
  const keys = [...new Set([long, ...dice.some(all, 2 / all.length)])]
  const fields = keys.map((key) => [
    `"${key}":`,
    fitting(dice, properties[key]!, key === long ? characters : 40, depth + 1),
  ])
  return ['{', fields.flatMap((field, at) => (at === 0 ? [field] : [',', field])), '}']
}
