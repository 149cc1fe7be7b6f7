/** Every caller that opens a session of the EVM closes it, however its work ends. */
import { describe, expect, test } from 'vitest'
import type { Endpoint } from '../../../engine/chain/types.ts'
import { ClosedError, type Outcome, type Session } from '../../../engine/evm/engine.ts'
import { openBlock } from '../../../engine/execution/block/block.ts'
import { createAccessList } from '../../../engine/execution/call/access-list.ts'
import { type CallOptions, call } from '../../../engine/execution/call/call.ts'
import { estimateGas } from '../../../engine/execution/call/estimate.ts'
import { stateWithin, traceTransactions } from '../../../engine/execution/call/replay.ts'
import { simulateBlocks } from '../../../engine/execution/call/simulate.ts'
import { decodeTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { ImportError, openImport } from '../../../engine/sources/import.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { createMemoryDatabase } from '../../../engine/storage/database/memory.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { createCallRunner } from '../../../rpc/dispatch/worker-call.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { describeEngines } from '../../fixtures/engines.ts'
import { ATTRIBUTES, testChain } from '../../fixtures/op-block.ts'
import { CHAIN, createProducer, send } from '../../fixtures/producer.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { sequencedChain } from '../../fixtures/sequenced-chain.ts'
import { testOutput } from '../../fixtures/trace-output.ts'
import { address, BLOCK, message, PRAGUE, push, world } from '../../fixtures/world.ts'
import { canonical, createBranches, publishBlock, seal } from '../../fixtures/writer-branches.ts'
import { WriterWorld } from '../../fixtures/writer-world.ts'

const branches = await createBranches()
const producer = createProducer()
const [first] = [await producer.build(producer.genesis, 1, [[send(0, 0), send(1, 0)]])]

describeEngines((engine) => {
  /** Checks that the run opens sessions and leaves none open. */
  async function leavesNothing(run: () => unknown): Promise<void> {
    const before = engine.opened
    await run()
    expect(engine.open).toBe(0)
    expect(engine.opened).toBeGreaterThan(before)
  }

  describe('a session', () => {
    const open = () => engine.openSession(world({ 1: { balance: 5n } }), BLOCK, PRAGUE)

    test('throws ClosedError at every use after it is closed', () => {
      const session = open()
      session.startTransaction()
      session.close()
      const uses: readonly ((closed: Session) => unknown)[] = [
        (closed) => closed.close(),
        (closed) => closed.account(address(1)),
        (closed) => closed.addBalance(address(1), 1n),
        (closed) => closed.startTransaction(),
        (closed) => closed.run(message()),
        (closed) => closed.checkpoint(),
        (closed) => closed.diff(0),
        (closed) => closed.reopen(world({}), BLOCK),
        (closed) => closed.setTrace(undefined),
      ]
      for (const use of uses) expect(() => use(session)).toThrow(ClosedError)
    })

    test('leaves its outcome and its diff unchanged after it is closed', async () => {
      const session = engine.openSession(
        world({ 1: { balance: 5n }, 2: { code: '602a5f5560205fa0 602a5f5260205ff3' } }),
        BLOCK,
        PRAGUE,
      )
      session.startTransaction()
      const outcome = (await session.run(message())) as Outcome & { status: 'success' }
      const diff = session.diff(0)
      const copy = structuredClone({ outcome, diff })
      session.close()
      const other = open()
      other.startTransaction()
      await other.run(message({ input: new Uint8Array(64).fill(1) }))
      other.close()
      expect({ outcome, diff }).toEqual(copy)
    })
  })

  describe('the sessions of a request', () => {
    const options = (changes: Partial<CallOptions> = {}): CallOptions => ({
      engine,
      chain: { ...testChain(), chainId: 196n },
      env: BLOCK,
      reader: world({ 1: { balance: 10n ** 18n }, 2: { code: `5f54 50 ${push(3)} 31` } }),
      request: { from: address(1), to: address(2) },
      gasCap: 1_000_000n,
      limits: {},
      ...changes,
    })
    const gone = () => {
      throw new ViewError('gone', 'snapshot 7 is gone')
    }
    const kinds: [name: string, run: (given: CallOptions) => unknown][] = [
      ['call', call],
      ['estimate', estimateGas],
      ['access list', (given) => createAccessList({ ...given, nonce: 0n })],
    ]
    const ends: [name: string, changes: () => Partial<CallOptions>][] = [
      ['ends', () => ({})],
      ['is refused', () => ({ request: { chainId: 1n }, gasCap: 3n })],
      ['has no gas', () => ({ gasCap: 3n })],
      ['is stopped', () => ({ limits: { isExpired: () => true } })],
      ['meets a missing account', () => ({ reader: { ...world({}), account: () => 'missing' } })],
      ['has overrides', () => ({ stateOverrides: [{ address: address(2), nonce: 7n }] })],
      [
        'has an override of an account that cannot be read',
        () => ({
          stateOverrides: [{ address: address(7), nonce: 7n }],
          reader: { ...world({}), account: gone },
        }),
      ],
      ['loses its view during a read', () => ({ reader: { ...options().reader, slot: gone } })],
    ]
    test.each(
      kinds.flatMap(([kind, run]) => ends.map(([end, by]) => [kind, end, run, by] as const)),
    )('are closed after a request of kind "%s" that %s', async (_, end, run, by) => {
      const done = async () => run(options(by()))
      await done().catch((error: Error) => error.name)
      if (end === 'ends') await leavesNothing(done)
      expect(engine.open).toBe(0)
    })

    const simulate = (changes: object = {}) => {
      const { env: _, request: __, ...given } = options()
      return simulateBlocks({
        ...given,
        chain: CHAIN,
        base: producer.genesis.header,
        baseHash: producer.genesis.hash,
        blocks: [{ calls: [{ to: address(2) }] }, { calls: [{ to: address(2) }] }],
        traceTransfers: false,
        validation: false,
        rootsAfter: undefined,
        ...changes,
      })
    }
    test('are closed after simulated blocks, also when the simulation fails', async () => {
      await leavesNothing(() => simulate())
      await leavesNothing(() =>
        simulate({ blocks: [{ calls: [{}] }, { calls: [{ gas: 10n ** 12n }] }] }).catch(() => {}),
      )
      await leavesNothing(() =>
        simulate({ reader: { ...world({}), account: gone } }).catch(() => {}),
      )
    })
  })

  test('the sessions of a trace, and of the state within a block, are closed', async () => {
    const { header, hash, upstreamBlock } = first!
    const replay = {
      engine,
      chain: CHAIN,
      reader: producer.genesis.state,
      header,
      hash,
      limits: {},
      transactions: upstreamBlock.transactions.map((raw) => decodeTransaction(raw)),
    }
    const { output, budget } = testOutput()
    const trace = (limits: object) =>
      traceTransactions({
        ...replay,
        limits,
        output,
        budget,
        first: 0,
        last: 0,
        open() {},
        close() {},
        choice: { name: 'callTracer', config: undefined },
      }).catch(() => {})
    await leavesNothing(() => trace({}))
    await leavesNothing(() => trace({ isExpired: () => true }))
    await leavesNothing(() => stateWithin(replay, 2))
    const twice = { ...replay, transactions: [1, 1].map((at) => replay.transactions[at]!) }
    await leavesNothing(() => expect(stateWithin(twice, 2)).rejects.toThrow('invalid'))
  })

  test('the sessions of an import are closed, also after a refused block', async () => {
    const database = createMemoryDatabase()
    importGenesis(database, CHAIN)
    const limits = { undoWindow: 256, historyBlocks: undefined }
    const target = openImport({ database, chain: CHAIN, engine, limits })
    const { header, upstreamBlock } = first!
    const block = { header, transactions: upstreamBlock.transactions, ommers: [], withdrawals: [] }
    const fewer = { ...block, transactions: block.transactions.slice(0, 2) }
    const twice = { ...block, transactions: [...block.transactions, block.transactions[1]!] }
    await leavesNothing(() => expect(target.add(fewer)).rejects.toThrow(ImportError))
    await leavesNothing(() => expect(target.add(twice)).rejects.toThrow(ImportError))
    await leavesNothing(() => target.add(block))
  })

  test('an open block has one session, which closes with the block', async () => {
    const block = openBlock({
      engine,
      chain: testChain(),
      reader: world({}),
      attributes: ATTRIBUTES,
    })
    expect(engine.open).toBe(1)
    block.close()
    expect(engine.open).toBe(0)
    await expect(block.diff()).rejects.toThrow(ClosedError)
    expect(block.sums().gasUsed).toBe(0n)
  })

  describe('the writer', () => {
    const { a, b, longer, shorter } = branches
    async function worldOf(count: number): Promise<WriterWorld> {
      const world = new WriterWorld({ engine })
      await world.apply({ type: 'feed', feed: 0, isConnected: true })
      for (const block of a.slice(0, count)) await canonical(world, block)
      return world
    }
    const mute = (message: (typeof longer.flashblocks)[number]) => ({
      ...message,
      delta: { ...message.delta, gasUsed: 1n },
    })
    const paths: [name: string, run: (world: WriterWorld) => Promise<unknown>][] = [
      ['a block of flashblocks', (world) => canonical(world, a[1]!)],
      [
        'a block without flashblocks',
        async (world) => {
          await seal(world, a[1]!)
          await world.settle({ ticks: true })
        },
      ],
      ['an invalid index 0', (world) => world.packet(mute(a[1]!.flashblocks[0]!))],
      [
        'an invalid flashblock',
        async (world) => {
          await world.packet(a[1]!.flashblocks[0]!)
          expect(engine.open).toBe(1)
          await world.packet(mute(a[1]!.flashblocks[1]!))
        },
      ],
      [
        'a second payload that replaces pending',
        async (world) => {
          await world.packet(a[1]!.flashblocks[0]!)
          await publishBlock(world, longer)
        },
      ],
      [
        'a canonical block that replaces pending',
        async (world) => {
          await world.packet(a[1]!.flashblocks[0]!)
          await seal(world, b[0]!)
          await world.settle({ ticks: true })
        },
      ],
      [
        'a canonical block longer than pending',
        async (world) => {
          for (const one of longer.flashblocks.slice(0, 2)) await world.packet(one)
          await seal(world, longer)
          await world.settle({ ticks: true })
        },
      ],
      [
        'an invalid canonical block',
        async (world) => {
          await seal(world, shorter, { gasUsed: 1n })
          await world.settle({ ticks: true })
        },
      ],
      [
        'speculative execution',
        async (world) => {
          await world.packet(a[1]!.flashblocks[0]!)
          world.writer.expect(send(0, 2))
          while (world.writer.canSpeculate()) await world.apply({ type: 'ahead' })
          await publishBlock(world, a[1]!)
        },
      ],
    ]
    test.each(paths)('leaves no session open after %s', async (_, run) => {
      const world = await worldOf(1)
      expect(engine.open).toBe(0)
      await leavesNothing(() => run(world))
    })
  })

  describe('the sequencer', () => {
    const at = sequencedChain
    test('has at most one open session, and none after a restart or its end', async () => {
      const chain = at({ engine })
      await chain.until(() => chain.blocks.length > 2)
      await chain.until(() => chain.flashblocks(BigInt(chain.blocks.length)).length > 2)
      expect(engine.open).toBeLessThanOrEqual(1)
      chain.restart()
      expect(engine.open).toBe(0)
      await chain.until(() => chain.blocks.length > 3)
      chain.close()
      expect(engine.open).toBe(0)
    })

    test('leaves no session open after an error inside a block', async () => {
      let fails = true
      const chain = at({
        engine,
        over: {
          async transactions() {
            if (fails) throw new ViewError('gone', 'snapshot 7 is gone')
            return { transactions: [], hasMore: false }
          },
        },
      })
      await chain.until(() => chain.counts.length > 0)
      expect(engine.open).toBe(0)
      fails = false
      await chain.until(() => chain.blocks.length > 1)
      chain.close()
      const killed = at({
        engine,
        over: {
          send() {
            throw new Error('killed')
          },
        },
      })
      await leavesNothing(() => expect(killed.step()).rejects.toThrow('killed'))
      const repeated = at({ engine })
      repeated.restart(killed.journal.packets.map((packet) => packet))
      await repeated.step()
      repeated.close()
      expect(engine.open).toBe(0)
    })
  })

  test('the sessions of each method are closed when its task ends', async () => {
    const rpc = testRpc({ engine })
    const to = '0x00000000000000000000000000000000000000aa'
    for (const [method, params] of [
      ['eth_call', [{ to }, 'latest']],
      ['eth_estimateGas', [{ to }]],
      ['eth_createAccessList', [{ to }]],
      ['eth_simulateV1', [{ blockStateCalls: [{ calls: [{ to }] }] }, 'latest']],
      ['debug_traceCall', [{ to }, 'latest', { tracer: 'callTracer' }]],
    ] as const)
      await leavesNothing(() => rpc.request(method, params))
    // The simulation failed at its roots.
    expect(rpc.bugs.map(String)).toEqual(['Error: a chain in maps has no trie'])
  })

  test('the calls of a task on one state share a session until the task ends', async () => {
    const { reader } = new WriterWorld()
    const limits = DEFAULT_LIMITS
    const runner = createCallRunner({
      reader,
      chain: CHAIN,
      engine,
      limits,
      methods,
      now: () => performance.now(),
      onBug(error) {
        throw error
      },
    })
    const bounds = { isExpired: () => false, put() {} }
    const request = (method: string, at: string, endpoint: Endpoint = 'flashblocks') =>
      runner.run({ method, text: `[{},"${at}"]`, endpoint, snapshot: undefined }, bounds)
    const before = engine.opened
    for (const at of ['latest', `0x${CHAIN.genesisNumber.toString(16)}`, 'latest'])
      for (const method of ['eth_call', 'eth_estimateGas']) {
        const reply = await request(method, at)
        expect(reply).toHaveProperty('result')
      }
    expect(engine.opened - before).toBe(1)
    await request('eth_call', 'latest', 'standard')
    expect(engine.open).toBe(2)
    runner.endTask()
    expect(engine.open).toBe(0)
  })
})
