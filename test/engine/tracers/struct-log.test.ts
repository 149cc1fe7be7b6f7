/**
 * The fast engine writes the struct log itself. On both engines it must equal the log of the step
 * tracer, byte for byte.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Engine, TraceSink } from '../../../engine/evm/engine.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { type StructLogOptions, structLogger } from '../../../engine/tracers/struct-log.ts'
import { TraceBudget } from '../../../engine/tracers/types.ts'
import { collectPieces, type Piece, PieceWriter } from '../../../rpc/core/pieces.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { block, transaction } from '../../fixtures/op-block.ts'
import { push, type WorldAccount } from '../../fixtures/world.ts'

const fastEngine = engineByName('fast')

type Run = { readonly code: string; readonly others?: Record<number, WorldAccount> | undefined }
type Traced = {
  readonly text: string
  readonly stepCount: number
  readonly excess: string | undefined
}

/**
 * Traces a run.
 * @param limits of the trace: bytes and steps
 */
async function trace(
  engine: Engine,
  { code, others }: Run,
  options: StructLogOptions,
  { isStepwise = false, isTouched = false, bytes = 2 ** 40, steps = 2 ** 40 } = {},
): Promise<Traced> {
  const opened = block({ engine, accounts: { 2: { code }, ...others }, l1: {} })
  const output = new PieceWriter()
  const pieces: Piece[] = []
  output.start(bytes, (piece) => void pieces.push(piece))
  const budget = new TraceBudget(output, { bytes, steps })
  const tracer = structLogger(options, {
    location: undefined,
    firstLog: 0,
    precompiles: new Set<string>(),
    budget,
    output,
  })
  let stepCount = 0
  const { stepText, ...rest } = tracer.sink
  const sink: TraceSink = {
    ...rest,
    ...(stepText === undefined || isStepwise ? {} : { stepText }),
    ...(isTouched ? { touch() {} } : {}),
    step(step) {
      stepCount++
      rest.step!(step)
    },
  }
  const isExpired = () => budget.excess !== undefined
  await opened.block.execute(
    transaction({ gasLimit: 500_000n }),
    { isExpired },
    { ...tracer, sink },
  )
  tracer.writeResult()
  const text = output.end() ?? Buffer.concat(collectPieces(pieces)).toString()
  return { text, stepCount, excess: budget.excess }
}

const OFF = {
  disableStack: true,
  disableStorage: true,
  enableMemory: false,
  enableReturnData: false,
  limit: 0,
}
const SWITCHES = ['disableStack', 'disableStorage', 'enableMemory', 'enableReturnData'] as const
const OPTIONS: readonly StructLogOptions[] = Array.from({ length: 16 }, (_, bits) => ({
  ...OFF,
  ...Object.fromEntries(SWITCHES.map((name, at) => [name, ((bits >> at) & 1) === 1])),
}))

/** The words have every number of bytes, with and without a leading zero. */
const WORDS = Array.from({ length: 32 }, (_, at) =>
  ['01', '10', 'ff', '00'].map(
    (first) => `${(0x60 + at).toString(16)}${first}${'0a'.repeat(at)}50`,
  ),
).flat()
/** The contract returns 45 bytes of its code. */
const ODD: WorldAccount = { code: '602d5f5f39602d5ff3' }
const REFUNDING: WorldAccount = {
  code: `5f5f55 60015f55 5f5f5f5f5f${push(3)}5af1 5f5f55 00`,
  storage: { 0: 1n },
}
const UNDONE: WorldAccount = { code: '5f5f55 5f5ffd', storage: { 0: 1n } }
const ENDLESS = '5b5f3150 5f56'
const PROGRAMS: readonly (readonly [name: string, code: string, others?: Run['others']])[] = [
  ['nothing', '00'],
  ['no code', ''],
  ['words', `${WORDS.join('')}00`],
  ['a stack larger than a chunk', `5f${'80'.repeat(1_023)}00`],
  ['a stack of long words', `7f${'a5'.repeat(32)}${'80'.repeat(200)}00`],
  ['a stack that overflows', `5b${'5f'.repeat(40)}5f56`],
  ['a loop', '610400 5b 80 80 02 5f52 6001 90 03 80 6003 57 00'],
  ['memory', '6001 6101ff 53 5f51 612000 51 00'],
  ['memory larger than a chunk', '6001 620186a0 52 5f5f5f 00'],
  ['return data of an odd length', `602d60035f5f${push(3)}5afa 50 3d 5f5f3e 00`, { 3: ODD }],
  ['refunds, one of them reverted', REFUNDING.code!, { 2: REFUNDING, 3: UNDONE }],
  ['creations', '6460016001f35f52 6005601b5ff0 5f6005601b5ff5 5f5f5ff0 00'],
  ['an undefined opcode', '5f0c'],
  ['an opcode of a later fork', '5f4b'],
  ['an invalid jump', '5f56'],
  ['a stack underflow', '5f01'],
  ['out of gas', '5f5f5262ffffff5f20'],
  ['an end by the gas limit', ENDLESS],
  ['a revert', '602a5f5260205ffd'],
  ['logs and a precompiled contract', '60205fa0 60205f60205f60045afa 3d 00'],
  ['a contract that destroys itself', '30ff'],
]

