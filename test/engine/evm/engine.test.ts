import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Outcome, Session } from '../../../engine/evm/engine.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { bytesToBigint } from '../../../engine/primitives/words.ts'
import type { StateDiff } from '../../../engine/state/diff.ts'
import { MissingError, type StateReader, ViewError } from '../../../engine/state/reader.ts'
import { describeEngines } from '../../fixtures/engines.ts'
import { mergeDiffs } from '../../fixtures/merged-diffs.ts'
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
} from '../../fixtures/world.ts'

describeEngines((engine) => {
  const RICH = { balance: 10n ** 20n }

  /** Opens a session over accounts 1 (rich) and 2 (with the code). */
  function open(code: string, others: Record<number, WorldAccount> = {}, spec = 'prague'): Session {
    const session = engine.openSession(world({ 1: RICH, 2: { code }, ...others }), BLOCK, {
      ...PRAGUE,
      spec,
    })
    session.startTransaction()
    return session
  }
  const run = async (code: string, changes = {}, others = {}): Promise<Outcome> =>
    open(code, others).run(message(changes))
  /** The code stores the top of the stack at 0 and returns it. */
  const RETURN_TOP = '5f5260205ff3'

  describe('the outcome of a run', () => {
    const halts: [code: string, reason: string][] = [
      ['01', 'stack underflow (0 <=> 2)'],
      ['6001 01', 'stack underflow (1 <=> 2)'],
      ['6001 80 91', 'stack underflow (2 <=> 3)'],
      ['0c', 'invalid opcode: opcode 0xc not defined'],
      ['fe', 'invalid opcode: INVALID'],
      ['5f 56', 'invalid jump destination'],
      ['5b 5f 56', 'out of gas'],
      ['5b 5f 5f 56', 'stack limit reached 1024 (1023)'],
      [`7f${'ff'.repeat(32)} 51`, 'gas uint64 overflow'],
      ['6001 5f 5f 3e', 'return data out of bounds'],
    ]
    test.each(halts)('of the code %s is a halt: %s', async (code, reason) => {
      expect(await run(code)).toEqual({ status: 'halt', reason })
    })

    test('is a success when only a nested static call hits write protection', async () => {
      const outcome = await run(
        `5f5f5f5f${push(3)}5afa${RETURN_TOP}`,
        {},
        { 3: { code: '60015f55' } },
      )
      expect(outcome).toMatchObject({ status: 'success', output: word(0n) })
    })

    test('is a revert that returns gas and output and undoes all changes', async () => {
      const session = open('60015f55 602a5f52 60205ffd')
      const before = session.checkpoint()
      const outcome = await session.run(message())
      expect(outcome).toMatchObject({ status: 'revert', output: word(42n) })
      expect(outcome.status === 'revert' && outcome.gasLeft > 70_000n).toBe(true)
      expect(session.diff(before)).toEqual([])
    })

    test('is a success with the logs and the gas refund', async () => {
      const session = open(`5f5f55 602a 5f5260205f a0 00`, {
        2: { code: '5f5f55 602a5f52 60205fa0', storage: { 0: 1n } },
      })
      expect(await session.run(message())).toMatchObject({
        status: 'success',
        refund: 4800n,
        logs: [{ address: address(2), topics: [], data: word(42n) }],
      })
    })

    test('has the address of a created contract, computed from nonce − 1', async () => {
      const session = open('')
      session.setNonce(address(1), 1n)
      const outcome = await session.run(message({ to: undefined, input: bytes('6001 5ff3') }))
      expect(outcome).toMatchObject({ status: 'success' })
      if (outcome.status !== 'success') return
      // The address is keccak256(rlp([0x0001…0001, 0]))[12:].
      expect(session.code(outcome.created!)).toEqual(bytes('00'))
      expect(session.account(outcome.created!).nonce).toBe(1n)
    })

    test('is a halt without gas use if a sender at the maximum nonce creates', async () => {
      const last = 2n ** 64n - 1n
      const session = open('', { 1: { ...RICH, nonce: last } })
      const reported: unknown[] = []
      session.setTrace({
        enter: (kind, from, to, value) => void reported.push([kind, from, to, value]),
        exit: (error, gasUsed) => void reported.push([error, gasUsed]),
      })
      session.setNonce(address(1), 0n)
      const creation = message({ to: undefined, input: bytes('6001 5ff3'), value: 3n })
      expect(await session.run(creation)).toEqual({
        status: 'halt',
        reason: 'nonce uint64 overflow',
        gasLeft: 100_000n,
      })
      expect(session.account(address(1))).toMatchObject({ nonce: last, balance: RICH.balance })
      expect(reported).toEqual([
        ['CREATE', address(1), undefined, 3n],
        ['nonce uint64 overflow', 0n],
      ])
    })

    test('contains a creation unless the creating contract is at the maximum nonce', async () => {
      const created = async (nonce: bigint, opcode: string) => {
        const session = open('', { 2: { code: `5f5f5f5f${opcode}${RETURN_TOP}`, nonce } })
        const outcome = await session.run(message())
        const isCreated = outcome.status === 'success' && bytesToBigint(outcome.output) !== 0n
        return [isCreated, session.account(address(2)).nonce]
      }
      for (const opcode of ['f0', 'f5']) {
        expect(await created(2n ** 64n - 1n, opcode)).toEqual([false, 2n ** 64n - 1n])
        expect(await created(2n ** 64n - 2n, opcode)).toEqual([true, 2n ** 64n - 1n])
      }
    })

    test('counts refunds on top of the refund that the message starts with', async () => {
      const refunds = async (code: string, changes = {}) => {
        const session = open('', { 2: { code, storage: { 1: 5n } }, 3: { code: '5f5f55 5f5ffd' } })
        const seen: bigint[] = []
        session.setTrace({ step: ({ refund }) => void seen.push(refund) })
        const outcome = await session.run(message({ refund: 12_500n, ...changes }))
        return [seen.at(0), seen.at(-1), outcome.status === 'success' ? outcome.refund : undefined]
      }
      expect(await refunds('5f600155 00')).toEqual([12_500n, 17_300n, 17_300n])
      expect(await refunds('5f600155 00', { refund: undefined })).toEqual([0n, 4_800n, 4_800n])
      expect(await refunds('5f600155 5f5ffd')).toEqual([12_500n, 17_300n, undefined])
      // A frame that fails reverts only its own refund.
      const calling = `5f5f5f5f5f${push(3)}5af1 00`
      expect(await refunds(calling)).toEqual([12_500n, 12_500n, 12_500n])
      const nothing = await open('').run(message({ to: address(9), refund: 25_000n }))
      expect(nothing).toMatchObject({ status: 'success', refund: 25_000n })
    })

    test('is a halt with the reason why created code cannot be stored', async () => {
      const create = (input: string, gas = 100_000n) => {
        const session = open('')
        session.setNonce(address(1), 1n)
        return session.run(message({ to: undefined, input: bytes(input), gas }))
      }
      expect(await create('60ef5f53 60015ff3')).toEqual({
        status: 'halt',
        reason: 'invalid code: must not begin with 0xef',
      })
      expect(await create('616001 5ff3', 10_000_000n)).toEqual({
        status: 'halt',
        reason: 'max code size exceeded: code size 24577 limit 24576',
      })
      expect(await create('610200 5ff3', 50_000n)).toEqual({
        status: 'halt',
        reason: 'contract creation code storage out of gas',
      })
    })

    test('is a halt when the sender does not have the value', async () => {
      expect(await run('', { from: address(9), value: 1n })).toEqual({
        status: 'halt',
        reason: 'insufficient balance for transfer',
      })
    })

    test('contains the block fields that the contract reads', async () => {
      const reads: [opcode: string, value: bigint][] = [
        ['43', BLOCK.number],
        ['42', BLOCK.timestamp],
        ['45', BLOCK.gasLimit],
        ['48', BLOCK.baseFee],
        ['44', bytesToBigint(BLOCK.prevRandao)],
        ['46', 196n],
        ['4a', 1n],
        ['41', bytesToBigint(BLOCK.coinbase)],
      ]
      for (const [opcode, value] of reads)
        expect(await run(opcode + RETURN_TOP)).toMatchObject({ output: word(value) })
      expect(await run(`48${RETURN_TOP}`, { baseFee: 0n })).toMatchObject({ output: word(0n) })
    })
  })

  describe('a bounded run', () => {
    test('stops at its fuel, deadline or memory and leaves the session unchanged', async () => {
      const session = open(`60015f55 5b 6004 56`)
      const gas = 10n ** 9n
      const before = session.checkpoint()
      expect(await session.run(message({ gas }), { fuel: 5_000 })).toEqual({
        status: 'stopped',
        why: 'fuel',
      })
      let checks = 0
      const isExpired = () => ++checks > 3
      expect(await session.run(message({ gas }), { isExpired })).toEqual({
        status: 'stopped',
        why: 'deadline',
      })
      const wide = open('6207ffff 51')
      expect(await wide.run(message({ gas }), { memoryBytes: 65_536 })).toEqual({
        status: 'stopped',
        why: 'memory',
      })
      expect(session.checkpoint()).toBe(before)
      expect(session.diff(0)).toEqual([])
      expect(await session.run(message())).toEqual({ status: 'halt', reason: 'out of gas' })
    })

    test('uses fuel for calls and backward jumps', async () => {
      // The loop runs five times.
      const loop = '6005 5b 6001 90 03 80 6002 57 00'
      const status = async (code: string, fuel: number) =>
        (await open(code).run(message(), { fuel })).status
      expect(await status(loop, 4)).toBe('success')
      expect(await status(loop, 3)).toBe('stopped')
      const call = `5f5f5f5f5f ${push(3)} 5af1`
      expect(await status(call + call, 2)).toBe('success')
      expect(await status(call + call, 1)).toBe('stopped')
      expect(await status('5f5f5ff0', 0)).toBe('stopped')
      expect(await status('6003 56 5b 00', 0)).toBe('success')
    })
  })

  describe('a lost run', () => {
    /**
     * Account 2 calls 3, which reads a slot and then loops for ever, 12 gas for three steps. Gives
     * the number of steps until 2 Mgas are used up.
     */
    async function steps(isLost: (reads: number) => boolean): Promise<number> {
      let reads = 0
      let count = 0
      const caller = { code: `5f5f5f5f5f ${push(3)} 5af1` }
      const full = world({ 1: RICH, 2: caller, 3: { code: '5f5450 5b 6003 56' } })
      const reader: StateReader = {
        ...full,
        slot(...of) {
          reads++
          return full.slot(...of)
        },
      }
      const session = engine.openSession(reader, BLOCK, PRAGUE)
      session.startTransaction()
      session.setTrace({ step: () => void count++ })
      await session.run(message({ gas: 2_000_000n }), { isLost: () => isLost(reads) })
      session.close()
      return count
    }

    test('ends within a million gas after the read that lost it, or after its start', async () => {
      expect(await steps(() => false)).toBeGreaterThan(450_000)
      const max = 1_000_000 / 4 + 100
      for (const isLost of [(reads: number) => reads > 0, () => true]) {
        const count = await steps(isLost)
        expect(count).toBeGreaterThan(40_000)
        expect(count).toBeLessThan(max)
      }
    })
  })

  describe('a failing read', () => {
    /**
     * Opens a session in which account 1 is rich, account 2 runs the code, and account 3 fails on
     * demand.
     */
    function failing(
      code: string,
      fail: () => 'missing',
    ): { session: Session; reader: StateReader } {
      const full = world({ 1: RICH, 2: { code } })
      const reader: StateReader = {
        ...full,
        account: (words, out, at) =>
          bytesToHex(new Uint8Array(words.buffer, words.byteOffset, 20)) === bytesToHex(address(3))
            ? fail()
            : full.account(words, out, at),
      }
      const session = engine.openSession(reader, BLOCK, PRAGUE)
      session.startTransaction()
      return { session, reader: full }
    }
    const code = `60015f55 ${push(3)} 31`

    test('of missing state ends the run with the outcome missing', async () => {
      const { session, reader } = failing(code, () => 'missing')
      expect(await session.run(message())).toEqual({
        status: 'missing',
        what: `account ${bytesToHex(address(3))}`,
        missing: [{ kind: 'account', address: address(3) }],
      })
      expect(session.diff(0)).toEqual([])
      expect(() => session.account(address(3))).toThrow(MissingError)
      session.reopen(reader, BLOCK)
      session.startTransaction()
      expect(await session.run(message())).toMatchObject({ status: 'success' })
    })

    test('of a void view throws the error of the view, also from a nested call', async () => {
      const gone = new ViewError('void', 'unfolded')
      const { session } = failing(`60015f55 5f5f5f5f5f${push(3)}5af1`, () => {
        throw gone
      })
      await expect((async () => session.run(message()))()).rejects.toBe(gone)
      expect(session.diff(0)).toEqual([])
      expect(await session.run(message({ to: address(4), value: 1n }))).toMatchObject({
        status: 'success',
      })
    })
  })

  describe('sessions', () => {
    /** The code reads slot 0 and sets slot 0 and transient slot 0 to 9. */
    const code = `5f54 60095f55 60095f5d ${RETURN_TOP}`
    const opened = (value: bigint) => open('', { 2: { code, storage: { 0: value } } })
    const outputOf = (outcome: Outcome) =>
      outcome.status === 'success' ? bytesToBigint(outcome.output) : outcome

    test('that run at the same time or in turn each see their own state', async () => {
      const sessions = [1n, 2n, 3n, 4n].map(opened)
      const all = await Promise.all(sessions.map((session) => session.run(message())))
      expect(all.map(outputOf)).toEqual([1n, 2n, 3n, 4n])
      for (const value of [5n, 6n]) {
        const session = opened(value)
        expect(outputOf(await session.run(message()))).toBe(value)
        expect(outputOf(await session.run(message()))).toBe(9n)
        expect(session.diff(0).flatMap(({ slots }) => slots)).toHaveLength(1)
      }
      expect(outputOf(await sessions[0]!.run(message()))).toBe(9n)
    })

    test('run correctly after another one was stopped inside a call', async () => {
      const endless = open(`60015f55 5f5f5f5f5f${push(3)}5af1`, { 3: { code: '5b5f56' } })
      const stopped = await endless.run(message(), { fuel: 50 })
      expect(stopped).toMatchObject({ status: 'stopped' })
      expect(outputOf(await opened(8n).run(message()))).toBe(8n)
    })
  })

  describe('a transaction', () => {
    test('loses its warm slots, original values and transient storage at its end', async () => {
      // The code returns the gas of an SLOAD, then writes; TLOAD must be 0 at the start.
      const code = `5a 5f54 50 5a 90 03 60015f55 60015f5d ${RETURN_TOP}`
      const session = open(code)
      const first = await session.run(message())
      const second = await session.run(message())
      session.endTransaction()
      session.startTransaction()
      const third = await session.run(message())
      const gas = (outcome: Outcome) =>
        outcome.status === 'success' ? bytesToBigint(outcome.output) : -1n
      expect([gas(first), gas(second), gas(third)]).toEqual([2106n, 106n, 2106n])
      expect(await open(`5f5c${RETURN_TOP}`).run(message())).toMatchObject({ output: word(0n) })
    })

    test('deletes touched empty accounts at its end, but not in Homestead', async () => {
      const session = open('')
      await session.run(message({ to: address(7) }))
      session.addBalance(address(8), 5n)
      session.addBalance(address(8), -5n)
      session.endTransaction()
      expect(session.diff(0)).toEqual([])
      const homestead = open('', {}, 'homestead')
      await homestead.run(message({ to: address(7) }))
      homestead.endTransaction()
      expect(homestead.diff(0).map((change) => change.address)).toEqual([address(7)])
    })

    test('deletes a self-destructed contract in Shanghai, but not in Cancun', async () => {
      const others = { 2: { code: `${push(5)}ff`, balance: 9n, storage: { 1: 11n, 2: 22n } } }
      const shanghai = open('', others, 'shanghai')
      await shanghai.run(message())
      shanghai.endTransaction()
      const [gone] = shanghai.diff(0).filter((change) => change.after === undefined)
      expect(gone!.address).toEqual(address(2))
      expect(gone!.slots.map((slot) => [slot.before, slot.after])).toEqual([
        [word(11n), word(0n)],
        [word(22n), word(0n)],
      ])
      const cancun = open('', others)
      await cancun.run(message())
      cancun.endTransaction()
      expect(cancun.account(address(2)).balance).toBe(0n)
      expect(cancun.account(address(5)).balance).toBe(9n)
      expect(cancun.slot(address(2), word(1n))).toEqual(word(11n))
    })

    test('leaves nothing of a contract that it creates and destroys', async () => {
      const session = open('')
      session.setNonce(address(1), 1n)
      const outcome = await session.run(
        message({ to: undefined, value: 3n, input: bytes(`60015f55 ${push(5)} ff`) }),
      )
      expect(outcome).toMatchObject({ status: 'success' })
      session.endTransaction()
      expect(session.diff(0).map((change) => change.address)).toEqual([address(1), address(5)])
    })

    test('lists the addresses and slots that became warm', async () => {
      const session = open(`60035450 ${push(5)} 31`)
      session.warm(address(6), [word(1n)])
      await session.run(message())
      expect(session.accessed()).toEqual([
        { address: address(6), storageKeys: [word(1n)] },
        { address: address(2), storageKeys: [word(3n)] },
        { address: address(5), storageKeys: [] },
      ])
    })
  })

  type Step =
    | { readonly do: 'balance' | 'nonce'; readonly on: number; readonly value: bigint }
    | { readonly do: 'slot'; readonly on: number; readonly key: number; readonly value: bigint }
    | { readonly do: 'code'; readonly on: number; readonly value: bigint }
    | { readonly do: 'clear'; readonly on: number }
    | { readonly do: 'read'; readonly on: number; readonly key: number }
    | { readonly do: 'transaction' }

  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({
      do: fc.constantFrom('balance' as const, 'nonce' as const),
      on: fc.integer({ min: 1, max: 3 }),
      value: fc.bigInt({ min: 0n, max: 3n }),
    }),
    fc.record({
      do: fc.constant('slot' as const),
      on: fc.integer({ min: 1, max: 3 }),
      key: fc.nat(2),
      value: fc.bigInt({ min: 0n, max: 2n }),
    }),
    fc.record({
      do: fc.constant('code' as const),
      on: fc.integer({ min: 1, max: 3 }),
      value: fc.bigInt({ min: 0n, max: 2n }),
    }),
    fc.record({
      do: fc.constant('read' as const),
      on: fc.integer({ min: 1, max: 3 }),
      key: fc.nat(2),
    }),
    fc.record({ do: fc.constant('clear' as const), on: fc.integer({ min: 1, max: 3 }) }),
    fc.constant({ do: 'transaction' as const }),
  )

  function take(session: Session, steps: readonly Step[]): void {
    for (const step of steps)
      switch (step.do) {
        case 'balance':
          session.addBalance(address(step.on), step.value)
          break
        case 'nonce':
          session.setNonce(address(step.on), step.value)
          break
        case 'slot':
          session.setSlot(address(step.on), word(BigInt(step.key)), word(step.value))
          break
        case 'code':
          session.setCode(address(step.on), bytes('00'.repeat(Number(step.value))))
          break
        case 'clear':
          session.clearStorage(address(step.on))
          break
        case 'read':
          session.slot(address(step.on), word(BigInt(step.key)))
          break
        case 'transaction':
          session.endTransaction()
          session.startTransaction()
      }
  }

  const START = { 1: { balance: 1n, storage: { 0: 1n, 1: 2n } }, 2: { code: '00', balance: 2n } }
  function inspect(session: Session) {
    return [1, 2, 3].map((n) => ({
      ...session.account(address(n)),
      code: session.code(address(n)),
      slots: [0n, 1n, 2n].map((key) => session.slot(address(n), word(key))),
    }))
  }
  const sorted = (diff: StateDiff) =>
    diff
      .map((change) => ({
        ...change,
        slots: [...change.slots].sort((a, b) => Buffer.compare(a.key, b.key)),
      }))
      .sort((a, b) => Buffer.compare(a.address, b.address))

  describe('the journal', () => {
    const steps = fc.array(step, { maxLength: 12 })

    test('reverts all steps after a checkpoint, also those of later transactions', () => {
      fc.assert(
        fc.property(steps, steps, (retained, undone) => {
          const sessions = [0, 1].map(() => engine.openSession(world(START), BLOCK, PRAGUE))
          const [session, other] = sessions as [Session, Session]
          for (const each of sessions) take(each, retained)
          const mark = session.checkpoint()
          take(session, undone)
          session.revert(mark)
          expect(session.diff(mark)).toEqual([])
          expect(sorted(session.diff(0))).toEqual(sorted(other.diff(0)))
          expect(inspect(session)).toEqual(inspect(other))
        }),
      )
    })

    test('clears a storage without listing its slots until a diff is requested', () => {
      const slots = () => {
        throw new ViewError('pruned', 'no list')
      }
      const session = engine.openSession({ ...world(START), slots }, BLOCK, PRAGUE)
      const mark = session.checkpoint()
      session.clearStorage(address(1))
      session.setSlot(address(1), word(0n), word(7n))
      expect([0n, 1n].map((key) => session.slot(address(1), word(key)))).toEqual([
        word(7n),
        word(0n),
      ])
      expect(() => session.diff(mark)).toThrow('no list')
      session.revert(mark)
      expect([0n, 1n].map((key) => session.slot(address(1), word(key)))).toEqual([
        word(1n),
        word(2n),
      ])
    })

    test('gives diffs that merge into one and that lead from the reader to the state', () => {
      fc.assert(
        fc.property(steps, steps, (first, second) => {
          const reader = world(START)
          const session = engine.openSession(reader, BLOCK, PRAGUE)
          take(session, first)
          session.endTransaction()
          const mark = session.checkpoint()
          const one = session.diff(0)
          session.startTransaction()
          take(session, second)
          session.endTransaction()
          const two = session.diff(mark)
          expect(sorted(mergeDiffs([one, two]))).toEqual(sorted(mergeDiffs([session.diff(0)])))
          const end = inspect(session)
          reader.apply(one)
          reader.apply(two)
          session.reopen(reader, BLOCK)
          expect(inspect(session)).toEqual(end)
        }),
      )
    })
  })
})
