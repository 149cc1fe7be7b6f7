/**
 * These tests cover the small parts of the node: health, the order of closing, metrics, keys,
 * printed texts.
 */
import { createCipheriv, scryptSync } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Histogram, Registry } from 'prom-client'
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { DEV_ACCOUNTS } from '../../engine/chainspec/dev-accounts.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'
import { recoverAddress } from '../../engine/primitives/signature.ts'
import { openSuspicion, type Suspicion } from '../../engine/sources/suspicion.ts'
import { DiffError } from '../../engine/state/encoded-diff.ts'
import { DatabaseError } from '../../engine/storage/database/options.ts'
import { JournalError } from '../../engine/storage/directory/journal.ts'
import { storageFailure } from '../../engine/storage/persistence/failure.ts'
import { TrieError } from '../../engine/storage/trie/node.ts'
import { banner } from '../../workers/commands/dev/network.ts'
import { COMMANDS } from '../../workers/commands/index.ts'
import { readInvocation } from '../../workers/config/config.ts'
import type { NodeConfig } from '../../workers/config/serving-options.ts'
import { openAccounts } from '../../workers/front/accounts.ts'
import { page, readyLine, sealedLine } from '../../workers/front/banner.ts'
import { startAdmin } from '../../workers/observe/admin.ts'
import { createHealth } from '../../workers/observe/health.ts'
import { createLog, loggable } from '../../workers/observe/log.ts'
import { createMetrics } from '../../workers/observe/metrics.ts'
import { createReporter } from '../../workers/observe/reporter.ts'
import { createTallies } from '../../workers/observe/tally.ts'
import { createFailing } from '../../workers/process/failing.ts'
import { createLifecycle } from '../../workers/process/lifecycle.ts'

const directory = mkdtempSync(join(tmpdir(), 'flashnode-parts-'))
afterAll(() => rmSync(directory, { recursive: true }))

