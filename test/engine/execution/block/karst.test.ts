/**
 * Both sides of Karst's time are tested on both engines. The numbers are those of the OP stack's
 * own acceptance test (osaka_on_l2_test.go).
 */
import { describe, expect, test } from 'vitest'
import { isDepositsOnly } from '../../../../engine/chainspec/rules.ts'
import { call } from '../../../../engine/execution/call/call.ts'
import { estimateGas } from '../../../../engine/execution/call/estimate.ts'
import { type Bytes, NO_BYTES } from '../../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../../engine/primitives/hex.ts'
import { makeTracer } from '../../../../engine/tracers/registry.ts'
import { describeEngines } from '../../../fixtures/engines.ts'
import {
  ATTRIBUTES,
  deposit,
  ETHER,
  block as openTestBlock,
  testChain,
  transaction,
} from '../../../fixtures/op-block.ts'
import { testOutput } from '../../../fixtures/trace-output.ts'
import { address, BLOCK, word, world } from '../../../fixtures/world.ts'

const chain = { ...testChain('karst'), chainId: 196n }
const AT = { before: BLOCK.timestamp - 1n, after: BLOCK.timestamp }
type Side = keyof typeof AT

const contract = (low: number): Bytes => hexToBytes(`0x${low.toString(16).padStart(40, '0')}`)
const MODEXP = contract(5)
const PAIRING = contract(8)
const P256VERIFY = contract(0x100)
/** 1 to the power of 1, modulo a number of 1,025 bytes. */
const LONG_MODULUS = Buffer.concat([
  ...[word(1n), word(1n), word(1_025n)],
  Uint8Array.of(1, 1),
  Buffer.alloc(1_025, 0xff),
])
/** The code runs PUSH1 1, CLZ, and returns the word. */
const LEADING_ZEROS = { 2: { code: '6001 1e 5f52 60205f f3' } }
/** The code returns the remaining gas. */
const GAS_LEFT = { 2: { code: '5a 5f52 60205f f3' } }
/** The code reads memory that no gas pays for. */
const ENDLESS_MEMORY = { 2: { code: '63 ffffffff 51' } }
const CAP = 1n << 24n

