/**
 * This command checks the outputs and gas of all of go-ethereum's vectors for the precompiled
 * contracts. Over JSON-RPC the third-party runner skips the five with the longest inputs. Three of
 * them need more gas than it gives, and an OP chain refuses inputs of that length.
 */
import { readdirSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { runVector, VECTOR_FILES, VECTORS, vectorsOf } from '../fixtures/precompile-vectors.ts'
import { engineOption } from './engine-option.ts'

const engine = engineOption()

let [passed, failed] = [0, 0]
const fail = (what: string) => {
  failed++
  console.log(`FAIL ${what}`)
}
const known = new Set(VECTOR_FILES.map(([name]) => `${name}.json`))
for (const file of readdirSync(VECTORS)) if (!known.has(file)) fail(`${file}: of which contract?`)
for (const file of VECTOR_FILES)
  for (const vector of vectorsOf(file)) {
    const { result, expected } = await runVector(engine, file, vector)
    if (isDeepStrictEqual(result, expected)) passed++
    else fail(`${file[0]} ${vector.Name}: ${JSON.stringify({ result, expected })}`)
  }
console.log(`precompiles\n${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 && passed > 0 ? 0 : 1