describe('the health of a node', () => {
  function start(probe: () => Promise<void> = async () => {}) {
    const clock = { ms: 0 }
    const health = createHealth({ now: () => clock.ms, headMs: 5_000, feedMs: 1_000, probe })
    health.started()
    return { clock, health }
  }

  test.each([undefined, 'whole', 'proven', 'trusted'] as const)(
    'reports the mode of the state: %s',
    (mode) => {
      const health = createHealth({
        now: () => 0,
        headMs: undefined,
        feedMs: undefined,
        probe: async () => {},
        mode,
      })
      const { details } = health.readiness()
      expect(details).toEqual({
        canonical: null,
        pending: 0,
        ...(mode === undefined ? {} : { mode }),
      })
    },
  )

  test('is ready when a head is known and the pool has responded', async () => {
    const probe = async () => {}
    const health = createHealth({ now: () => 0, headMs: 5_000, feedMs: 1_000, probe })
    expect(health.readiness().reasons[0]).toBe('starting')
    health.started()
    expect(health.readiness()).toMatchObject({
      status: 'unready',
      reasons: ['no head is known yet', 'no read went through the pool yet'],
    })
    health.published(3, 4, true)
    await health.probe()
    expect(health.readiness()).toEqual({
      status: 'ready',
      reasons: [],
      outside: [],
      details: { canonical: 3, pending: 4 },
    })
  })

  test('is degraded by a silent feed, and unready by a head that does not move', async () => {
    const { clock, health } = start()
    health.published(3, 4, true)
    await health.probe()
    clock.ms = 2_000
    expect(health.readiness()).toMatchObject({
      status: 'degraded',
      reasons: ['the feed is silent for 2.0 s'],
    })
    clock.ms = 5_500
    health.published(3, 4, true)
    expect(health.readiness()).toMatchObject({
      status: 'unready',
      reasons: ['the canonical head 3 has not moved for 5.5 s'],
    })
  })

  test('names the silent part: the feed, or the block that frames wait for', async () => {
    const clock = { ms: 0 }
    const said = { degraded: [], unready: [], details: {}, feedSilentMs: 200 }
    const health = createHealth({
      now: () => clock.ms,
      headMs: 50_000,
      feedMs: 1_000,
      probe: async () => {},
      source: () => said,
    })
    health.started()
    health.published(3, 4, true)
    await health.probe()
    clock.ms = 20_000
    expect(health.readiness().reasons).toEqual([
      'no flashblock was shown for 20.0 s: frames come, the newest 0.2 s ago, and they are too far ahead of canonical block 3, which has stood for 20.0 s',
    ])
    health.published(4, 4, false)
    expect(health.readiness().reasons).toEqual([
      'no flashblock was shown for 20.0 s: frames come, the newest 0.2 s ago, and none of them goes on from canonical block 4',
    ])
    said.feedSilentMs = 1_500
    expect(health.readiness().reasons).toEqual(['the feed is silent for 1.5 s'])
  })

  test('is unready beyond the lag that the caller allows', async () => {
    const { clock, health } = start()
    health.published(3, 4, true)
    await health.probe()
    clock.ms = 900
    expect(health.readiness(900).status).toBe('ready')
    expect(health.readiness(899)).toMatchObject({
      status: 'unready',
      reasons: ['nothing new was published for 0.9 s, and 899 ms may pass'],
    })
    // A new canonical block counts as news; a known one does not.
    health.published(4, 4, false)
    expect(health.readiness(1).status).toBe('ready')
    clock.ms = 950
    health.published(4, 4, false)
    expect(health.readiness(49).status).toBe('unready')
    expect(health.readiness().status).toBe('ready')
  })

  test('is ready if the chain need not move or is paused', async () => {
    for (const options of [
      { headMs: undefined, feedMs: undefined },
      {
        headMs: 5_000,
        feedMs: 1_000,
        source: () => ({ degraded: [], unready: [], isStanding: true, details: {} }),
      },
    ]) {
      const clock = { ms: 0 }
      const health = createHealth({ now: () => clock.ms, probe: async () => {}, ...options })
      health.started()
      health.published(3, 4, true)
      await health.probe()
      clock.ms = 10_000
      expect(health.readiness(1).status).toBe('ready')
    }
  })

  test('does not count a long start as lag of the head or the feed', async () => {
    const clock = { ms: 0 }
    const probe = async () => {}
    const health = createHealth({ now: () => clock.ms, headMs: 5_000, feedMs: 1_000, probe })
    health.published(3, 4, true)
    clock.ms = 60_000
    await health.probe()
    health.started()
    expect(health.readiness()).toMatchObject({ status: 'ready', reasons: [] })
    clock.ms += 5_001
    expect(health.readiness().status).toBe('unready')
  })

  test('judges the feed by flashblocks alone, and reports suspicions of the source', async () => {
    const clock = { ms: 0 }
    const said = {
      degraded: [] as Suspicion[],
      unready: [] as Suspicion[],
      details: { state: 'whole' },
    }
    const health = createHealth({
      now: () => clock.ms,
      headMs: 5_000,
      feedMs: 1_000,
      probe: async () => {},
      source: () => said,
    })
    await health.probe()
    health.started()
    for (let number = 1; number <= 3; number++) {
      clock.ms += 500
      health.published(number, number, false)
    }
    expect(health.readiness()).toEqual({
      status: 'degraded',
      reasons: ['the feed is silent for 1.5 s'],
      outside: ['the feed is silent for 1.5 s'],
      details: { canonical: 3, pending: 3, state: 'whole' },
    })
    health.published(3, 4, true)
    expect(health.readiness().status).toBe('ready')
    said.degraded.push({ text: 'a.example disagrees', outside: 'upstreams disagree' })
    expect(health.readiness()).toMatchObject({
      status: 'degraded',
      reasons: ['a.example disagrees'],
      outside: ['upstreams disagree'],
    })
    said.unready.push(openSuspicion('every upstream is silent'))
    expect(health.readiness().status).toBe('unready')
  })

  test('reports a halt, a failed pool and the end of the node', async () => {
    const { health } = start(() => Promise.reject(new Error('request timed out')))
    health.published(3, 3, true)
    await health.probe()
    health.halted({
      text: 'block 4: state root ours 0x01, theirs 0x02',
      outside: 'canonical blocks stand still',
    })
    health.stopping()
    expect(health.readiness().outside).toEqual([
      'stopping',
      'canonical blocks stand still',
      'a read through the pool failed',
    ])
    expect(health.readiness().reasons).toEqual([
      'stopping',
      'block 4: state root ours 0x01, theirs 0x02',
      'a read through the pool failed: request timed out',
    ])
    health.published(4, 4, true)
    expect(health.readiness().reasons.length).toBe(2)
  })
})

