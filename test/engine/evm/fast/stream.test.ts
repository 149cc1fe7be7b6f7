/**
 * Translated code is compared with its bytes. The cases are every gas limit, and stacks that are
 * too low or too high. Others have frames of both kinds in one run.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { EvmRules } from '../../../../engine/chainspec/types.ts'
import type { Engine, Outcome, Session } from '../../../../engine/evm/engine.ts'
import { makeFastEngine } from '../../../../engine/evm/fast/fast.ts'
import type { EngineTier } from '../../../../engine/evm/fast/instance.ts'
import { compileModule } from '../../../../engine/evm/fast/module.ts'
import { makeReferenceEngine } from '../../../../engine/evm/reference/reference.ts'
import { BLOCK, message, PRAGUE, word, world } from '../../../fixtures/world.ts'

const module = compileModule()
const [precise, stream, auto] = (['precise', 'stream', 'auto'] satisfies EngineTier[]).map((tier) =>
  makeFastEngine(makeReferenceEngine(), { module, tier }),
) as [Engine, Engine, Engine]

const OSAKA: EvmRules = { ...PRAGUE, spec: 'osaka' }
const RICH = { balance: 10n ** 20n }
const GAS = 1_000_000n

function open(engine: Engine, code: string, rules = PRAGUE): Session {
  const called = '60015f55 5f35 5f52 600a601452 60405ff3'
  return engine.openSession(world({ 1: RICH, 2: { code }, 3: { code: called } }), BLOCK, rules)
}
/** Runs the code, gives the outcome with its changes, and reverts them. */
function run(session: Session, gas: bigint, input = word(7n)): unknown {
  session.startTransaction()
  const mark = session.checkpoint()
  const outcome = session.run(message({ gas, input })) as Outcome
  const all = [outcome, session.diff(mark)]
  session.revert(mark)
  return all
}

/** Compares the engines for each gas limit of the run, from zero up to the gas that it needs. */
function sweep(code: string): void {
  const [onBytes, onStream] = [open(precise, code), open(stream, code)]
  const [full] = run(onBytes, GAS) as [Outcome]
  const left = 'gasLeft' in full ? full.gasLeft : 0n
  const max = left === 0n ? 2_000n : GAS - left + 2n
  const step = max / 3_000n + 1n
  for (let gas = 0n; gas <= max; gas += step) expect(run(onStream, gas)).toEqual(run(onBytes, gas))
  expect(run(onStream, GAS)).toEqual(run(onBytes, GAS))
  onBytes.close()
  onStream.close()
}

/** Each program leaves the lower stack unchanged, and ends in STOP or a halt. */
const PROGRAMS: Readonly<Record<string, string>> = {
  'a known jump': '6004 56 fe 5b 00',
  'a jump into data': '6004 56 60 5b 00',
  'a jump on a word': '5f 6006 57 00 5b 6001 600d 57 fe 5b 00',
  'a jump if a word is zero': '5f 15 6006 57 fe 5b 6001 15 6009 57 00',
  'jumps on comparisons': '6002 6001 10 6009 57 fe 5b 6002 6001 11 6014 57 00 fe 5b 00',
  'jumps on negated comparisons':
    '6001 6002 10 15 600a 57 fe 5b 6002 6001 14 15 6016 57 00 fe 5b 00',
  'signed comparisons': '5f 19 6001 12 600a 57 00 5b 6001 5f 19 12 6015 57 00 5b 00',
  'a selector': '63aabbccdd 80 63aabbccdd 14 6010 57 fe 5b 80 60ff 14 601a 57 00',
  'pops and a jump': '600a 5f 5f 5f 50 50 50 56 5b 00 00 5b 00',
  pops: '5f 5f 5f 5f 50 50 50 50 00',
  'more pops than words on the stack': '5f 5f 50 50 50 00',
  'a mask and AND': '5f 19 6001 6001 60a0 1b 03 16 5f52 6001 6001 60a0 1b 03 6020 52 60405ff3',
  constants:
    '6003 6005 01 60ff 16 6004 1b 6002 1c 7ff0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0 16 5f52 60205ff3',
  'a carry through all limbs': '5f 19 6001 01 5f52 5f 19 60ff 01 602052 60405ff3',
  'DUP and ADD': '6001 6002 81 01 80 01 82 80 80 91 5f52 50 50 50 60205ff3',
  'SWAP and POP': '6001 6002 6003 91 50 5f52 50 60205ff3',
  'DUP and AND': '60ff 610ff0 81 16 80 16 5f52 50 60205ff3',
  'two SWAPs and POP': '6001 6002 6003 6004 92 91 50 91 90 50 5f52 602052 60405ff3',
  'PUSH and SWAP1': '6001 6002 90 6003 90 5f52 602052 604052 60605ff3',
  'PUSH and NOT':
    '6001 19 5f 19 7ff0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0 19 5f52 602052 604052 60605ff3',
  'a call of a function': '6006 600a 56 fe 5b 00 00 fe 5b 56',
  'memory at constant offsets': '6007 6101f0 52 610200 51 5f52 61ffff 51 00',
  'memory that costs too much': '63ffffffff 51 00',
  'memory before the end of a block': '6001 61ffff 53 6001 6002 01 50 5a 50 00',
  'GAS inside a block': '5a 6001 6002 01 5a 03 5f52 60205ff3',
  'storage reads inside a block': '6001 54 6002 54 01 6003 54 5f52 60205ff3',
  'SSTORE and its sentry': '6001 5f 55 6002 5f 55 5f 5f 55 00',
  'bounds of the return data': '6001 5f 5f 3e 00',
  'a hash': '6040 5f 20 5f52 60205ff3',
  'EXP, copies and a log':
    '60ff 6002 0a 5f52 6020 5f 5f 37 6010 5f 6040 39 6001 6020 5f a1 60405ff3',
  'a call and its return data': '6020 5f 6020 5f 5f 6003 5a f1 3d 5f 5f 3e 5f 51 5f52 60205ff3',
  'a call with little gas': '5f 5f 5f 5f 6003 611000 fa 5f52 60205ff3',
  'a call to itself':
    '5f35 6001 11 600d 57 60205ff3 5b 6001 5f35 03 5f52 6020 5f 6020 5f 5f 30 5a f1 60205ff3',
  'a creation': '6005 6000 53 67600160005360016000f3 5f52 6008 6018 5f f0 5f52 60205ff3',
  'the program counter': '58 58 5b 58 5f52 602052 604052 60605ff3',
  'an undefined opcode': '6001 6002 0c 00',
  'code that ends in a PUSH': '6001 61ff',
  'a loop': '6020 5b 6001 90 03 80 6002 57 00',
}

