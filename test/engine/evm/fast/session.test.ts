/**
 * The fast engine's sessions have additional properties: growth, limits, missing state, traps, and
 * hooks that read.
 */
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { BLOCK_FIELDS } from '../../../../engine/evm/block-fields.ts'
import {
  type Outcome,
  type Session,
  type TraceSink,
  TrapError,
} from '../../../../engine/evm/engine.ts'
import { makeFastEngine } from '../../../../engine/evm/fast/fast.ts'
import { idleInstances, RETAINED_BYTES } from '../../../../engine/evm/fast/instance.ts'
import { compileModule } from '../../../../engine/evm/fast/module.ts'
import { makeReferenceEngine } from '../../../../engine/evm/reference/reference.ts'
import { bytesToBigint } from '../../../../engine/primitives/words.ts'
import { MissingError, type StateReader } from '../../../../engine/state/reader.ts'
import {
  address,
  BLOCK,
  bytes,
  message,
  PRAGUE,
  push,
  type WorldAccount,
  word,
  world,
} from '../../../fixtures/world.ts'

const module = compileModule()
const engine = makeFastEngine(makeReferenceEngine(), { module })
const RICH = { balance: 10n ** 20n }
const GAS = 10n ** 10n

function openOn(reader: StateReader): Session {
  const session = engine.openSession(reader, BLOCK, PRAGUE)
  session.startTransaction()
  return session
}
const open = (code: string, others: Record<number, WorldAccount> = {}): Session =>
  openOn(world({ 1: RICH, 2: { code }, ...others }))
/** Runs a message, which this engine does without a promise. */
const run = (session: Session, changes = {}, limits = {}): Outcome =>
  session.run(message(changes), limits) as Outcome
const push3 = (n: number) => `62${n.toString(16).padStart(6, '0')}`
/** Makes a loop that runs the body with n … 1 on the stack, which the body must leave unchanged. */
const loop = (n: number, body: string) => `${push3(n)} 5b ${body} 6001 90 03 80 6004 57 00`

describe('growth of the engine tables', () => {
  test('of slots, accounts, transient slots and the journal can be reverted', () => {
    const count = 30_000
    const session = open(loop(count, '80 80 55  80 80 5d  80 31 50'))
    const mark = session.checkpoint()
    expect(run(session, { gas: GAS })).toMatchObject({ status: 'success' })
    for (const key of [1, 4_321, count])
      expect(session.slot(address(2), word(BigInt(key)))).toEqual(word(BigInt(key)))
    expect(session.diff(mark)[0]!.slots).toHaveLength(count)
    // Precompiled contracts are not listed.
    expect(session.accessed()).toHaveLength(count + 1 - 17)
    session.revert(mark)
    expect(session.diff(mark)).toEqual([])
    expect(session.slot(address(2), word(4_321n))).toEqual(word(0n))
    session.close()
  })

  test('leaves the values that a contract wrote', () => {
    // The code writes all slots and transient slots, then sums transient slot + slot of each n.
    const count = 3_000
    const write = `${push3(count)} 5b 80 80 55 80 80 5d 6001 90 03 80 6004 57 50`
    const at = write.replaceAll(' ', '').length / 2
    const read = `5f ${push3(count)} 5b 80 54 81 5c 01 82 01 91 50 6001 90 03 80 61${(at + 5).toString(16).padStart(4, '0')} 57 50 5f52 60205ff3`
    const outcome = run(open(write + read), { gas: GAS })
    expect(outcome.status === 'success' && bytesToBigint(outcome.output)).toBe(
      BigInt(count * (count + 1)),
    )
  })

  test('of nested memory leaves the data of the callers unchanged', () => {
    // The code calls itself with 64 kB of memory each; the calldata is the depth. The innermost
    // call returns depth · 3.
    const code =
      '5f35 80 601e 57 6001 62010000 53 6001 90 03 5f52 6020 5f 6020 5f 5f 30 5a f1 50 60205ff3 5b 50 6007 5f52 60205ff3'
    const at = code.replaceAll(' ', '').indexOf('5b506007') / 2
    const session = open(code.replace('601e', `60${at.toString(16)}`))
    expect(run(session, { gas: GAS, input: word(0n) })).toMatchObject({ status: 'success' })
    session.close()
  })
})

/** A page of WebAssembly's memory. */
const PAGE_BYTES = 65_536

