/**
 * Halt reasons are those of go-ethereum 1.17.5, by fork; the texts of its gas handlers follow "out
 * of gas: ".
 */
import { describe, expect, test } from 'vitest'
import type { TraceSink } from '../../../engine/evm/engine.ts'
import { makeReferenceEngine } from '../../../engine/evm/reference/reference.ts'
import { BLOCK, message, PRAGUE, push, world } from '../../fixtures/world.ts'

const engine = makeReferenceEngine()
const HUGE = `7f${'ff'.repeat(32)}`
/** The offset is beyond any payable memory, but within 64 bits. */
const FAR = '651fffffffffff'
const PROTECTED = 'out of gas: write protection'
const SHORT = 'out of gas: out of gas'
/** The second run finds its jump table made. */
const RUNS = 2

type Case = [code: string, reason: string, options?: { gas?: bigint; spec?: string }]

async function reasonOf(code: string, { gas = 100_000n, spec = 'prague' } = {}): Promise<string> {
  const session = engine.openSession(world({ 1: { balance: 1n }, 2: { code } }), BLOCK, {
    ...PRAGUE,
    spec,
  })
  session.startTransaction()
  const outcome = await session.run(message({ gas }))
  return outcome.status === 'halt' ? outcome.reason : outcome.status
}

describe('the result of a message', () => {
  const cases: Case[] = [
    ['60015f55', 'out of gas: not enough gas for reentrancy sentry', { gas: 2_305n }],
    ['60015f55', 'out of gas', { gas: 2_306n }],
    ['60015f55', 'out of gas: not enough gas for reentrancy sentry', { gas: 5n }],
    ['60015f55', 'out of gas', { gas: 4n }],
    ['60016000 55', 'out of gas', { gas: 2_306n, spec: 'byzantium' }],
    [
      '60016000 55',
      'out of gas: not enough gas for reentrancy sentry',
      { gas: 2_306n, spec: 'istanbul' },
    ],
    ['6003565b0c', 'invalid opcode: opcode 0xc not defined'],
    ['6003565bfe', 'invalid opcode: INVALID'],
    ['6003565b5f', 'invalid opcode: PUSH0', { spec: 'london' }],
    ['5f', 'invalid opcode: PUSH0', { spec: 'london' }],
    ['5e', 'invalid opcode: MCOPY', { spec: 'london' }],
    ['4b', 'invalid opcode: SLOTNUM'],
    // Memory: an overflow of 64 bits is found first, and unpayable memory with the price. The
    // opcode's fixed price comes before both.
    [`${HUGE}51`, 'gas uint64 overflow'],
    [`${FAR}51`, 'out of gas: gas uint64 overflow'],
    [`${FAR}51`, 'out of gas', { gas: 5n }],
    [`${HUGE}51`, 'out of gas', { gas: 5n }],
    [`6001 67ffffffffffffffe0 f3`, 'gas uint64 overflow'],
    [`6001 67ffffffffffffffdf f3`, 'out of gas: gas uint64 overflow'],
    [`5f ${HUGE} 52`, 'gas uint64 overflow'],
    [`63ffffffff 51`, 'out of gas'],
    ['60015f5f3e', 'return data out of bounds'],
    [`60015f${FAR}3e`, 'out of gas: gas uint64 overflow'],
    ['60015f5f3e', 'out of gas', { gas: 10n }],
    // Calls: since Prague the whole price is checked where it is computed. Before, a cold address
    // and a CALL's transfer were checked earlier.
    [`5f5f5f5f${push(9)}5afa`, 'out of gas', { gas: 110n }],
    [`5f5f5f5f${push(9)}5afa`, SHORT, { gas: 120n }],
    [`60006000600060006000${push(9)}5af1`, SHORT, { gas: 2_000n, spec: 'london' }],
    [`60006000600060006001${push(2)}5af1`, SHORT, { gas: 9_000n, spec: 'london' }],
    [`60006000600060006001${push(9)}5af1`, 'out of gas', { gas: 20_000n, spec: 'london' }],
    [`60006000600060006001${push(9)}5af1`, SHORT, { gas: 20_000n }],
    [`60006000600060006001${push(2)}5af2`, 'out of gas', { gas: 9_000n, spec: 'london' }],
    [`600060006000600063ffffffff5af4`, 'out of gas', { gas: 600n, spec: 'istanbul' }],
    [`60016000600060006000${HUGE}f1`, 'stack underflow (6 <=> 7)'],
    [`5f${FAR}5f5f5f${push(9)}5af1`, 'success'],
    [`60015f${FAR}6001 ${push(9)}5afa`, 'out of gas: gas uint64 overflow'],
    [
      `60006000600060006000${push(2)}${HUGE}f1`,
      'out of gas: gas uint64 overflow',
      { spec: 'homestead' },
    ],
    // SELFDESTRUCT goes to a cold address.
    [`${push(9)}ff`, 'out of gas', { gas: 5_002n }],
    [`${push(9)}ff`, SHORT, { gas: 7_000n }],
    [`61c001 5f 5f f0`, 'out of gas: max initcode size exceeded: code size 49153 limit 49152'],
    [`5f 61c001 5f 5f f5`, 'out of gas: max initcode size exceeded: code size 49153 limit 49152'],
    [
      `5f 640100000000 5f 5f f5`,
      'out of gas: max initcode size exceeded: code size 4294967296 limit 49152',
    ],
    [
      `641fffffffe0 5f 5f f0`,
      'out of gas: max initcode size exceeded: code size 137438953440 limit 49152',
    ],
    [`61c001 6000 6000 f0`, 'success', { spec: 'london' }],
  ]
  test.each(cases)('with code %s is "%s" (options %o)', async (code, reason, options) => {
    const bare = code.replaceAll(' ', '')
    for (let run = 0; run < RUNS; run++) expect(await reasonOf(bare, options)).toBe(reason)
  })
})