describe('translated code', () => {
  test.each(Object.entries(PROGRAMS))('runs like its bytes at every gas limit: %s', (_, code) =>
    sweep(code),
  )

  test('runs like its bytes for random opcodes', () => {
    const op = fc.oneof(
      fc.integer({ min: 0, max: 0x20 }),
      fc.integer({ min: 0x30, max: 0x5f }),
      fc.constantFrom(0x80, 0x81, 0x82, 0x90, 0x91, 0xa0, 0xf3, 0xfd, 0x50, 0x5b, 0x56, 0x57),
    )
    const pushes = fc
      .tuple(fc.constantFrom(0x60, 0x61), fc.integer({ min: 0, max: 60 }))
      .map(([width, value]) => (width === 0x60 ? hex(width, value) : hex(width, 0, value)))
    const code = fc
      .array(
        fc.oneof(
          { weight: 3, arbitrary: pushes },
          { weight: 4, arbitrary: op.map((one) => hex(one)) },
        ),
        {
          minLength: 5,
          maxLength: 60,
        },
      )
      .map((parts) => parts.join(''))
    fc.assert(
      fc.property(code, fc.integer({ min: 0, max: 400 }), (program, gas) => {
        const [onBytes, onStream] = [open(precise, program), open(stream, program)]
        for (const limit of [BigInt(gas), 20_000n])
          expect(run(onStream, limit)).toEqual(run(onBytes, limit))
        onBytes.close()
        onStream.close()
      }),
      { numRuns: 400 },
    )
  })
})

describe('translated code on a stack', () => {
  test.each([1_020, 1_022, 1_023, 1_024, 1_025])('of %i words runs like its bytes', (words) => {
    const fill = '5f'.repeat(words)
    for (const end of [
      '80 50 00',
      '8081 50 50 00',
      '6001 6002 50 50 00',
      '80 01 00',
      '5b 80 50 00',
    ])
      sweep(fill + end)
  })
  test('that is too low runs like its bytes', () => {
    for (const code of [
      '01',
      '5f 01',
      '5f 81 01',
      '90 50',
      '5f 90 50',
      '5f 8182',
      '6000 52',
      '15 6004 57',
    ])
      sweep(`${code} 00`)
  })
})

test('code that runs again is translated for the rules of its session', () => {
  // CLZ exists from Osaka on.
  const code = '6001 1e 5f52 60205ff3'
  for (const rules of [PRAGUE, OSAKA, PRAGUE]) {
    const [session, onBytes] = [open(auto, code, rules), open(precise, code, rules)]
    const expected = run(onBytes, GAS)
    for (let round = 0; round < 3; round++) expect(run(session, GAS)).toEqual(expected)
    session.close()
    onBytes.close()
  }
})

test('translated code and bytes use the same fuel for backward jumps and calls', () => {
  const code = '6020 5b 5f 5f 5f 5f 5f 6003 5a f1 50 6001 90 03 80 6002 57 00'
  for (const fuel of [0, 1, 30, 62, 63, 64, 65]) {
    const outcomes = [precise, stream].map((engine) => {
      const session = open(engine, code)
      session.startTransaction()
      const outcome = session.run(message({ gas: GAS, input: word(0n) }), { fuel })
      session.close()
      return outcome
    })
    expect(outcomes[1]).toEqual(outcomes[0])
  }
})

function hex(...bytes: readonly number[]): string {
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
