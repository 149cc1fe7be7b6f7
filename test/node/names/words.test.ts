/**
 * Words that leave the process are compared with the literals of test/fixtures/names/names.json.
 */
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import {
  degradedBy,
  haltSuspicion,
  resyncSuspicion,
} from '../../../engine/sources/upstream/tracker-state.ts'
import { PARTS } from '../../../engine/storage/bootstrap/progress.ts'
import { COLUMN_NAMES } from '../../../engine/storage/database/columns.ts'
import { META } from '../../../engine/storage/database/meta.ts'
import { decodeJournal, encodeJournal } from '../../../engine/storage/directory/journal-format.ts'
import { readMarker, writeMarker } from '../../../engine/storage/directory/marker.ts'
import { CAUSES, PROMISE_OUTCOMES } from '../../../engine/storage/ledger-types.ts'
import { openRedis } from '../../../rpc/limiter/redis.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { COMMANDS } from '../../../workers/commands/index.ts'
import { readInvocation } from '../../../workers/config/config.ts'
import { GENESIS_FILE, openDataDirectory } from '../../../workers/data/datadir.ts'
import { sharePositions } from '../../../workers/front/shared-positions.ts'
import { shareTransactions } from '../../../workers/front/shared-transactions.ts'
import { createHealth } from '../../../workers/observe/health.ts'
import { createReporter } from '../../../workers/observe/reporter.ts'
import { WHY_APART } from '../../../workers/record/apart.ts'
import { startFakeRedis } from '../../fixtures/fake-redis.ts'
import { NAMES } from '../../fixtures/names.ts'

const folder = mkdtempSync(join(tmpdir(), 'flashnode-names-'))
afterAll(() => rmSync(folder, { recursive: true }))

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
const kebab = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

const silent = { warn() {}, error() {} }
const flags = COMMANDS.commands.flatMap(({ flags }) => Object.entries(flags))
const unique = (names: Iterable<string>): readonly string[] => [...new Set(names)].toSorted()

/** The lists have the words of today's sources; a kind whose order is on the disk is not sorted. */
const words: readonly (readonly [kind: string, words: () => readonly string[]])[] = [
  ['columns of RocksDB', () => unique(COLUMN_NAMES)],
  ['rows of the column meta', () => unique(Object.values(META).map(text))],
  ['fates in the ledger, by their byte', () => PROMISE_OUTCOMES],
  ['causes in the ledger, by their bit', () => CAUSES],
  ['parts of a copy', () => unique(PARTS)],
  ['commands', () => unique(COMMANDS.commands.map(({ name }) => name))],
  ['flags', () => unique(flags.map(([name]) => kebab(name)))],
  ['methods', () => unique(methods.keys())],
  ['incidents', () => unique(Object.keys(createReporter(silent as never).counts()))],
  ['why a record does not ask again', () => unique(Object.keys(WHY_APART))],
]
test.each(words)('the sources have exactly the listed names: %s', (kind, found) =>
  expect(found()).toEqual(NAMES[kind]),
)

test('the flags take exactly the listed words', () => {
  const taken = flags.flatMap(([name, { value = '', decode }]) =>
    value
      .split('|')
      .filter((word) => value.includes('|') && /^[a-z]+$/.test(word) && decode(word) === word)
      .map((word) => `--${kebab(name)} ${word}`),
  )
  expect(unique(taken)).toEqual(NAMES['words that flags take'])
})

test('a flag can be an environment variable or a key of a file', () => {
  const file = join(folder, 'config.json')
  writeFileSync(file, '{ "receipt-hold": 7 }')
  const hold = (environment: Readonly<Record<string, string>>, argv: readonly string[] = []) => {
    const invocation = readInvocation(['dev', ...argv], environment, COMMANDS)
    return Reflect.get(Reflect.get(invocation, 'config') as object, 'receiptHold')
  }
  expect(hold({ FLASHNODE_RECEIPT_HOLD: '8' })).toBe(8)
  expect(hold({}, ['--config', file])).toBe(7)
})

test('a data directory has files with the known names', () => {
  const { path, transactions, flashblocks } = openDataDirectory('DIR')
  expect([path, transactions, flashblocks, GENESIS_FILE]).toEqual([
    ...['DIR', 'DIR/transactions.journal', 'DIR/flashblocks.journal', 'genesis.json'],
  ])
})

test('the marker of a directory is read and written with all its fields', () => {
  const marker = {
    format: 'flashnode',
    version: 7,
    migratesFrom: 6,
    bootstraps: { from: 'http://10.0.0.1:8545', by: 'a1' },
    chainId: 1952,
    genesis: `0x${'12'.repeat(32)}`,
    chain: 'xlayer',
    genesisTimestamp: 1_796_000_000,
    genesisGasLimit: 50_000_000,
    forkTimes: { karst: 1_796_000_100 },
  }
  const written = `${JSON.stringify(marker, null, 2)}\n`
  const file = join(folder, 'flashnode.json')
  writeFileSync(file, written)
  const { format: _, ...fields } = marker
  const read = readMarker(folder)!
  expect({ ...read, forkTimes: JSON.parse(JSON.stringify(read.forkTimes)) }).toEqual(fields)
  writeMarker(folder, read)
  expect(readFileSync(file, 'utf8')).toBe(written)
})

test('a journal has its first line, and a checksum for each record', () => {
  const written =
    '666c6173686e6f6465207265636f72647320320a' +
    'f15b0aec00000003ebce9b7632ae733b7e0f4e7021d0a47e010203'
  expect(Buffer.concat(encodeJournal([Uint8Array.of(1, 2, 3)])).toString('hex')).toBe(written)
  const { records } = decodeJournal(Buffer.from(written, 'hex'))!
  expect(records.map((record) => [...record])).toEqual([[1, 2, 3]])
})