describe('a node that can no longer write', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())
  function start() {
    const failed: string[] = []
    const { report } = createReporter(createLog({ level: 'silent', isPretty: false }))
    const health = createHealth({
      now: () => 0,
      headMs: undefined,
      feedMs: undefined,
      probe: async () => {},
    })
    const failing = createFailing({ report, fail: (message) => void failed.push(message) }, health)
    return { failed, health, failing }
  }

  test('stays unready, and ends a minute later', async () => {
    const { failed, health, failing } = start()
    health.published(3, 4, true)
    await health.probe()
    health.started()
    failing('storage: the disk is full; free space on the disk, then start again')
    failing('the sequencer failed')
    // A block that was durable before may still become visible.
    health.published(4, 5, true)
    const reasons = ['storage: the disk is full; free space on the disk, then start again']
    expect(health.readiness()).toMatchObject({ status: 'unready', reasons })
    expect(failed).toEqual([])
    vi.advanceTimersByTime(60_000)
    expect(failed).toEqual(reasons)
  })

  test('ends immediately if it does not serve yet', () => {
    const { failed, failing } = start()
    failing('storage: Corruption: bad block; start with an empty data directory')
    expect(failed).toEqual(['storage: Corruption: bad block; start with an empty data directory'])
  })
})

test.each<[name: string, error: Error, line: string | undefined]>([
  [
    'a full disk',
    new DatabaseError('io', 'IO error: No space left on device'),
    'storage: no space left on the device that holds the data directory (IO error: No space left on device); free space on the disk, then start again',
  ],
  [
    'a full disk with the path from RocksDB',
    new DatabaseError(
      'io',
      'IO error: No space left on device: While appending to file: /data/x y/state/000024.sst: No space left on device',
    ),
    'storage: no space left on the device that holds /data/x y/state (IO error: No space left on device: While appending to file: /data/x y/state/000024.sst: No space left on device); free space on the disk, then start again',
  ],
  [
    'a full disk with the path of a journal',
    new JournalError('io', '/data/transactions.journal: ENOSPC: no space left on device, write'),
    'storage: no space left on the device that holds /data (/data/transactions.journal: ENOSPC: no space left on device, write); free space on the disk, then start again',
  ],
  [
    'a disk without write permission',
    new JournalError('io', 'j: EACCES: permission denied'),
    'storage: j: EACCES: permission denied; make the data directory writable for this user, then start again',
  ],
  [
    'a broken disk',
    new DatabaseError('io', 'IO error: Input/output error'),
    'storage: IO error: Input/output error; repair the disk, then start again',
  ],
  [
    'a damaged block of the database',
    new DatabaseError('corrupt', 'Corruption: block checksum mismatch'),
    'storage: Corruption: block checksum mismatch; start with an empty data directory, or put back a copy of this one',
  ],
  [
    'inconsistent rows',
    new TrieError('block 7 has another root'),
    'storage: block 7 has another root; start with an empty data directory, or put back a copy of this one',
  ],
  [
    'a damaged row',
    new DiffError('state diff: cut short, 32 bytes expected at 8 of 9'),
    'storage: state diff: cut short, 32 bytes expected at 8 of 9; start with an empty data directory, or put back a copy of this one',
  ],
  ['a bug', new Error('undefined is not a function'), undefined],
])('a storage failure has the right advice: %s', (_, error, line) => {
  expect(storageFailure(error)).toBe(line)
})

