/**
 * Request bodies: JSON-RPC envelopes with parameters of every method, batches of them, and invalid
 * bodies.
 */
import type { Method } from '../../../rpc/method/method.ts'
import { anyValue, litter, nest, stringOf } from './json.ts'
import { paramsOf } from './params.ts'
import type { Dice } from './random.ts'
import type { Rope } from './rope.ts'

const ID_KEYS = ['"id"', '"\\u0069d"', '"i\\u0064"']

/** Makes a call of a method. */
export function callOf(dice: Dice, method: Method, characters: number): Rope {
  const odd = dice.int(8)
  const id: Rope =
    odd === 0
      ? anyValue(dice, characters)
      : odd === 1
        ? stringOf(dice, characters)
        : [{ digits: 1 }, '1']
  const name = odd === 2 ? stringOf(dice, characters) : `"${method.name}"`
  const params =
    odd === 3 ? dice.pick([anyValue, nest])(dice, characters) : paramsOf(dice, method, characters)
  const fields: Rope[] = [
    '"jsonrpc":"2.0"',
    [dice.chance(0.9) ? '"id"' : dice.pick(ID_KEYS), ':', id],
    ['"method":', name],
    ['"params":', params],
  ]
  if (odd === 4) fields.push([stringOf(dice, characters), ':1'])
  if (odd === 5) fields.push(['"x":', anyValue(dice, characters)])
  if (odd === 6) fields.push({ of: ['"', { digits: 5 }, '":1,'], times: dice.size(1, 100) })
  if (dice.chance(0.2)) fields.reverse()
  const space = dice.chance(0.1)
    ? { of: dice.pick([' ', '\n', '\t\r']), times: dice.size(1, characters) }
    : ''
  return ['{', fields.flatMap((field, at) => [at === 0 ? space : ',', field]), '}']
}

/**
 * Groups methods by the schemas of their parameters; twenty methods without parameters are one
 * group.
 */
export function kindsOf(methods: Iterable<Method>): readonly (readonly Method[])[] {
  const kinds = new Map<string, Method[]>()
  for (const method of methods) {
    const key = JSON.stringify(method.params.map(({ codec }) => codec.schema))
    kinds.set(key, [...(kinds.get(key) ?? []), method])
  }
  return [...kinds.values()]
}

/** Makes a body of about this many characters. */
export function bodyOf(
  dice: Dice,
  kinds: readonly (readonly Method[])[],
  characters: number,
): Rope {
  const kind = dice.int(20)
  if (kind < 6) return litter(dice, characters)
  if (kind === 6) return anyValue(dice, characters)
  if (kind === 7) return nest(dice, characters)
  if (kind < 10) {
    const items = dice.pick([2, 20, 99, 100, 101, 1_000, 30_000])
    const each = Math.max(20, Math.floor(characters / items) - 60)
    const item = callOf(dice, dice.pick(dice.pick(kinds)), each)
    return ['[', item, { of: [',', item], times: items - 1 }, ']']
  }
  const call = callOf(dice, dice.pick(dice.pick(kinds)), characters)
  if (kind === 10) return [call, litter(dice, Math.min(characters, 1_000))]
  if (kind === 11) return [litter(dice, characters), call]
  return call
}
