/**
 * These are limits for the threads behind the front, for the txpool, and for the front's memory of
 * its clients.
 */

import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import { OWN_CLIENT } from '../../../rpc/core/executor.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/core/limits.ts'
import type { QueueClass, Runs } from '../../../rpc/core/queue-class.ts'
import type { Method } from '../../../rpc/method/method.ts'
import { COMMANDS } from '../../../workers/commands/index.ts'
import { kebab } from '../../../workers/config/command.ts'
import { readInvocation } from '../../../workers/config/config.ts'
import type { NodeConfig } from '../../../workers/config/serving-options.ts'
import { createFront } from '../../../workers/front/front.ts'
import { openPromises } from '../../../workers/front/promises.ts'
import { createTransactions } from '../../../workers/front/transactions.ts'
import { createCallQueues, type Waiting } from '../../../workers/pool/call-queues.ts'
import { openLogRowsCache } from '../../../workers/pool/log-rows-cache.ts'
import { createPool } from '../../../workers/pool/pool.ts'
import { processNow } from '../../../workers/thread/running-clock.ts'
import { transfer } from '../../fixtures/executed.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { devAccounts, testRpc } from '../../fixtures/rpc.ts'
import { smallPool } from '../../fixtures/small-pool.ts'
import { createBranches, worldWith } from '../../fixtures/writer-branches.ts'
import { type Row, row, type Some } from './row.ts'

type Changed = Partial<Limits>

/** Counts how many of three calls of 100 bytes may wait. */
const waiting =
  (queueClass: QueueClass): Row['see'] =>
  async (limits) => {
    const callQueues = createCallQueues<Waiting>({ ...DEFAULT_LIMITS, ...limits }, () => 0)
    const job = { queueClass, predicted: 100, client: 'a', bytes: 100, isPutBack: false }
    for (let at = 0; at < 3; at++) callQueues.push({ ...job })
    return callQueues.size
  }

/** Gives the response to a call that exceeds its 50 ms in a real worker, and its time. */
async function late(limits: Changed, name: 'spin' | 'hang', runs: Runs) {
  const pool = createPool({
    now: processNow,
    filename: new URL('../../fixtures/pool-worker.ts', import.meta.url).href,
    workerData: undefined,
    threads: 2,
    limits: { ...DEFAULT_LIMITS, ...limits },
    heapMb: 128,
    onThreadEnded() {},
    newestSnapshot: () => 9,
    onSpent() {},
    onProblem() {},
    onBroken(error) {
      throw error
    },
  })
  try {
    const startedAt = processNow()
    const reply = await pool.execute({
      method: { name, runs } as Method,
      params: [{ ms: 5_000 }],
      text: '[{"ms":5000}]',
      endpoint: 'flashblocks',
      snapshot: undefined,
      deadline: startedAt + 50,
      client: OWN_CLIENT,
    })
    return { reply, ms: processNow() - startedAt }
  } finally {
    await pool.stop()
  }
}

/** Gives the pool's response to a transaction. */
const submitted =
  (raw: Uint8Array): Row['see'] =>
  async (limits) => {
    const refuse = () => {
      throw new Error('nobody asks for it')
    }
    const { service } = createTransactions({
      reader: memoryChain(),
      chain: CHAIN,
      journal: { append() {}, rewrite() {} },
      limits: { ...DEFAULT_LIMITS, ...limits },
      prove: refuse,
      makeDigest: refuse,
      isListed: refuse,
      now: () => 0,
      onFailure: refuse,
    })
    const response = await service.submit(raw, OWN_CLIENT)
    return 'error' in response ? response.error.message : 'taken'
  }

/** Counts the addresses that the front remembers out of two, with the limit given as a flag. */
async function known(limits: Changed): Promise<number> {
  const flags = Object.entries(limits).flatMap(([name, value]) => [
    `--limit-${kebab(name)}`,
    String(value),
  ])
  const invocation = readInvocation(['dev', '--trust-proxy', '127.0.0.0/8', ...flags], {}, COMMANDS)
  if (invocation.action !== 'run') throw new Error('no configuration')
  const memory = memoryChain()
  const front = await createFront({
    config: invocation.config as NodeConfig,
    chain: CHAIN,
    reader: memory,
    executor: { execute: async () => ({ result: 'null' }) },
    transactions: smallPool(),
    promises: openPromises(memoryDatabase(), () => 0),
    accounts: devAccounts,
    methods: [],
    forwardingUrl: undefined,
    syncing: () => false,
    feed: undefined,
    readiness: () => ({ status: 'ready', reasons: [], outside: [], details: {} }),
    metrics: { call() {}, stalled() {}, refused() {} } as never,
    report() {},
    log: { debug() {}, info() {} },
    now: () => performance.now(),
  })
  const { url } = await front.listen(0)
  try {
    for (const address of ['10.0.0.1', '10.0.0.2'])
      await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-forwarded-for': address },
        body: '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}',
      })
    return front.stats()['limiterKeys']!
  } finally {
    await front.server.close()
  }
}

const long = transfer(0n, { input: new Uint8Array(1_000), gasLimit: 100_000n }).raw
/** The bytes have the type of blob transactions; the length is checked first. */
const blob = Uint8Array.of(3, ...new Uint8Array(1_000))

/** Counts the blocks without logs that one of two workers caches. */
const logRowsCache: Row['see'] = async (limits) => {
  const cached = openLogRowsCache({ ...DEFAULT_LIMITS, ...limits }, 2)
  const none = { transactionCount: 0, timestamp: 0n, packed: new Uint8Array(0) }
  cached.set({ number: 1, hash: new Uint8Array(32), bloom: new Uint8Array(256), ...none }, 0)
  return cached.stats.blocks
}

/** Counts the texts that the front caches after a request for a persisted block. */
const textCache: Row['see'] = async (limits) => {
  const { a } = await createBranches()
  const { reader } = await worldWith(a.slice(0, 4))
  const rpc = testRpc({ source: { reader, onPublish: () => () => {} }, limits })
  await rpc.request('eth_getBlockByNumber', ['0x1', true])
  return rpc.stats().texts.items
}

export const WORKERS = {
  keptLogsBytes: row(100, 0, logRowsCache),
  keptTextBytes: row(100, 0, textCache),
  callQueue: row(2, 2, waiting('light')),
  callQueueBytes: row(200, 2, waiting('light')),
  logsQueue: row(2, 2, waiting('logs')),
  traceQueue: row(2, 2, waiting('trace')),
  sidecarQueue: row(2, 2, waiting('sidecar')),
  sidecarMs: row(1_234, 1_234, async (limits) => {
    const { reply } = await late(limits, 'spin', 'sidecar')
    return 'error' in reply && (reply.error.data as { readonly limitMs: number }).limitMs
  }),
  // The worker is ended this long after the deadline.
  graceMs: row(50, true, async (limits) => (await late(limits, 'hang', 'call')).ms < 1_000),
  transactionBytes: row(
    500,
    `oversized data: transaction size ${long.length}, limit 500`,
    submitted(long),
  ),
  blobTransactionBytes: row(
    500,
    'oversized data: transaction size 1001, limit 500',
    submitted(blob),
  ),
  limiterKeys: row(1, 1, known),
} satisfies Some