describe('memory', () => {
  test('of all frames of a call has one bound, at which the run stops', () => {
    // Each frame takes 2 MB and calls itself.
    const session = open('6001 621fffff 53 60015f55 5f5f5f5f5f 30 5af1 00')
    const limits = { memoryBytes: 64 << 20 }
    expect(run(session, { gas: 10n ** 12n }, limits)).toEqual({ status: 'stopped', why: 'memory' })
    expect(session.diff(0)).toEqual([])
    expect(run(session, { gas: 100n })).toMatchObject({ status: 'halt' })
    session.close()
  })

  test('of an instance that grew is not reused', () => {
    const idle = idleInstances(module)
    const [small, large] = [idle.take(), idle.take()]
    large.exports.memory.grow(600)
    idle.give(small)
    idle.give(large)
    expect(idle.take()).toBe(small)
    expect(idle.take()).not.toBe(large)
  })

  test('of all idle instances has one bound', () => {
    const idle = idleInstances(module)
    const taken = Array.from({ length: 3 }, () => idle.take())
    const growth = (RETAINED_BYTES / 2 - taken[0]!.size) / PAGE_BYTES
    for (const { exports } of taken) exports.memory.grow(growth)
    for (const instance of taken) idle.give(instance)
    expect([idle.take(), idle.take()]).toEqual([taken[1], taken[0]])
    expect(idle.take()).not.toBe(taken[2])
  })
})

describe('missing state', () => {
  function lazy(isMissing: (n: number) => boolean, code: string): Session {
    const full = world({ 1: RICH, 2: { code } })
    return openOn({
      ...full,
      account(words, out, at) {
        const low = Buffer.from(words.buffer, words.byteOffset, 20).readUInt16BE(18)
        return isMissing(low) ? 'missing' : full.account(words, out, at)
      },
      slot: () => 'missing',
    })
  }

  test('is reported for every read of a run, which continues with zeros', () => {
    const session = lazy((n) => n === 5 || n === 6, `${push(5)} 31 ${push(6)} 31 01 54 50 fe`)
    const outcome = run(session)
    expect(outcome).toMatchObject({ status: 'missing' })
    expect(outcome.status === 'missing' && outcome.missing).toEqual([
      { kind: 'account', address: address(5) },
      { kind: 'account', address: address(6) },
      { kind: 'slot', address: address(2), key: word(0n) },
    ])
    expect(session.diff(0)).toEqual([])
    expect(session.accessed()).toEqual([])
    expect(() => session.account(address(5))).toThrow(MissingError)
    session.close()
  })

  test('is reported with at most 256 keys, and instead of any other outcome', () => {
    const many = lazy(() => false, loop(1_000, '80 54 50'))
    const outcome = run(many, { gas: GAS })
    expect(outcome.status === 'missing' && outcome.missing).toHaveLength(256)
    const expired = lazy(() => false, loop(100, '80 54 50'))
    expect(run(expired, { gas: GAS }, { fuel: 10 })).toMatchObject({ status: 'missing' })
  })
})

test.each(['precise', 'stream'] as const)(
  'a frame of a lost run has at most a million gas left after a read: %s tier',
  (tier) => {
    const tiered = makeFastEngine(makeReferenceEngine(), { module, tier })
    for (const read of ['5f5450', `${push(5)} 31 50`, `5f5f5f5f5f ${push(3)} 5af1 50`]) {
      let isLost = false
      const full = world({ 1: RICH, 2: { code: `${read} 00` }, 3: { code: '5f5450' } })
      const query = <T>(presence: T): T => {
        isLost = true
        return presence
      }
      const reader: StateReader = {
        ...full,
        account(words, out, at) {
          const presence = full.account(words, out, at)
          return presence === 'present' ? presence : query(presence)
        },
        slot: (...of) => query(full.slot(...of)),
      }
      const session = tiered.openSession(reader, BLOCK, PRAGUE)
      session.startTransaction()
      const gasLeft = (limits: object) => {
        const outcome = run(session, { gas: 3_000_000n }, limits)
        return outcome.status === 'success' ? outcome.gasLeft : undefined
      }
      const mark = session.checkpoint()
      const left = gasLeft({ isLost: () => isLost })!
      expect(left > 900_000n && left <= 1_050_000n).toBe(true)
      session.revert(mark)
      expect(gasLeft({})! > 2_900_000n).toBe(true)
      session.close()
    }
  },
)

test.each(['precise', 'stream'] as const)(
  'a session reports the block fields that its runs read: %s tier',
  (tier) => {
    const tiered = makeFastEngine(makeReferenceEngine(), { module, tier })
    const { coinbase, timestamp, number, prevRandao } = BLOCK_FIELDS
    const { gasLimit, baseFee, blobBaseFee } = BLOCK_FIELDS
    const rows: readonly (readonly [code: string, read: number])[] = [
      ['5f40', number],
      ['41', coinbase],
      ['42', timestamp],
      ['43', number],
      ['44', prevRandao],
      ['45', gasLimit],
      ['46', 0],
      ['47', 0],
      ['48', baseFee],
      ['4a', blobBaseFee],
    ]
    for (const [code, read] of rows) {
      // The fields read by an earlier run count too, and those of a frame that reverts.
      const reader = world({ 1: RICH, 2: { code: `${code} 5f5ffd` }, 3: { code: '4200' } })
      const session = tiered.openSession(reader, BLOCK, PRAGUE)
      session.startTransaction()
      expect(session.fieldsRead()).toBe(0)
      run(session)
      expect([code, session.fieldsRead()]).toEqual([code, read])
      run(session, { to: address(3) })
      expect([code, session.fieldsRead()]).toEqual([code, read | timestamp])
      session.reopen(reader, BLOCK)
      expect(session.fieldsRead()).toBe(0)
      session.close()
    }
  },
)