describe('the traced result of a static call', () => {
  const cases: [name: string, code: string, reason: string, spec?: string][] = [
    ['SSTORE', '60015f55', PROTECTED],
    ['CREATE', '5f5f5ff0', PROTECTED],
    ['CREATE with too much init code', '61c0015f5ff0', PROTECTED],
    ['CREATE2', '5f5f5f5ff5', PROTECTED],
    ['CALL with value', `5f5f5f5f6001${push(9)}5af1`, PROTECTED],
    ['CALL with value', `60006000600060006001${push(9)}5af1`, PROTECTED, 'london'],
    ['CALL without value', `5f5f5f5f5f${push(9)}5af1`, 'ok'],
    ['CALLCODE with value', `5f5f5f5f6001${push(9)}5af2`, 'ok'],
    ['SELFDESTRUCT', '5fff', PROTECTED],
    ['LOG1', '5f5f5fa1', 'write protection'],
    ['TSTORE', '5f5f5d', 'write protection'],
    ['LOG0 with memory beyond 64 bits', `6001${HUGE}a0`, 'gas uint64 overflow'],
  ]
  test.each(cases)('with %s (code %s) is "%s"', async (_, code, reason, spec = 'prague') => {
    const errors: (string | undefined)[] = []
    let logs = 0
    const sink: TraceSink = { exit: (error) => void errors.push(error), log: () => void logs++ }
    const calling = `6000600060006000${push(3)}5afa`
    const accounts = { 1: { balance: 1n }, 2: { code: calling }, 3: { code } }
    const session = engine.openSession(world(accounts), BLOCK, { ...PRAGUE, spec })
    session.setTrace(sink)
    session.startTransaction()
    await session.run(message({ gas: 200_000n }))
    expect(errors.at(-2) ?? 'ok').toBe(reason)
    expect(logs).toBe(0)
  })
})