describeEngines((engine) => {
  const optionsOf = (
    side: Side,
    request: { readonly to: Bytes; readonly input?: Bytes; readonly gas?: bigint },
    accounts = {},
  ) => ({
    engine,
    chain,
    env: { ...BLOCK, timestamp: AT[side] },
    reader: world({ 1: { balance: ETHER }, ...accounts }),
    request: { from: address(1), ...request },
    gasCap: 50_000_000n,
    limits: {},
  })
  const called = async (...of: Parameters<typeof optionsOf>) => call(optionsOf(...of))
  const estimated = async (...of: Parameters<typeof optionsOf>) => estimateGas(optionsOf(...of))
  const blockAt = (side: Side, accounts = {}) =>
    openTestBlock({ engine, accounts, fork: 'karst', attributes: { timestamp: AT[side] } }).block

  /** Checks that a call, an execution in a block and its trace end the same. */
  async function statusOf(
    side: Side,
    { to, input = NO_BYTES, gas }: { to: Bytes; input?: Bytes; gas: bigint },
    accounts = {},
  ) {
    const { status } = await called(side, { to, input, gas }, accounts)
    const block = blockAt(side, accounts)
    const { output, budget, parsed } = testOutput()
    const precompiles = new Set(engine.precompiles(block.rules.evm).map(bytesToHex))
    const about = { location: undefined, firstLog: 0, precompiles, budget, output }
    const tracer = makeTracer({ name: 'callTracer', config: undefined }, about)
    const done = await block.execute(transaction({ to, input, gasLimit: gas }), undefined, tracer)
    if (done.status !== 'executed') throw new Error(JSON.stringify(done))
    tracer.writeResult()
    const { receipt } = done.executed
    const trace = parsed() as { readonly error?: string; readonly gasUsed: string }
    expect(receipt.status).toBe(status === 'success' ? 1 : 0)
    expect(trace.error === undefined).toBe(status === 'success')
    expect(BigInt(trace.gasUsed)).toBe(receipt.gasUsed)
    return { status, gasUsed: receipt.gasUsed }
  }

  test.each<[what: string, side: Side, to: Bytes, input: Bytes, gas: bigint, passes: boolean]>([
    ['MODEXP of 1,025 bytes', 'before', MODEXP, LONG_MODULUS, 1_000_000n, true],
    ['MODEXP of 1,025 bytes', 'after', MODEXP, LONG_MODULUS, 1_000_000n, false],
    ['MODEXP for 21,300', 'before', MODEXP, NO_BYTES, 21_300n, true],
    ['MODEXP for 21,300', 'after', MODEXP, NO_BYTES, 21_300n, false],
    ['MODEXP for 21,600', 'after', MODEXP, NO_BYTES, 21_600n, true],
    ['P256VERIFY for 24,500', 'before', P256VERIFY, NO_BYTES, 24_500n, true],
    ['P256VERIFY for 24,500', 'after', P256VERIFY, NO_BYTES, 24_500n, false],
    ['P256VERIFY for 28,000', 'after', P256VERIFY, NO_BYTES, 28_000n, true],
    ['a pairing of 300', 'before', PAIRING, new Uint8Array(57_600), 12_000_000n, true],
    ['a pairing of 300', 'after', PAIRING, new Uint8Array(57_600), 12_000_000n, true],
    ['a pairing of 301', 'before', PAIRING, new Uint8Array(57_792), 12_000_000n, true],
    ['a pairing of 301', 'after', PAIRING, new Uint8Array(57_792), 12_000_000n, false],
  ])('%s passes or fails as specified, %s Karst', async (_, side, to, input, gas, passes) => {
    const { status, gasUsed } = await statusOf(side, { to, input, gas })
    expect(status).toBe(passes ? 'success' : 'refused')
    // A contract that fails returns no gas.
    if (!passes) expect(gasUsed).toBe(gas)
  })

  test('MODEXP with a modulus of 1,025 bytes gives as many bytes before Karst', async () => {
    const result = await called('before', { to: MODEXP, input: LONG_MODULUS })
    expect(result).toMatchObject({ output: Uint8Array.from([...new Uint8Array(1_024), 1]) })
  })

  test('CLZ exists from Karst on', async () => {
    const to = address(2)
    const gas = 100_000n
    expect(await statusOf('before', { to, gas }, LEADING_ZEROS)).toMatchObject({
      status: 'refused',
    })
    expect(await statusOf('after', { to, gas }, LEADING_ZEROS)).toMatchObject({ status: 'success' })
    expect(await called('after', { to }, LEADING_ZEROS)).toMatchObject({ output: word(255n) })
  })

  describe('the gas limit of a transaction', () => {
    const executed = async (side: Side, gasLimit: bigint) => {
      const done = await blockAt(side).execute(transaction({ gasLimit }))
      return done.status === 'invalid' ? done.reason.message : done.status
    }
    test('is at most 2^24, except for a deposit', async () => {
      expect(await executed('before', CAP + 1n)).toBe('executed')
      expect(await executed('after', CAP)).toBe('executed')
      expect(await executed('after', CAP + 1n)).toBe(
        'transaction gas limit too high (cap: 16777216, tx: 16777217)',
      )
      const done = await blockAt('after').execute(deposit({ gasLimit: CAP + 1n }))
      expect(done.status).toBe('executed')
    })

    test('does not bound a call', async () => {
      const left = await called('after', { to: address(2), gas: 2n * CAP }, GAS_LEFT)
      expect(left).toMatchObject({ output: word(2n * CAP - 21_002n) })
    })

    test('bounds an estimate', async () => {
      const gasOf = (side: Side, gas?: bigint) =>
        estimated(side, { to: address(2), ...(gas === undefined ? {} : { gas }) }, ENDLESS_MEMORY)
      const allowance = (gas: bigint) => ({ message: `gas required exceeds allowance (${gas})` })
      expect(await gasOf('before')).toMatchObject(allowance(30_000_000n))
      expect(await gasOf('after')).toMatchObject(allowance(CAP))
      expect(await gasOf('after', 20_000_000n)).toMatchObject(allowance(CAP))
    })
  })

  test.each<[what: string, to: Bytes, before: number, after: number]>([
    ['MODEXP', MODEXP, 21_200, 21_500],
    ['P256VERIFY', P256VERIFY, 24_450, 27_900],
  ])('an estimate of %s has its price before and after Karst', async (_, to, before, after) => {
    for (const [side, min] of [
      ['before', before],
      ['after', after],
    ] as const) {
      const result = await estimated(side, { to })
      if (result.status !== 'success') throw new Error(JSON.stringify(result))
      expect(Number(result.gas)).toBeGreaterThanOrEqual(min)
      // The search ends within 1.5 %.
      expect(Number(result.gas)).toBeLessThan(min * 1.015)
    }
  })

  test('the first block of a fork has deposits only', async () => {
    const { block } = openTestBlock({
      engine,
      fork: 'karst',
      attributes: { isDepositsOnly: true },
    })
    expect((await block.execute(deposit())).status).toBe('executed')
    expect(await block.execute(transaction())).toEqual({
      status: 'invalid',
      reason: {
        code: 'depositsOnly',
        why: 'input',
        message: 'the first block of a fork takes deposits only',
      },
    })
    expect((await block.execute(deposit({ sourceHash: word(6n) }))).status).toBe('executed')
    expect(block.executed).toHaveLength(2)
  })
})

test('a block is the first of its fork by the time of its parent', () => {
  const parent = (timestamp: bigint) => ({ number: ATTRIBUTES.number - 1n, timestamp })
  const at = (parentTime: bigint, timestamp: bigint, of = chain) =>
    isDepositsOnly(of, parent(parentTime), { number: ATTRIBUTES.number, timestamp })
  expect(at(AT.before, AT.after)).toBe(true)
  expect(at(AT.before - 1n, AT.before)).toBe(false)
  expect(at(AT.after, AT.after + 1n)).toBe(false)
  // Any time may pass between both blocks.
  expect(at(AT.before - 5_000n, AT.after + 5_000n)).toBe(true)
})