const RUNS = PROGRAMS.map(([name, code, others]) => ({ name, code, others }))
describe.each(RUNS)('the struct log of a program: $name', (run) => {
  test('is the same from the fast engine, its single steps and the reference engine', async () => {
    for (const options of OPTIONS) {
      const { text } = await trace(fastEngine, run, options)
      expect(text).toBe((await trace(fastEngine, run, options, { isStepwise: true })).text)
      expect(text).toBe((await trace(referenceEngine, run, options)).text)
    }
  })
})

test('the struct log of a random program is the same from single steps', async () => {
  const opcode = fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(0x5f, 0x60, 0x61, 0x7f, 0x80, 0x81, 0x90, 0x30, 0x34) },
    { weight: 3, arbitrary: fc.constantFrom(0x01, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x5b, 0x3d) },
    { weight: 1, arbitrary: fc.constantFrom(0xf1, 0xfa, 0xf4, 0xf0, 0xf5, 0xf3, 0xfd, 0x20, 0xa1) },
    { weight: 1, arbitrary: fc.nat({ max: 255 }) },
  )
  const code = fc
    .array(opcode, { maxLength: 120 })
    .map((all) => all.map((one) => one.toString(16).padStart(2, '0')).join(''))
  await fc.assert(
    fc.asyncProperty(code, code, fc.constantFrom(...OPTIONS), async (first, second, options) => {
      const called = `60205f60205f5f${push(3)}5af1${first}`
      const run = { code: called, others: { 3: { code: second } } }
      const { text } = await trace(fastEngine, run, options)
      expect(text).toBe((await trace(fastEngine, run, options, { isStepwise: true })).text)
    }),
    { numRuns: 300 },
  )
})

test('the host gets only failed steps and wanted slot steps, but all under a limit', async () => {
  const run = { code: '5f54505f5f5501' }
  const stepCount = async (options: Partial<StructLogOptions>, isTouched = false) =>
    (await trace(fastEngine, run, { ...OFF, ...options }, { isTouched })).stepCount
  expect(await stepCount({})).toBe(1)
  expect(await stepCount({ disableStorage: false })).toBe(3)
  expect(await stepCount({}, true)).toBe(3)
  expect(await stepCount({ limit: 1_000 })).toBe(7)
})

test.each([
  ['steps', { steps: 1_000 }, 'trace of more than 1000 steps'],
  ['bytes', { bytes: 100_000 }, 'trace of more than 100000 bytes'],
])(
  'a struct log with more %s than allowed ends its run at most a chunk later',
  async (_, limits, excess) => {
    const run = { code: ENDLESS }
    const full = await trace(fastEngine, run, OFF)
    const cut = await trace(fastEngine, run, OFF, limits)
    expect(cut.excess).toBe(excess)
    expect((await trace(fastEngine, run, OFF, { ...limits, isStepwise: true })).excess).toBe(excess)
    expect(cut.text.length).toBeLessThan(full.text.length / 2)
  },
)