test('a deadline stops loops, long opcodes and calls in time', () => {
  // The time counts only this thread, because V8's others compile and collect meanwhile.
  const used = () => {
    const { user, system } = process.threadCpuUsage()
    return user + system
  }
  // The bound scales with this job, which takes some 5 ms on an idle processor.
  const bytes = new Uint8Array(8_000_000)
  const from = used()
  createHash('sha256').update(bytes).digest()
  const bound = Math.max(15_000, 4 * (used() - from))
  const codes = [
    '5b 5f 56',
    '5b 621fffff 5f 20 50 5f 56',
    '5b 620fffff 6020 5f 5e 5f 56',
    `5b 7f${'ff'.repeat(32)} 80 0a 50 5f 56`,
    `5b 5f5f5f5f5f${push(3)}5af1 50 5f 56`,
    `5b 5f5f5f f0 50 5f 56`,
  ]
  const overrun = (code: string): number => {
    const session = open(code)
    const end = used() + 20_000
    const outcome = run(session, { gas: 10n ** 15n }, { isExpired: () => used() > end })
    expect(outcome).toEqual({ status: 'stopped', why: 'deadline' })
    const over = used() - end
    session.close()
    return over
  }
  // Other processes evict the caches meanwhile, so the minimum of three counts.
  for (const code of codes)
    expect(Math.min(...[code, code, code].map(overrun)), code).toBeLessThan(bound)
})

test('growing memory and returning data count towards the next look at the clock', () => {
  // Account 3 runs MB PUSH0 REVERT, and the code calls it a hundred times; only memory costs time.
  const code = '5f5f5f5f5f 6003 5a f1 50'.repeat(100)
  const session = open(code, { 3: { code: '62100000 5f fd' } })
  let checks = 0
  const isExpired = () => {
    checks++
    return false
  }
  expect(run(session, { gas: GAS }, { isExpired }).status).toBe('success')
  // A megabyte that is grown, returned and copied counts 49,152 of the 100,000 units between two
  // checks.
  expect(checks).toBeGreaterThan(40)
  session.close()
})

test('a session throws TrapError after a trap, and a new session works', () => {
  const full = world({ 1: RICH, 2: { code: `${push(5)} 31` } })
  let traps = true
  const session = openOn({
    ...full,
    account(words, out, at) {
      const low = Buffer.from(words.buffer, words.byteOffset, 20).readUInt16BE(18)
      if (traps && low === 5) throw new WebAssembly.RuntimeError('unreachable')
      return full.account(words, out, at)
    },
  })
  expect(() => run(session)).toThrow(TrapError)
  traps = false
  expect(() => session.account(address(1))).toThrow(TrapError)
  session.close()
  expect(run(open('00'))).toMatchObject({ status: 'success' })
})

test('hooks can read the session during a run', () => {
  const seen: unknown[] = []
  const session = open(`60095f55 5f54 50 60ff5f53 60015fa0`, {
    3: { code: '6001', storage: { 7: 8n } },
  })
  let n = 0
  const sink: TraceSink = {
    step() {
      // The hook makes its own entries, so that tables and memory grow during the run.
      for (let more = 0; more < 400; more++) session.slot(address(3), word(BigInt(1000 + n++)))
      seen.push([
        bytesToBigint(session.slot(address(2), word(0n))),
        session.slot(address(3), word(7n)).at(-1),
        Buffer.from(session.code(address(3))).toString('hex'),
        session.account(address(1)).balance,
      ])
    },
  }
  session.setTrace(sink)
  const outcome = run(session)
  expect(outcome).toMatchObject({ status: 'success', logs: [{ data: bytes('ff') }] })
  expect(seen).toHaveLength(13)
  expect(seen.map((each) => (each as unknown[])[0])).toEqual(
    [0, 0, 0, ...Array(10).fill(9)].map(BigInt),
  )
  expect(new Set(seen.map((each) => String((each as unknown[]).slice(1))))).toEqual(
    new Set([`8,6001,${RICH.balance}`]),
  )
  session.close()
})

test('sessions that are open at the same time have separate instances', () => {
  const sessions = Array.from({ length: 6 }, (_, n) =>
    open('', { 9: { storage: { 1: BigInt(n + 1) } } }),
  )
  for (const [n, session] of sessions.entries())
    session.setSlot(address(2), word(0n), word(BigInt(n)))
  for (const [n, session] of sessions.entries()) {
    expect(session.slot(address(9), word(1n))).toEqual(word(BigInt(n + 1)))
    expect(session.slot(address(2), word(0n))).toEqual(word(BigInt(n)))
    session.close()
  }
})