/**
 * Repeats an action until the response comes, because a connection that is not open yet drops its
 * data.
 */
async function repeated<T>(act: () => void, response: Promise<T>): Promise<T> {
  let isThere = false
  void response.then(() => {
    isThere = true
  })
  while (!isThere) {
    act()
    await new Promise(setImmediate)
  }
  return response
}

test('a shared limit uses the known key and fields in Redis', async () => {
  const redis = await startFakeRedis()
  const stores = openRedis(redis.url, { onDisconnected() {}, now: () => 0 })
  const store = stores.open('calls')
  while (!store.isUp) await new Promise(setImmediate)
  void store.take('10.0.0.1', 3, 100).catch(() => {})
  const [, script, ...reported] = await redis.command('EVAL')
  expect(reported).toEqual(['1', 'flashnode:calls:10.0.0.1', '3', '1', '100', '1'])
  expect(script).toContain("redis.call('hmget', KEYS[1], 'e', 'n', 'o')")
  expect(script).toContain("redis.call('hset', KEYS[1], 'e', e, 'n', n, 'o', o)")
  stores.close()
  redis.close()
})

test('shared transactions use the known stream and fields in Redis', async () => {
  const redis = await startFakeRedis()
  const submitted = { hash: new Uint8Array(32) }
  const service = { submit: async () => submitted }
  const shared = shareTransactions({
    url: redis.url,
    chainId: 1952n,
    lazy: undefined,
    report() {},
    transactions: service as never,
  })
  const [, ...read] = await redis.command('XREAD')
  expect(read).toEqual([
    ...['COUNT', '100', 'BLOCK', '5000', 'STREAMS'],
    ...['flashnode:transactions:1952', '1699999985000-0'],
  ])
  const { submit } = shared.telling(service as never)
  const send = () => void submit(Uint8Array.of(2, 7), {} as never)
  const [, ...reported] = await repeated(send, redis.command('XADD'))
  expect(reported[6]).toMatch(/^[0-9a-f]{16}$/)
  expect(reported).toEqual([
    ...['flashnode:transactions:1952', 'MAXLEN', '~', '10000', '*'],
    ...['o', reported[6], 't', '\x02\x07'],
  ])
  shared.close()
  redis.close()
})

test('the flashblock positions of replicas use the known channel in Redis', async () => {
  const redis = await startFakeRedis()
  const options = { chainId: 1952n, onPosition() {}, report() {} }
  const sharedPositions = sharePositions({ url: redis.url, ...options })
  expect(await redis.command('SUBSCRIBE')).toEqual(['subscribe', 'flashnode:places:1952'])
  const notify = () => sharedPositions.had({ height: 12, index: 3 })
  const [, channel, message] = await repeated(notify, redis.command('PUBLISH'))
  expect([channel, message]).toEqual([
    'flashnode:places:1952',
    expect.stringMatching(/^[0-9a-f]{16} 12 3$/),
  ])
  sharedPositions.close()
  redis.close()
})

/** Makes a node's health at a time that the test sets. */
function healthAt(state: { now: number; source?: object; probe?: () => Promise<void> }) {
  return createHealth({
    now: () => state.now,
    headMs: 1_000,
    feedMs: 1_000,
    mode: 'whole',
    probe: () => (state.probe ?? (async () => {}))(),
    source: () => ({ degraded: [], unready: [], details: {}, ...state.source }),
  })
}

test('/readyz uses the listed words from the start to the end of a node', async () => {
  const state: Parameters<typeof healthAt>[0] = { now: 0 }
  const health = healthAt(state)
  const seen: string[] = []
  const check = (maxLagMs?: number) => {
    const { status, reasons, details } = health.readiness(maxLagMs)
    seen.push(status, ...reasons, ...Object.keys(details).map((name) => `details: ${name}`))
  }
  check()
  health.started()
  health.published(5, 6, true)
  await health.probe()
  check()
  state.now = 2_000
  check(500)
  state.source = { feedSilentMs: 10 }
  check()
  health.published(6, 7, false)
  check()
  health.published(7, 7, true)
  state.now = 32_000
  state.probe = async () => {
    throw new Error('late')
  }
  check()
  await health.probe()
  health.halted({ text: 'halt', outside: 'halt' })
  check()
  health.stopping()
  check()
  expect(unique(seen)).toEqual(NAMES['words of /readyz'])
})

test('/readyz uses the listed words about upstreams', () => {
  const backedOff = (['contradicts', 'final', 'suspected', 'foreign'] as const).map((why) => ({
    name: 'a',
    backoff: { why, message: why, untilMs: 9 },
  }))
  const usable = { name: 'b', backoff: undefined }
  const suspicions = [
    ...degradedBy([...backedOff, usable] as never),
    ...degradedBy([backedOff[0]] as never),
    ...(['deep', 'refused', 'type'] as const).map((why) => haltSuspicion({ why, message: why })),
    resyncSuspicion,
  ]
  expect(unique(suspicions.map(({ outside }) => outside))).toEqual(
    NAMES['words of /readyz about upstreams'],
  )
})

test('the other listed words of /readyz are in the sources', () => {
  const sources = globSync('{engine,rpc,workers}/**/*.ts', { exclude: ['**/node_modules/**'] })
  const all = sources.map((file) => readFileSync(file, 'utf8')).join('\n')
  expect(NAMES['words of /readyz from elsewhere']!.filter((words) => !all.includes(words))).toEqual(
    [],
  )
})
