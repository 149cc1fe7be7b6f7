/** Differences that a file lists as known and accepted. */
import { readFileSync } from 'node:fs'
import { StartError } from '../../process/context.ts'
import type { Difference } from './differ.ts'

export type Deviation = {
  /** A method's name, or `*`. */
  readonly method: string
  /** A path such as `transactions[*].gas`; `*` matches anything. */
  readonly path: string
  readonly kind: 'missing' | 'order' | 'wrong'
  readonly why: string
}

/** @throws {StartError} naming the invalid entry */
export function readDeviations(file: string): readonly Deviation[] {
  let list: unknown
  try {
    list = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new StartError(`${file} cannot be read: ${(error as Error).message}`)
  }
  if (!Array.isArray(list)) throw new StartError(`${file}: expected a JSON list`)
  return list.map((entry: unknown, at) => decode(entry, `${file}, entry ${at}`))
}

function decode(entry: unknown, where: string): Deviation {
  const { method, path, kind, why } = (entry ?? {}) as Readonly<Record<string, unknown>>
  for (const [name, value] of Object.entries({ method, path, why }))
    if (typeof value !== 'string') throw new StartError(`${where}: ${name} must be a string`)
  if (kind !== 'missing' && kind !== 'order' && kind !== 'wrong')
    throw new StartError(`${where}: kind must be missing, order or wrong`)
  return { method, path, kind, why } as Deviation
}

/** Returns the difference, changed to `known` with the reason if the list has it. */
export function classified(
  difference: Difference,
  method: string,
  deviations: readonly Deviation[],
): Difference {
  const known = deviations.find(
    (one) =>
      one.kind === difference.kind &&
      matches(one.method, method) &&
      matches(one.path, difference.path),
  )
  return known === undefined ? difference : { ...difference, kind: 'known', why: known.why }
}

function matches(pattern: string, text: string): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`).test(text)
}
