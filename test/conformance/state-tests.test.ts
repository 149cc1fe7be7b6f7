/** A sample of the state tests of ethereum/tests and EEST (CONFORMANCE_DIR, statetest); `test/outside/statetest.ts` runs them all. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { describeEngines } from '../fixtures/engines.ts'
import { runStateCase, type StateCase } from '../fixtures/state-case.ts'

const packs = join(
  process.env['CONFORMANCE_DIR'] ?? '../shared/conformance',
  'statetest/packs/visible',
)
/** Of each pack, about this many of its transactions; those that spin for seconds are left to the full run. */
const SAMPLE = 3
const SLOW =
  /Call50000|Callcode50000|Return50000|QuadraticComplexity|vmPerformance|LoopCalls|run_until_out_of_gas|random_statetest|kzg|bls12|modexp|eip7883|eip196|eip197/i

type Expected = { readonly root: string; readonly logs: string; readonly isInvalid: boolean }

function sample(file: string): [id: string, StateCase, Expected][] {
  if (SLOW.test(file)) return []
  const lines = gunzipSync(readFileSync(join(packs, file)))
    .toString()
    .split('\n')
    .filter((line) => line !== '')
  const every = Math.max(1, Math.floor(lines.length / SAMPLE))
  return lines
    .filter((line, index) => index % every === 0 && !SLOW.test(line.slice(0, 300)))
    .flatMap((line) => {
      const unit = JSON.parse(line)
      const [fork, posts] = Object.entries<[number, string, string, unknown, number[]][]>(
        unit.post,
      ).at(-1)!
      const [index, root, logs, exception] = posts[0]!
      const { env, pre, chainId } = unit
      const one: StateCase = {
        id: `${unit.id}/${fork}`,
        fork,
        chainId,
        env,
        pre,
        tx: unit.txs[index],
        ...(unit.blob === undefined ? {} : { blob: unit.blob[fork] }),
      }
      return [
        [one.id, one, { root, logs, isInvalid: exception !== 0 }] satisfies [
          string,
          StateCase,
          Expected,
        ],
      ]
    })
}

const cases = existsSync(packs)
  ? readdirSync(packs)
      .filter((file) => file.endsWith('.gz'))
      .flatMap(sample)
  : []
describeEngines((engine) => {
  describe.skipIf(cases.length === 0)(`state tests of ${packs}`, () => {
    test.each(cases)('%s', async (_, one, expected) => {
      const result = await runStateCase(one, [engine])
      expect([result.stateRoot, result.logsHash, result.error !== undefined], result.error).toEqual(
        [expected.root, expected.logs, expected.isInvalid],
      )
    })
  })
})
if (cases.length === 0) test('no state tests here: set CONFORMANCE_DIR', ({ skip }) => skip())
