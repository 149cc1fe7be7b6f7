/** The engines by name (`--engine`). */
import type { Engine } from './engine.ts'
import { referenceEngine } from './reference.ts'

export const ENGINES: readonly Engine[] = [referenceEngine]

/** @throws {RangeError} naming the engines there are. */
export function engineByName(name: string): Engine {
  const found = ENGINES.find((engine) => engine.name === name)
  if (found === undefined)
    throw new RangeError(
      `no engine named ${JSON.stringify(name)}; there is ${ENGINES.map((each) => each.name).join(', ')}`,
    )
  return found
}
