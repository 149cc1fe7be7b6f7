/** The engines by name (`--engine`). */
import type { Engine } from '../engine.ts'
import { makeReferenceEngine } from '../reference/reference.ts'

const ENGINES: ReadonlyMap<string, () => Engine> = new Map([['reference', makeReferenceEngine]])

/** A new one, with caches of its own: a thread makes one and hands it on. @throws {RangeError} naming the engines there are. */
export function engineByName(name: string): Engine {
  const make = ENGINES.get(name)
  if (make === undefined)
    throw new RangeError(
      `no engine named ${JSON.stringify(name)}; there is ${[...ENGINES.keys()].join(', ')}`,
    )
  return make()
}
