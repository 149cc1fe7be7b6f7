/**
 * A sample of the state tests of ethereum/tests and EEST (CONFORMANCE_DIR, statetest).
 * `test/outside/statetest.ts` runs them all.
 */
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
/**
 * The sample takes about this many transactions of each pack. The full run alone has those that run
 * for seconds.
 */
const SAMPLE = 3
const SLOW =
  /Call50000|Callcode50000|Return50000|QuadraticComplexity|vmPerformance|LoopCalls|run_until_out_of_gas|random_statetest|kzg|bls12|modexp|eip7883|eip196|eip197/i

type Expected = { readonly root: string; readonly logs: string; readonly isInvalid: boolean }

type Case = readonly [id: string, StateCase, Expected]

function sample(file: string): Case[] {
  if (SLOW.test(file)) return []
  const lines = linesOf(file)
  const every = Math.max(1, Math.floor(lines.length / SAMPLE))
  return lines
    .filter((line, index) => index % every === 0 && !SLOW.test(line.slice(0, 300)))
    .map((line) => casesOf(line).at(-1)![0]!)
}

const linesOf = (file: string): string[] =>
  gunzipSync(readFileSync(join(packs, file)))
    .toString()
    .split('\n')
    .filter((line) => line !== '')

/** Splits the cases of a line by fork, oldest first. */
function casesOf(line: string): Case[][] {
  const unit = JSON.parse(line)
  const { env, pre, chainId, post, txs, blob } = unit
  const byFork = Object.entries<[number, string, string, unknown, number[]][]>(post)
  return byFork.map(([fork, posts]) =>
    posts.map(([index, root, logs, exception]) => {
      const of = blob === undefined ? {} : { blob: blob[fork] }
      const one = { id: `${unit.id}/${fork}`, fork, chainId, env, pre, tx: txs[index], ...of }
      return [one.id, one, { root, logs, isInvalid: exception !== 0 }]
    }),
  )
}

const files = existsSync(packs) ? readdirSync(packs).filter((file) => file.endsWith('.gz')) : []
const cases = files.flatMap(sample)
const osaka = files
  .filter((file) => file.startsWith('eest_osaka_'))
  .flatMap(linesOf)
  .flatMap((line) => casesOf(line).flat())
  .filter(([, { fork }]) => fork === 'Osaka')
describeEngines((engine) => {
  describe.skipIf(cases.length === 0)(`a state test of ${packs}`, () => {
    test.each(cases)('has the expected root, logs and validity: %s', async (_, one, expected) => {
      const result = await runStateCase(one, [engine])
      expect([result.stateRoot, result.logsHash, result.error !== undefined], result.error).toEqual(
        [expected.root, expected.logs, expected.isInvalid],
      )
    })
  })

  describe.skipIf(osaka.length === 0)('the state tests of Osaka', () => {
    test('have the expected results with the opcodes, contracts and gas of Karst', async () => {
      expect(osaka.length).toBeGreaterThan(1_000)
      for (const [id, one, expected] of osaka) {
        const result = await runStateCase({ ...one, isKarst: true }, [engine])
        expect([result.stateRoot, result.logsHash, result.error !== undefined], id).toEqual([
          expected.root,
          expected.logs,
          expected.isInvalid,
        ])
      }
    })
  })
})
if (cases.length === 0) test('the state tests need CONFORMANCE_DIR', ({ skip }) => skip())