describe('the lifecycle', () => {
  test('closes parts once, in reverse order, and skips those that fail or hang', async () => {
    const problems: string[] = []
    const closed: string[] = []
    const onProblem = (part: string, reason: string) => problems.push(`${part}: ${reason}`)
    const lifecycle = createLifecycle({ onProblem })
    lifecycle.onStop('database', () => void closed.push('database'))
    lifecycle.onStop('writer', () => new Promise(() => {}))
    lifecycle.onStop('pool', () => Promise.reject(new Error('no')))
    lifecycle.onStop('server', async () => void closed.push('server'))
    expect(lifecycle.isStopping).toBe(false)
    const first = lifecycle.stop(10)
    expect(lifecycle.stop()).toBe(first)
    await first
    expect(closed).toEqual(['server', 'database'])
    expect(problems).toEqual([
      'pool: no',
      expect.stringMatching(/^writer: it did not stop within \d+ ms$/),
    ])
  })
})

describe('an incident', () => {
  test('is logged with its kind and counted by kind', () => {
    const lines: unknown[][] = []
    const { report, counts } = createReporter({
      warn: (...line: unknown[]) => void lines.push(['warn', ...line]),
      error: (...line: unknown[]) => void lines.push(['error', ...line]),
    })
    report('front_stalled', { ms: 300 })
    report('part_not_stopped', { part: 'pool', reason: 'no' })
    report('call_failed')
    report('call_failed')
    expect(lines.slice(0, 3)).toEqual([
      ['warn', { what: 'front_stalled', ms: 300 }, 'the event loop of the front was blocked'],
      [
        'warn',
        { what: 'part_not_stopped', part: 'pool' },
        'a part failed or took too long to stop: no',
      ],
      ['error', { what: 'call_failed' }, 'a call failed'],
    ])
    expect(counts()).toMatchObject({ front_stalled: 1, call_failed: 2, worker_failed: 0 })
  })
  test('of any thread is in the counts of the node', () => {
    const log = { warn: () => {}, error: () => {} }
    const { report, shared, counts } = createReporter(log)
    const inThread = createReporter(log, structuredClone(shared))
    report('call_failed')
    inThread.report('call_failed')
    inThread.report('worker_failed')
    expect(counts()).toMatchObject({ call_failed: 2, worker_failed: 1, worker_replaced: 0 })
  })
})

