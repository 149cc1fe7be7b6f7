/** A worker of a lazy node caches nothing between calls from a call with missing state. */
import { expect, test } from 'vitest'
import type { ChainReader } from '../../../engine/chain/types.ts'
import { ENGINE_NAMES } from '../../../engine/evm/engines/names.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { describeMissing, ViewError } from '../../../engine/state/reader.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { createCollectingRunner } from '../../../rpc/dispatch/collecting.ts'
import { createCallRunner, type WorkerReply } from '../../../rpc/dispatch/worker-call.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { type LazyChain, lazyChain } from '../../fixtures/lazy-state.ts'
import { other, owner, PROBE_ADDRESS, probeChain } from '../../fixtures/probe-chain.ts'
import { CHAIN } from '../../fixtures/producer.ts'

const { source } = await probeChain()
const OTHER = other.address
const engines = ENGINE_NAMES.map((name) => engineByName(name))

type Over = { readonly isExpired?: () => boolean; readonly now?: () => number }
function runnerOn(reader: ChainReader, engine = engines[0]!, isLazy = true, over: Over = {}) {
  const { isExpired = () => false, now = () => performance.now() } = over
  const bugs: unknown[] = []
  const runner = (isLazy ? createCollectingRunner : createCallRunner)({
    reader,
    chain: CHAIN,
    engine,
    limits: DEFAULT_LIMITS,
    methods,
    now,
    onBug: (error) => void bugs.push(error),
  })
  const run = async (method: string, ...params: unknown[]): Promise<WorkerReply> => {
    const call = { method, text: JSON.stringify(params), endpoint: 'flashblocks' } as const
    const reply = await runner.run({ ...call, snapshot: undefined }, { isExpired, put() {} })
    expect(bugs).toEqual([])
    return reply
  }
  return { run, end: () => runner.endTask() }
}

const missed = (reply: WorkerReply) => ('stale' in reply ? (reply.missing ?? []) : [])
const fetchAll = async ({ lazy }: LazyChain, reply: WorkerReply): Promise<void> => {
  const { signal } = new AbortController()
  await lazy.fetch(missed(reply), { for: 'caller', client: '', signal })
}

const CALLS: readonly (readonly [string, ...unknown[]])[] = [
  ['eth_call', { from: owner.address, to: PROBE_ADDRESS, input: '0x01' }, 'latest'],
  ['eth_call', { from: owner.address, to: PROBE_ADDRESS, value: '0x5' }, 'latest'],
  ['eth_estimateGas', { from: owner.address, to: PROBE_ADDRESS }, 'latest'],
  ['debug_traceBlockByNumber', '0x2', { tracer: 'prestateTracer' }],
  ['debug_traceBlockByNumber', '0x2', { tracer: 'callTracer' }],
  [
    'debug_traceBlockByNumber',
    '0x3',
    { tracer: 'prestateTracer', tracerConfig: { diffMode: true } },
  ],
  ['debug_traceCall', { from: owner.address, to: PROBE_ADDRESS }, '0x2', { txIndex: '0x1' }],
]

test.each(engines.map((engine) => [engine.name, engine] as const))(
  'calls on a lazy node, with any number of misses, give the results of full state: %s',
  async (_name, engine) => {
    const chain = lazyChain(source.reader)
    const lazy = runnerOn(chain.reader, engine)
    const full = runnerOn(source.reader, engine, false)
    let rounds = 0
    // All calls run in one task, so that sessions are shared. Each runs twice, so that replays are
    // shared too.
    for (const [method, ...params] of [...CALLS, ...CALLS]) {
      let reply = await lazy.run(method, ...params)
      for (; missed(reply).length > 0 && rounds < 30; rounds++) {
        await fetchAll(chain, reply)
        reply = await lazy.run(method, ...params)
      }
      expect(reply).toEqual(await full.run(method, ...params))
    }
    lazy.end()
    full.end()
    expect(rounds).toBeGreaterThan(3)
    expect(rounds).toBeLessThan(30)
  },
)

test.each(engines.map((engine) => [engine.name, engine] as const))(
  'a call with missing state runs for at most a million gas more: %s',
  async (_name, engine) => {
    let polls = 0
    const isExpired = () => polls++ < 0
    const chain = lazyChain(source.reader)
    const { run, end } = runnerOn(chain.reader, engine, true, { isExpired, now: () => 0 })
    // The code reads a slot of the called contract, and never ends.
    const code = { [OTHER]: { code: '0x5f54505b600356' } }
    const call = { from: owner.address, to: OTHER, gas: '0x1312d00' }
    const reply = await run('eth_call', call, 'latest', code)
    expect(missed(reply).length).toBeGreaterThan(1)
    expect(polls).toBeLessThan(60)
    end()
  },
)

test('a miss reports the code and slots that the call will certainly read', async () => {
  const chain = lazyChain(source.reader, { isMissing: (name) => !name.startsWith('account') })
  // A new engine has seen no code yet.
  const { run, end } = runnerOn(chain.reader, engineByName('fast'))
  const accessList = [{ address: PROBE_ADDRESS, storageKeys: [`0x${'11'.repeat(32)}`] }]
  const reply = await run('eth_call', { to: PROBE_ADDRESS, accessList }, 'latest')
  expect(missed(reply).map(describeMissing)).toEqual([
    expect.stringMatching(/^code /),
    `slot 0x${'11'.repeat(32)} of ${PROBE_ADDRESS}`,
  ])
  end()
})

test('a view that disappears does not count as missing state', async () => {
  const chain = lazyChain({
    ...source.reader,
    newestSnapshot: () => source.reader.newestSnapshot(),
    adopt: () => undefined,
    lease(endpoint) {
      const lease = source.reader.lease(endpoint)
      const view = new Proxy(lease.view, {
        get(target, name) {
          if (name === 'state')
            return () => {
              throw new ViewError('pruned', 'as the test wants it')
            }
          const value: unknown = Reflect.get(target, name, target)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
      return { ...lease, view, release: () => lease.release() }
    },
  })
  const { run, end } = runnerOn(chain.reader)
  expect(await run('eth_call', { to: PROBE_ADDRESS }, 'latest')).toMatchObject({
    error: { code: -32001 },
  })
  end()
})
