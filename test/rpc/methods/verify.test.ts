/** Calls that are run again on another engine: what is the same, what is not, and what cannot be told. */
import { describe, expect, test } from 'vitest'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import type { Engine } from '../../../engine/evm/engine.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { makePostExec } from '../../../engine/primitives/transaction-codec.ts'
import { createCallRunner } from '../../../rpc/dispatch/worker-call.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { VERIFIED, type Verdict, verifyMethod } from '../../../rpc/methods/shared/verify.ts'
import { type BlockVerdict, verifyBlockMethod } from '../../../rpc/methods/shared/verify-block.ts'
import type { ReadFrom } from '../../../rpc/seam/executor.ts'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { CHAIN, createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'
import { createBranches, seal, worldWith } from '../../fixtures/writer-branches.ts'
import { WriterWorld } from '../../fixtures/writer-world.ts'

const TO = '0x00000000000000000000000000000000000000aa'
const SLOT = `0x${'00'.repeat(32)}`
/** Gives the sum of slot 0 and the gas that is left, or fails where it is asked to. */
const account = (code: string) => ({ [TO]: { code, state: { [SLOT]: `0x${'00'.repeat(31)}2a` } } })
const SUM = account('0x5f545a015f5260205ff3')
const LOOP = account('0x5b5f56')
const fast = engineByName('fast')

/** Finds 1 in slot 0, whatever the state says. */
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

function askOn(engine: Engine, other: Engine) {
  const { reader } = new WriterWorld()
  const verifyCall = verifyMethod(methods, () => other)
  const runner = createCallRunner({
    ...{ reader, chain: CHAIN, engine, limits: DEFAULT_LIMITS, now: () => performance.now() },
    methods: new Map([...methods, [verifyCall.name, verifyCall]]),
    onBug(error) {
      throw error
    },
  })
  const run = async (method: string, params: readonly unknown[]) => {
    const text = JSON.stringify(params)
    const call = { method, text, endpoint: 'flashblocks', record: undefined } as const
    const reply = await runner.run(call, { isExpired: () => false, put() {} })
    runner.endTask()
    return reply
  }
  return async (method: string, params: readonly unknown[]): Promise<Verdict> => {
    const { record: _, pending: __, ...answer } = (await run(method, params)) as ReadFrom
    const reply = await run('verifyCall', [{ method, params, answer }])
    return JSON.parse((reply as { result: string }).result)
  }
}

test.each([...VERIFIED])('%s is the same on both', async (method) => {
  const ask = askOn(fast, referenceEngine)
  expect(await ask(method, [{ to: TO }, 'latest', SUM])).toEqual({ verdict: 'same' })
  const refused = { to: TO, value: '0x1' }
  expect(await ask(method, [refused, 'latest', SUM])).toEqual({ verdict: 'same' })
})

test('another answer is told, with the state that it read', async () => {
  const verdict = await askOn(fast, wrong)('eth_call', [{ to: TO, gas: '0x186a0' }, 'latest', SUM])
  expect(verdict).toMatchObject({
    verdict: 'different',
    engine: 'reference',
    answer: { result: `"0x${'00'.repeat(32)}"` },
    latest: { number: `${CHAIN.genesisNumber}` },
    prestate: { [TO]: { code: SUM[TO]!.code, storage: SUM[TO]!.state } },
  })
})

test('what takes long on the other engine is not told', async () => {
  const ask = askOn(fast, referenceEngine)
  expect(await ask('eth_call', [{ to: TO, gas: '0x2625a00' }, 'latest', LOOP])).toEqual({
    verdict: 'unknown',
  })
})

describe('canonical blocks', () => {
  /** A transaction that succeeds costs nothing but what is before it runs. */
  const cheap: Engine = {
    ...referenceEngine,
    openSession(reader, block, rules) {
      const session = referenceEngine.openSession(reader, block, rules)
      const run = session.run.bind(session)
      session.run = async (message, limits) => {
        const outcome = await run(message, limits)
        const isPaid = outcome.status === 'success' && message.gasPrice > 0n
        return isPaid ? { ...outcome, gasLeft: outcome.gasLeft - 1n } : outcome
      }
      return session
    },
  }
  /** Somebody else has a wei more in the end, and no receipt tells. */
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
      ...{ reader, chain, engine: fast, limits: DEFAULT_LIMITS },
      methods: new Map([[method.name, method]]),
      now: () => performance.now(),
      onBug(error) {
        throw error
      },
    })
    const call = { method: method.name, text: `[${number}]`, record: undefined } as const
    const reply = await runner.run(
      { ...call, endpoint: 'standard' },
      { isExpired: () => false, put() {} },
    )
    runner.endTask()
    return JSON.parse((reply as { result: string }).result)
  }

  test.each([1, 2])('block %i is the same on both', async (number) => {
    expect(await verify(referenceEngine, number)).toEqual({ verdict: 'same' })
  })
  test('a block with refunds is executed with them', async () => {
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
  ])('another %s is found', async (_, other, what) => {
    expect(await verify(other, 2)).toMatchObject({ verdict: 'different', what })
  })
  test.each([0, 9])('block %i is none to execute', async (number) => {
    expect(await verify(referenceEngine, number)).toEqual({ verdict: 'unknown' })
  })
})