describe('metrics', () => {
  test('count calls, publishes and thread reports with a bounded number of labels', async () => {
    const metrics = createMetrics(
      {
        pool: () => ({
          threads: 2,
          busy: 1,
          queued: { light: 3 },
          terminated: 0,
          replaced: 0,
          replays: { kept: 2, begun: 1 },
        }),
        logRowsCache: () => ({ blocks: 8 }),
        holds: () => ({ seen: 4 }),
        feed: () => ({ subscribers: 1 }),
        bootstrap: () => ({ copies: 1 }),
        txpool: () => ({ pending: 5 }),
        front: () => ({ inFlight: 6 }),
        incidents: () => ({ call_failed: 2 }),
        verified: () => ({ verified: 7, verifiedBlocks: 3, mismatches: 1 }),
        heaps: async () => [{ thread: 'writer', usedBytes: 8, externalBytes: 9 }],
      },
      () => 7_000,
      { mode: 'proven' },
    )
    metrics.call('eth_call', 12, undefined)
    metrics.call('eth_call', 12, -32002)
    metrics.call('eth_call', 12, 123_456)
    metrics.call('eth_simulateV1', 12, -38014)
    metrics.refused(9)
    for (let index = 0; index < 500; index++) metrics.count(`event-${index}`, 1)
    metrics.gauges({ foldLag: 4 })
    const published = { type: 'published', snapshot: 1, index: 1, transactions: [] } as const
    const heads = { canonical: 1, complete: 2, pending: 3, isFollowed: false }
    metrics.published({ ...published, ...heads, publishMs: 3, executeMs: 2 })
    metrics.published({ ...published, ...heads, publishMs: 0, executeMs: 0 })
    metrics.late(7)
    await metrics.text()
    metrics.call('eth_call', 7_000, undefined)
    const text = await metrics.text()
    expect(text).toContain('flashnode_rpc_calls_total{method="eth_call",code="0"} 2')
    expect(text).toContain('flashnode_verified_calls 7')
    expect(text).toContain('flashnode_pool_kept_logs{what="blocks"} 8')
    expect(text).toContain('flashnode_verified_blocks 3')
    expect(text).toContain('flashnode_verify_mismatches 1')
    expect(text).toContain('flashnode_rpc_calls_total{method="eth_call",code="-32002"} 1')
    expect(text).toContain('flashnode_rpc_calls_total{method="eth_call",code="other"} 1')
    expect(text).toContain('flashnode_rpc_calls_total{method="eth_simulateV1",code="-38014"} 1')
    expect(text).toContain('# TYPE flashnode_rpc_seconds histogram')
    expect(text).toContain('flashnode_rpc_seconds_count{method="eth_call"} 4')
    expect(text).toContain('flashnode_rate_limited_total 9')
    expect(text).toContain('flashnode_state{mode="proven"} 1')
    expect(text).toContain('flashnode_pool_queued{what="light"} 3')
    expect(text).toContain('flashnode_pool_busy 1')
    expect(text).toContain('flashnode_mishaps{what="call_failed"} 2')
    expect(text.match(/^flashnode_chain_events_total\{/gm)?.length).toBe(128)
    expect(text).toContain('flashnode_thread_bytes{thread="writer",memory="heap"} 8')
    // A publish without a flashblock has no time of its own.
    expect(text).toContain('flashnode_publish_seconds_count 1')
    expect(text).toContain('flashnode_flashblock_late_seconds_sum 0.007')
    expect(text).toContain('flashnode_head{head="pending"} 3')
    expect(text).toContain('nodejs_eventloop_lag_seconds')
  })

  test('of a tally equal those of a histogram of prom-client', async () => {
    const parts = { name: 'x_seconds', help: 'seconds of x', buckets: [0.1, 1, 10] }
    const registry = new Registry()
    const histogram = new Histogram({ ...parts, labelNames: ['lane'], registers: [registry] })
    const tallies = createTallies({ ...parts, label: 'lane' })
    const own = new Registry()
    own.registerMetric(tallies as unknown as Histogram)
    for (const seconds of [0, 0.1, 0.100_1, 1, 5, 10, 10.5, 1e6]) {
      histogram.observe({ lane: 'light' }, seconds)
      tallies.of('light').observe(seconds)
    }
    histogram.observe({ lane: 'dear' }, 2)
    tallies.of('dear').observe(2)
    const lines = async (from: Registry) => (await from.metrics()).trim().split('\n').toSorted()
    expect(await lines(own)).toEqual(await lines(registry))
  })

  test('are served at their path on the admin port', async () => {
    const admin = await startAdmin(0, {
      '/metrics': () => ({ type: 'text/plain', text: 'a 1\n' }),
    })
    const request = (path: string, host = 'localhost') =>
      fetch(`http://127.0.0.1:${admin.port}${path}`, { headers: { host } })
    expect(await (await request('/metrics')).text()).toBe('a 1\n')
    expect((await request('/')).status).toBe(404)
    await admin.close()
  })
})

describe('the accounts of a node', () => {
  const { address, privateKey } = DEV_ACCOUNTS[1]!
  const config = (...flags: string[]): NodeConfig => {
    const invocation = readInvocation(flags, {}, COMMANDS)
    if (invocation.action !== 'run') throw new Error('printed')
    return invocation.config as NodeConfig
  }
  const keystore = join(directory, 'keystore')
  const passwordFile = join(directory, 'password')
  mkdirSync(keystore)
  writeFileSync(passwordFile, 'secret\nsecond line\n')
  writeFileSync(join(keystore, 'notes.txt'), 'no key')
  writeFileSync(join(keystore, 'UTC--x'), JSON.stringify(keyFile('secret')))
  const unlock = ['--unlock', address, '--keystore', keystore, '--password-file', passwordFile]

  /** Makes a key file like go-ethereum, with a cheaper derivation. */
  function keyFile(password: string) {
    const [salt, iv] = [Buffer.alloc(32, 7), Buffer.alloc(16, 9)]
    const derived = scryptSync(password, salt, 32, { N: 4_096, r: 8, p: 1 })
    const cipher = createCipheriv('aes-128-ctr', derived.subarray(0, 16), iv)
    const ciphertext = Buffer.concat([cipher.update(hexToBytes(privateKey)), cipher.final()])
    const mac = keccak256(Buffer.concat([derived.subarray(16, 32), ciphertext]))
    return {
      address: address.slice(2),
      version: 3,
      crypto: {
        cipher: 'aes-128-ctr',
        cipherparams: { iv: iv.toString('hex') },
        ciphertext: ciphertext.toString('hex'),
        kdf: 'scrypt',
        kdfparams: { n: 4_096, r: 8, p: 1, dklen: 32, salt: salt.toString('hex') },
        mac: Buffer.from(mac).toString('hex'),
      },
    }
  }

  test('are the ten of dev, or the unlocked ones of serve', () => {
    const digest = keccak256(new Uint8Array([1]))
    const keys = DEV_ACCOUNTS.map((account) => hexToBytes(account.privateKey))
    const dev = openAccounts(config('dev'), keys)
    expect(dev.addresses().map(bytesToHex)).toEqual(DEV_ACCOUNTS.map((account) => account.address))
    const serve = openAccounts(config('serve', ...unlock), [])
    expect(serve.addresses().map(bytesToHex)).toEqual([address])
    const { r, s, yParity } = serve.sign(hexToBytes(address), digest)!
    expect(bytesToHex(recoverAddress(digest, r, s, yParity)!)).toBe(address)
    expect(serve.sign(new Uint8Array(20), digest)).toBe(undefined)
    expect(openAccounts(config('serve'), []).addresses()).toEqual([])
  })

  test('cannot be opened with a wrong password, address or keystore', () => {
    const wrong = join(directory, 'wrong')
    writeFileSync(wrong, 'other')
    expect(() => openAccounts(config('serve', ...unlock, '--password-file', wrong), [])).toThrow(
      'UTC--x: wrong password',
    )
    expect(() =>
      openAccounts(config('serve', ...unlock, '--unlock', DEV_ACCOUNTS[2]!.address), []),
    ).toThrow(`no key file of ${DEV_ACCOUNTS[2]!.address}`)
    expect(() => openAccounts(config('serve', ...unlock, '--keystore', '/nowhere'), [])).toThrow(
      '--keystore /nowhere: ENOENT',
    )
  })
})

describe('the text for people', () => {
  const dev = (chainId?: number) =>
    chainSpec({ name: 'xlayer', dev: { genesisTimestamp: 1_800_000_000, chainId } })

  test('lists every account in the banner, and warns of the chain id of X Layer', () => {
    const text = banner(dev(), '1.2.3')
    for (const { address, privateKey } of DEV_ACCOUNTS) {
      expect(text).toContain(address)
      expect(text).toContain(privateKey)
    }
    expect(text).toContain('chain id 196 is that of X Layer')
    expect(banner(dev(31_337), '1.2.3')).not.toContain('is that of')
  })

  test('has exactly the documented ready line', () => {
    expect(readyLine('http://127.0.0.1:8545', 196n, 0n)).toBe(
      'flashnode ready http://127.0.0.1:8545 chain 196 head 0\n',
    )
  })

  test('describes a sealed block on one line', () => {
    const sealed = { type: 'sealed', number: 7, hash: new Uint8Array(32), ms: 12.4 } as const
    expect(sealedLine({ ...sealed, flashblocks: 5, transactions: 3, gasUsed: 1_234_567n })).toBe(
      'block 7  5 flashblocks  3 transactions  1.23 Mgas  12 ms\n',
    )
  })

  test('names the addresses on the page at /', () => {
    expect(page(dev(), 'http://127.0.0.1:8545')).toContain('ws://127.0.0.1:8545/feed')
  })

  test('shortens foreign text to one line of the log', () => {
    expect(loggable(`eth_\n\u001b[31m${'x'.repeat(100)}`)).toBe(`eth_??[31m${'x'.repeat(54)}`)
  })
})
