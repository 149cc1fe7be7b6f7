/** Some calls run again on another engine: results may be equal, different, or not comparable. */
import { describe, expect, test } from 'vitest'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import type { Engine } from '../../../engine/evm/engine.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { makePostExec } from '../../../engine/primitives/transaction-codec.ts'
import type { ReadFrom } from '../../../rpc/core/executor.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { createCallRunner } from '../../../rpc/dispatch/worker-call.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { VERIFIED, type Verdict, verifyMethod } from '../../../rpc/methods/shared/verify.ts'
import { type BlockVerdict, verifyBlockMethod } from '../../../rpc/methods/shared/verify-block.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { CHAIN, createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'
import { createBranches, seal, worldWith } from '../../fixtures/writer-branches.ts'
import { WriterWorld } from '../../fixtures/writer-world.ts'

const TO = '0x00000000000000000000000000000000000000aa'
const SLOT = `0x${'00'.repeat(32)}`
/** Makes an account that returns the sum of slot 0 and the remaining gas. */
const account = (code: string) => ({ [TO]: { code, state: { [SLOT]: `0x${'00'.repeat(31)}2a` } } })
const SUM = account('0x5f545a015f5260205ff3')
const LOOP = account('0x5b5f56')
const fast = engineByName('fast')

/** This engine finds 1 in slot 0, whatever the state is. */
const wrong: Engine = {
  ...referenceEngine,
  openSession(reader, block, rules) {
    const session = referenceEngine.openSession(reader, block, rules)
    const run = session.run.bind(session)
    session.run = async (...given) => {
      const outcome = await run(...given)
      return outcome.status === 'success' ? { ...outcome, output: new Uint8Array(32) } : outcome
    }
    return session
  },
}

/** Makes requests whose time does not pass, unless a clock is given. */
function requestOn(engine: Engine, other: Engine, now: () => number = () => 0) {
  const { reader } = new WriterWorld()
  const verifyCall = verifyMethod(methods, () => other)
  const runner = createCallRunner({
    reader,
    chain: CHAIN,
    engine,
    limits: DEFAULT_LIMITS,
    now,
    methods: new Map([...methods, [verifyCall.name, verifyCall]]),
    onBug(error) {
      throw error
    },
  })
  const run = async (method: string, params: readonly unknown[]) => {
    const text = JSON.stringify(params)
    const call = { method, text, endpoint: 'flashblocks', snapshot: undefined } as const
    const reply = await runner.run(call, { isExpired: () => false, put() {} })
    runner.endTask()
    return reply
  }
  return async (method: string, params: readonly unknown[]): Promise<Verdict> => {
    const { snapshot: _, pending: __, ...response } = (await run(method, params)) as ReadFrom
    const reply = await run('verifyCall', [{ method, params, answer: response }])
    return JSON.parse((reply as { result: string }).result)
  }
}

test.each([...VERIFIED])('%s gives the same result on both engines', async (method) => {
  const request = requestOn(fast, referenceEngine)
  expect(await request(method, [{ to: TO }, 'latest', SUM])).toEqual({ verdict: 'same' })
  const refused = { to: TO, value: '0x1' }
  expect(await request(method, [refused, 'latest', SUM])).toEqual({ verdict: 'same' })
})

test('a different result is reported with the state that the call read', async () => {
  const verdict = await requestOn(fast, wrong)('eth_call', [
    { to: TO, gas: '0x186a0' },
    'latest',
    SUM,
  ])
  expect(verdict).toMatchObject({
    verdict: 'different',
    engine: 'reference',
    answer: { result: `"0x${'00'.repeat(32)}"` },
    latest: { number: `${CHAIN.genesisNumber}` },
    prestate: { [TO]: { code: SUM[TO]!.code, storage: SUM[TO]!.state } },
  })
})

test('a call that takes too long on the other engine is not reported', async () => {
  let readings = 0
  const request = requestOn(fast, referenceEngine, () => readings++)
  expect(await request('eth_call', [{ to: TO, gas: '0x2625a00' }, 'latest', LOOP])).toEqual({
    verdict: 'unknown',
  })
})

describe('the verification of canonical blocks', () => {
  /** In this engine a successful transaction costs only its intrinsic gas. */
  const cheap: Engine = {
    ...referenceEngine,
    openSession(reader, block, rules) {
      const session = referenceEngine.openSession(reader, block, rules)
      const run = session.run.bind(session)
      session.run = async (message, limits) => {
        const outcome = await run(message, limits)
        const paysFees = outcome.status === 'success' && message.gasPrice > 0n
        return paysFees ? { ...outcome, gasLeft: outcome.gasLeft - 1n } : outcome
      }
      return session
    },
  }
  /** This engine gives an account one more wei at the end, which no receipt shows. */
  const generous: Engine = {
    ...referenceEngine,
    openSession(reader, block, rules) {
      const session = referenceEngine.openSession(reader, block, rules)
      const end = session.endTransaction.bind(session)
      session.endTransaction = () => {
        session.addBalance(new Uint8Array(20).fill(0xee), 1n)
        end()
      }
      return session
    },
  }

  const twoBlocks = async () => (await createBranches()).a.slice(0, 2)
  async function verify(other: Engine, number: number): Promise<BlockVerdict> {
    return verified(other, number, { chain: CHAIN, blocks: await twoBlocks() })
  }
  async function verified(
    other: Engine,
    number: number,
    of: { readonly chain: ChainSpec; readonly blocks: readonly ProducedBlock[] },
  ): Promise<BlockVerdict> {
    const { chain, blocks } = of
    const world = await worldWith([], { chain })
    for (const block of blocks) await seal(world, block)
    await world.settle({ ticks: true })
    const { reader } = world
    const method = verifyBlockMethod(() => other)
    const runner = createCallRunner({
      reader,
      chain,
      engine: fast,
      limits: DEFAULT_LIMITS,
      methods: new Map([[method.name, method]]),
      now: () => performance.now(),
      onBug(error) {
        throw error
      },
    })
    const call = { method: method.name, text: `[${number}]`, snapshot: undefined } as const
    const reply = await runner.run(
      { ...call, endpoint: 'standard' },
      { isExpired: () => false, put() {} },
    )
    runner.endTask()
    return JSON.parse((reply as { result: string }).result)
  }

  test.each([1, 2])('finds the same result for block %i on both engines', async (number) => {
    expect(await verify(referenceEngine, number)).toEqual({ verdict: 'same' })
  })
  test('applies the refunds of a block', async () => {
    const dev = { genesisTimestamp: 1_700_000_000 }
    const forkTimes = { karst: 1_700_000_001, lagoon: 1_700_000_001 }
    const chain = chainSpec({ name: 'xlayer', dev, forkTimes })
    const producer = createProducer(chain)
    const first = await producer.build(producer.genesis, 1, [])
    const last = makePostExec(2n, [{ index: 1n, gasRefund: 4_000n }])
    const second = await producer.build(first, 2, [[send(0, 0)]], last)
    const of = { chain, blocks: [first, second] }
    expect(await verified(referenceEngine, 2, of)).toEqual({ verdict: 'same' })
    expect(await verified(generous, 2, of)).toMatchObject({ verdict: 'different', what: 'state' })
  })
  test.each([
    ['gas', cheap, 'gasUsed'],
    ['state', generous, 'state'],
  ])('finds a difference in %s', async (_, other, what) => {
    expect(await verify(other, 2)).toMatchObject({ verdict: 'different', what })
  })
  test.each([0, 9])('has no verdict for block %i, which it cannot execute', async (number) => {
    expect(await verify(referenceEngine, number)).toEqual({ verdict: 'unknown' })
  })
})
