/**
 * The tracers run over each engine, and debug_trace* over a chain; `npm run conformance` runs
 * go-ethereum's own vectors.
 */
import { describe, expect, test } from 'vitest'
import { precompilesOf } from '../../../engine/execution/call/replay.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { authorizationHash, sign } from '../../../engine/primitives/signature.ts'
import { createAddress } from '../../../engine/primitives/transaction-codec.ts'
import { makeTracer, type TracerChoice } from '../../../engine/tracers/registry.ts'
import { TracerError } from '../../../engine/tracers/types.ts'
import { duration } from '../../../rpc/methods/shared/trace-config.ts'
import { describeEngines } from '../../fixtures/engines.ts'
import { CONTRACT, execute, SENDER, transfer } from '../../fixtures/executed.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { block, deposit, KEY, SENDER as SIGNER, transaction } from '../../fixtures/op-block.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { testOutput } from '../../fixtures/trace-output.ts'
import { address, push, type WorldAccount, worldDiff } from '../../fixtures/world.ts'

describeEngines((engine) => {
  const PLAIN = {
    disableStack: true,
    disableStorage: true,
    enableMemory: false,
    enableReturnData: false,
    limit: 0,
  }
  const steps = (options: Partial<typeof PLAIN> = {}): TracerChoice => ({
    name: undefined,
    options: { ...PLAIN, ...options },
  })
  const named = (name: string, config?: unknown): TracerChoice => ({ name, config })

  type Run = {
    readonly accounts?: Record<number, WorldAccount>
    readonly changes?: Record<string, unknown>
    readonly bytes?: number
    readonly isDeposit?: boolean
  }
  /** Gives the parsed trace of one transaction to account 2. */
  async function trace(choice: TracerChoice, code: string, run: Run = {}): Promise<unknown> {
    const accounts = { 2: { code }, ...run.accounts }
    const opened = block({ engine, accounts, l1: {} })
    const { output, budget, parsed } = testOutput(run.bytes)
    const tracer = makeTracer(choice, {
      location: undefined,
      firstLog: 7,
      precompiles: precompilesOf(engine, opened.block),
      budget,
      output,
    })
    const one = run.isDeposit === true ? deposit(run.changes) : transaction(run.changes)
    const done = await opened.block.execute(one, undefined, tracer)
    expect(done.status).toBe('executed')
    tracer.writeResult()
    return parsed()
  }
  type Steps = { structLogs: Record<string, unknown>[]; failed: boolean; returnValue: string }

  describe('the struct logger', () => {
    test('reports memory, return data and refund as they are before the opcode', async () => {
      // Account 3 returns one word; account 2 stores it, clears slot 0, and stops.
      const code = `60205f5f5f${push(3)}5afa505f5f5500`
      const options = {
        enableMemory: true,
        enableReturnData: true,
        disableStorage: false,
        disableStack: false,
      }
      const accounts = { 2: { code, storage: { 0: 1n } }, 3: { code: '602a5f5260205ff3' } }
      const { structLogs } = (await trace(steps(options), code, { accounts })) as Steps
      const at = (op: string, depth: number) =>
        structLogs.find((step) => step['op'] === op && step['depth'] === depth)!
      expect(at('MSTORE', 2)['memory']).toBeUndefined()
      expect(at('RETURN', 2)['memory']).toEqual([`0x${'00'.repeat(31)}2a`])
      expect(at('STATICCALL', 1)['returnData']).toBeUndefined()
      expect(at('POP', 1)).toMatchObject({ returnData: `0x${'00'.repeat(31)}2a`, stack: ['0x1'] })
      const zero = `0x${'00'.repeat(32)}`
      expect(at('SSTORE', 1)).toMatchObject({ storage: { [zero]: zero }, refund: 4800 })
    })
    test.each([
      ['out of gas', '5f5f5261ffff5f20', 'KECCAK256', 'out of gas'],
      ['a stack underflow', '5f01', 'ADD', 'stack underflow (1 <=> 2)'],
      [
        'a stack underflow at an opcode with a dynamic price',
        '5f55',
        'SSTORE',
        'stack underflow (1 <=> 2)',
      ],
      [
        'a memory offset beyond 64 bits',
        '5f7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff52',
        'MSTORE',
        'gas uint64 overflow',
      ],
      ['an undefined opcode', '5f0c', 'opcode 0xc not defined', undefined],
      ['an invalid jump', '5f56', 'JUMP', undefined],
    ])('ends with the step of the fault: %s', async (_, code, op, error) => {
      const run = { changes: { gasLimit: 22_000n } }
      const { structLogs, failed, returnValue } = (await trace(steps(), code, run)) as Steps
      expect(structLogs.at(-1)).toMatchObject({ op, ...(error === undefined ? {} : { error }) })
      expect('error' in structLogs.at(-1)!).toBe(error !== undefined)
      expect([failed, returnValue]).toEqual([true, '0x'])
    })
    test.each([
      ['SSTORE', '60015f5500', 0, 'out of gas: write protection'],
      ['CREATE', '5f5f5ff000', 32_000, 'out of gas: write protection'],
      ['CALL', `5f5f5f5f6001${push(4)}5af100`, 100, 'out of gas: write protection'],
      ['SELFDESTRUCT', '5fff', 5_000, 'out of gas: write protection'],
      // These opcodes find the fault only when they run.
      ['LOG0', '60205fa000', 375 + 8 * 32 + 3, undefined],
      ['TSTORE', '5f5f5d00', 100, undefined],
    ])(
      'reports the price of a %s in a static call, and an error before it runs',
      async (name, code, gasCost, error) => {
        const accounts = { 3: { code } }
        const calling = `5f5f5f5f${push(3)}5afa00`
        const { structLogs } = (await trace(steps(), calling, { accounts })) as Steps
        const found = structLogs.filter(({ op, depth }) => op === name && depth === 2)
        expect(found).toHaveLength(1)
        expect(found[0]).toMatchObject({ gasCost, ...(error === undefined ? {} : { error }) })
        expect('error' in found[0]!).toBe(error !== undefined)
        const frames = (await trace(named('callTracer'), calling, { accounts })) as {
          calls: { error: string }[]
        }
        expect(frames.calls[0]!.error).toBe(error ?? 'write protection')
        const flat = await trace(named('flatCallTracer', { convertParityErrors: true }), calling, {
          accounts,
        })
        expect(flat).toMatchObject([
          {},
          { error: error === undefined ? 'write protection' : 'Out of gas' },
        ])
      },
    )
    test('counts the refund for an existing authority from the first step on', async () => {
      // The signer exists, and its nonce is raised before its authorization is checked.
      const fields = { chainId: 196n, address: address(7), nonce: 1n }
      const { r, s, yParity } = sign(authorizationHash(fields), KEY)
      const authorization = { ...fields, r, s, yParity: BigInt(yParity) }
      const refunds = async (authorizationList: readonly object[]) => {
        const changes = { type: 4, authorizationList, gasLimit: 200_000n }
        const accounts = { 2: { code: '5f5f5500', storage: { 0: 1n } } }
        const traced = (await trace(steps(), '', { changes, accounts })) as Steps
        return traced.structLogs.map(({ refund }) => refund)
      }
      // The steps are PUSH0, PUSH0, SSTORE of a cleared slot, STOP.
      expect(await refunds([authorization])).toEqual([12_500, 12_500, 17_300, 17_300])
      expect(await refunds([{ ...authorization, nonce: 2n }])).toEqual([
        undefined,
        undefined,
        4_800,
        4_800,
      ])
    })
    test('adds the gas of the frame to the price of a call, not of a creation', async () => {
      const code = `5f5f5f5f${push(3)}611000fa 5f5f5ff0`
      const { structLogs } = (await trace(steps(), code)) as Steps
      const cost = (name: string) => structLogs.find(({ op }) => op === name)!['gasCost']
      expect([cost('STATICCALL'), cost('CREATE')]).toEqual([2_600 + 0x1000, 32_000])
    })
    test('names an opcode that the fork does not have, without a price or an error', async () => {
      for (const [code, op] of [
        ['6003565b0c', 'opcode 0xc not defined'],
        ['6003565b1e', 'CLZ'],
        ['6003565b4b', 'SLOTNUM'],
      ] as const) {
        const { structLogs } = (await trace(steps(), code)) as Steps
        expect(structLogs.at(-1)).toMatchObject({ op, gasCost: 0 })
        expect('error' in structLogs.at(-1)!).toBe(false)
      }
    })
    test('returns the data of a revert, and starts no step beyond its limit', async () => {
      const { returnValue } = (await trace(steps(), '602a5f5260205ffd')) as Steps
      expect(returnValue).toBe(`0x${'00'.repeat(31)}2a`)
      const { structLogs } = (await trace(steps({ limit: 60 }), '5f5f5f5f00')) as Steps
      expect(structLogs).toHaveLength(2)
    })
  })

  describe('callTracer', () => {
    const revertsAfterLog = { code: '5f5fa05f5ffd' }
    test('gives logs their index in the block, and omits those of failed frames', async () => {
      const code = `5f5fa0 5f5f5f5f5f${push(3)}5af150 5f5fa0`
      const accounts = { 3: revertsAfterLog }
      const traced = (await trace(named('callTracer', { withLog: true }), code, { accounts })) as {
        logs: { index: string; position: string }[]
        calls: { logs?: unknown; error: string }[]
      }
      expect(traced.logs.map(({ index, position }) => [index, position])).toEqual([
        ['0x7', '0x0'],
        ['0x8', '0x1'],
      ])
      expect(traced.calls[0]).toMatchObject({ error: 'execution reverted' })
      expect(traced.calls[0]!.logs).toBeUndefined()
    })
    test('reports only the top call with onlyTopCall', async () => {
      const code = `5f5f5f5f5f${push(3)}5af15f5fa0`
      const config = { onlyTopCall: true, withLog: true }
      const accounts = { 3: { code: '5f5fa0' } }
      const traced = (await trace(named('callTracer', config), code, { accounts })) as object
      expect(traced).toMatchObject({ logs: [{ index: '0x8' }] })
      expect(traced).not.toHaveProperty('calls')
    })
    test.each([
      ['CALL', 'f1', 1n],
      ['CALLCODE', 'f2', 1n],
      ['CALL', 'f1', 0n],
    ])(
      'counts the stipend of a %s that cannot start: opcode %s, value %i',
      async (type, op, value) => {
        // The code calls itself down to the maximum depth without value; with value the balance is
        // missing.
        const code = `5f5f5f5f60${value === 0n ? '00' : '09'}${push(value === 0n ? 2 : 3)}610100${op}`
        const accounts = { 2: { code, balance: 1n } }
        const run = { accounts, changes: { gasLimit: 1_000_000n } }
        type Called = { type: string; gas: string; error?: string; calls?: Called[] }
        const top = (await trace(named('callTracer'), code, run)) as Called
        const failed = top.calls![0]!
        if (value === 0n) expect(Number(failed.gas)).toBe(0x100)
        else
          expect(failed).toMatchObject({
            type,
            gas: `0x${(0x100 + 2_300).toString(16)}`,
            error: 'insufficient balance for transfer',
          })
      },
    )
    test('reports a deposit that cannot pay its value as a failed call', async () => {
      const traced = await trace(named('callTracer'), '00', {
        isDeposit: true,
        changes: { value: 5n },
      })
      expect(traced).toMatchObject({
        type: 'CALL',
        error: 'insufficient balance for transfer',
        gasUsed: '0x186a0',
      })
    })
  })

  test('prestateTracer in diff mode reports a created contract and a cleared slot', async () => {
    // The code creates a contract whose code is one zero byte, and clears slot 0.
    const code = '5f5f55 6460015ff3005f526005601b5ff0'.replaceAll(' ', '')
    const accounts = { 2: { code, nonce: 1n, storage: { 0: 9n } } }
    const { pre, post } = (await trace(named('prestateTracer', { diffMode: true }), code, {
      accounts,
    })) as Record<
      'pre' | 'post',
      Record<string, { nonce?: number; storage?: object; code?: string }>
    >
    const two = bytesToHex(address(2))
    const created = bytesToHex(createAddress(address(2), 1n))
    expect(pre[two]).toMatchObject({
      nonce: 1,
      storage: { [`0x${'00'.repeat(32)}`]: `0x${'00'.repeat(31)}09` },
    })
    expect(post[two]).toEqual({ nonce: 2 })
    expect(pre[created]).toBeUndefined()
    expect(post[created]).toMatchObject({ nonce: 1, code: '0x00' })
    expect(pre[bytesToHex(SIGNER)]).toBeDefined()
  })

  test('muxTracer gives each of its tracers its own config and result', async () => {
    const all = {
      noopTracer: null,
      callTracer: { onlyTopCall: true },
      muxTracer: { '4byteTracer': {} },
    }
    const input = hexToBytes('0x0102030405')
    const traced = await trace(named('muxTracer', all), '00', { changes: { input } })
    expect(traced).toMatchObject({
      noopTracer: {},
      callTracer: { type: 'CALL' },
      muxTracer: { '4byteTracer': { '0x01020304-1': 1 } },
    })
  })

  describe('a trace config', () => {
    const context = {
      location: undefined,
      firstLog: 0,
      precompiles: new Set<string>(),
      ...testOutput(),
    }
    test.each([
      ['nope', undefined, 'unknown tracer "nope", expected one of callTracer,'],
      ['constructor', undefined, 'unknown tracer "constructor"'],
      ['callTracer', [], 'invalid tracer config: [], expected an object'],
      [
        'callTracer',
        { withLog: 'yes' },
        'invalid tracer config: withLog is "yes", expected a boolean',
      ],
      [
        'prestateTracer',
        { diffMode: true, includeEmpty: true },
        'cannot use diffMode with includeEmpty',
      ],
      ['muxTracer', { nope: {} }, 'unknown tracer "nope"'],
    ])('cannot name the tracer %s with the config %j', (name, config, message) => {
      expect(() => makeTracer(named(name, config), context)).toThrow(TracerError)
      expect(() => makeTracer(named(name, config), context)).toThrow(message)
    })
    test.each(['', 's', '5', '5x', '-1s', '1s 2s', 5])('cannot have the timeout %j', (wire) => {
      expect(() => duration.decode(wire)).toThrow()
    })
    test.each([
      ['0', 0],
      ['300ms', 300],
      ['1m30s', 90_000],
      ['1.5s', 1_500],
      ['+2h', 7_200_000],
    ])('can have the timeout %s', (wire, milliseconds) => {
      expect(duration.decode(wire)).toBe(milliseconds)
    })
  })

  describe('a debug_trace* method', () => {
    const rich = worldDiff({ 1: { balance: 10n ** 20n } })[0]!
    const memory = memoryChain([{ ...rich, address: SENDER }])
    const transactions = [transfer(0n), transfer(1n, { value: 6n }), transfer(2n, { value: 7n })]
    const one = memory.make(memory.genesis, { executed: execute(transactions) })
    memory.publish({ canonical: one })
    const rpc = testRpc({ memory })
    const hashes = transactions.map(({ hash }) => bytesToHex(hash))
    const blockHash = bytesToHex(one.hash)
    const CALLS = { tracer: 'callTracer' }
    const request = async (method: string, params: unknown[]) => {
      const { result, error } = await rpc.request(method, params)
      return result ?? error
    }

    test('traces a transaction on the state after the transactions before it', async () => {
      expect(await request('debug_traceTransaction', [hashes[2], CALLS])).toMatchObject({
        value: '0x7',
      })
      const before = await request('debug_traceTransaction', [
        hashes[2],
        { tracer: 'prestateTracer' },
      ])
      expect(before).toMatchObject({
        [bytesToHex(SENDER)]: { nonce: 2 },
        [bytesToHex(CONTRACT)]: { balance: '0xb' },
      })
      expect(await request('debug_traceTransaction', [hashes[0]])).toEqual({
        gas: 21_000,
        failed: false,
        returnValue: '0x',
        structLogs: [],
      })
      const flat = await request('debug_traceTransaction', [
        hashes[1],
        { tracer: 'flatCallTracer' },
      ])
      expect(flat).toMatchObject([
        { blockHash, blockNumber: 1, transactionHash: hashes[1], transactionPosition: 1 },
      ])
    })
    test('traces a block by hash and by number', async () => {
      const expected = hashes.map((txHash, at) => ({ txHash, result: { value: `0x${at + 5}` } }))
      expect(await request('debug_traceBlockByHash', [blockHash, CALLS])).toMatchObject(expected)
      expect(await request('debug_traceBlockByNumber', ['0x1', CALLS])).toMatchObject(expected)
      expect(await request('debug_traceBlockByNumber', ['latest', CALLS])).toMatchObject(expected)
    })
    const call = { from: bytesToHex(SENDER), to: bytesToHex(CONTRACT), value: '0x1' }
    test('traces a call, also before a transaction of the block', async () => {
      expect(await request('debug_traceCall', [call, '0x1', CALLS])).toMatchObject({
        value: '0x1',
        type: 'CALL',
      })
      const balances = [undefined, '0x0', '0x1', '0x2'].map(async (txIndex) => {
        const config = { tracer: 'prestateTracer', ...(txIndex === undefined ? {} : { txIndex }) }
        const state = (await request('debug_traceCall', [call, '0x1', config])) as Record<
          string,
          { balance: string }
        >
        return state[bytesToHex(CONTRACT)]?.balance
      })
      // The chain in maps stores no state of its blocks. Without an index the state is therefore
      // that of its genesis.
      expect(await Promise.all(balances)).toEqual([undefined, undefined, '0x5', '0xb'])
    })
    test('applies overrides to the state before that transaction', async () => {
      const to = bytesToHex(CONTRACT)
      // The code reads SELFBALANCE, NUMBER and the hash of block 1.
      const code = '0x475f52 43602052 600140604052 60605ff3'.replaceAll(' ', '')
      const config = {
        ...CALLS,
        txIndex: '0x2',
        stateOverrides: { [to]: { code } },
        blockOverrides: { number: '0x2' },
      }
      const { output } = (await request('debug_traceCall', [call, blockHash, config])) as {
        output: string
      }
      const words = [0, 1, 2].map((at) => `0x${output.slice(2 + 64 * at, 66 + 64 * at)}`)
      expect(words.slice(0, 2).map(BigInt)).toEqual([0xbn + 1n, 2n])
      expect(words[2]).toBe(blockHash)
    })
    test('refuses an index outside of the block, but accepts 0 in an empty block', async () => {
      const empty = memory.make(one)
      const next = memory.make(empty, { executed: execute([transfer(3n)]), index: 0 })
      const more = testRpc({ memory })
      memory.publish({ canonical: empty, pending: next })
      const refusalOf = async (at: unknown, txIndex: string) => {
        const config = { ...CALLS, txIndex }
        return (await more.request('debug_traceCall', [call, at, config])).error
      }
      const outside = (index: number | bigint, hash: Uint8Array) => ({
        code: -32000,
        message: `transaction index ${index} out of range for block ${bytesToHex(hash)}`,
      })
      expect(await refusalOf('0x1', '0x3')).toEqual(outside(3, one.hash))
      expect(await refusalOf({ blockHash }, '0x63')).toEqual(outside(99, one.hash))
      expect(await refusalOf('0x1', '0x20000000000001')).toEqual(outside(2n ** 53n + 1n, one.hash))
      expect(await refusalOf('latest', '0x0')).toBeUndefined()
      expect(await refusalOf('latest', '0x1')).toEqual(outside(1, empty.hash))
      expect(await refusalOf('pending', '0x0')).toBeUndefined()
      expect(await refusalOf('pending', '0x1')).toEqual(outside(1, next.hash))
      const genesis = { code: -32000, message: 'no transaction in genesis' }
      expect(await refusalOf('earliest', '0x0')).toEqual(genesis)
      memory.publish({ canonical: one })
    })
    test('requests a worker with the hash of the block that it replays', async () => {
      const call = { to: bytesToHex(CONTRACT) }
      const replayedBy = async (method: string, params: unknown[]) => {
        const from = rpc.poolCalls.length
        await request(method, params)
        return rpc.poolCalls.slice(from).map(({ replayed }) => replayed)
      }
      expect(await replayedBy('debug_traceTransaction', [hashes[1]])).toEqual([blockHash])
      expect(await replayedBy('debug_traceTransaction', [blockHash])).toEqual([undefined])
      // The cache has no response for a request by number.
      const config = { ...CALLS, limit: 1 }
      expect(await replayedBy('debug_traceBlockByNumber', ['0x1', config])).toEqual([blockHash])
      expect(await replayedBy('debug_traceBlockByHash', [blockHash, config])).toEqual([blockHash])
      expect(await replayedBy('debug_traceCall', [call, '0x1', { txIndex: '0x2' }])).toEqual([
        blockHash,
      ])
      expect(await replayedBy('debug_traceCall', [call, '0x1', {}])).toEqual([undefined])
    })
    test.each<[string, unknown[], number, string]>([
      ['debug_traceBlockByNumber', ['0x1'], -32602, 'trace mode is required: name a tracer'],
      ['debug_traceBlockByNumber', ['0x1', { tracer: null }], -32602, 'trace mode is required'],
      ['debug_traceBlockByNumber', ['0x0', CALLS], -32000, 'genesis is not traceable'],
      ['debug_traceBlockByNumber', ['0x9', CALLS], -32000, 'block #9 not found'],
      [
        'debug_traceBlockByHash',
        [`0x${'11'.repeat(32)}`],
        -32000,
        `block 0x${'11'.repeat(32)} not found`,
      ],
      ['debug_traceTransaction', [`0x${'11'.repeat(32)}`], -32000, 'transaction not found'],
      ['debug_traceTransaction', [hashes[0], { tracer: 'x' }], -32602, 'unknown tracer "x"'],
      [
        'debug_traceTransaction',
        [hashes[0], { timeout: 'x' }],
        -32602,
        'invalid argument 1: timeout: time: invalid duration "x"',
      ],
      ['debug_traceTransaction', [hashes[0], { timeout: '1ns' }], -32000, 'execution timeout'],
      ['debug_traceCall', [{ value: '0x1' }], -32000, 'err: insufficient funds'],
    ])('refuses %s %j with code %i', async (method, params, code, message) => {
      expect(await request(method, params)).toMatchObject({
        code,
        message: expect.stringContaining(message),
      })
    })
    test('fills the response with traces, then gives an error for each other one', async () => {
      const seen = new Set<string>()
      for (let bytes = 0; bytes < 3_000; bytes += 37) {
        const small = testRpc({ memory, limits: { responseBytes: bytes } })
        for (const config of [CALLS, {}, { tracer: 'prestateTracer' }]) {
          const { result, error } = await small.request('debug_traceBlockByHash', [
            blockHash,
            config,
          ])
          if (error !== undefined) {
            expect(error).toMatchObject({ code: -32003, data: { limit: bytes } })
            seen.add('nothing fits')
            continue
          }
          expect(JSON.stringify(result).length).toBeLessThanOrEqual(bytes)
          const traces = result as { txHash: string; result?: object; error?: string }[]
          expect(traces.map(({ txHash }) => txHash)).toEqual(hashes)
          const count = traces.filter((one) => one.result !== undefined).length
          seen.add(`${count} of ${traces.length}`)
          for (const [at, trace] of traces.entries())
            expect(trace.error).toBe(at < count ? undefined : `trace of more than ${bytes} bytes`)
        }
      }
      expect([...seen].toSorted()).toEqual(['0 of 3', '1 of 3', '2 of 3', '3 of 3', 'nothing fits'])
    })
    const PRESTATE = { tracer: 'prestateTracer' }
    test.each([
      ['steps', {}, { traceSteps: 900 }, 'trace of more than 900 steps'],
      ['touches', PRESTATE, { traceSteps: 900 }, 'trace of more than 900 steps'],
      ['frames', { tracer: '4byteTracer' }, { traceSteps: 900 }, 'trace of more than 900 steps'],
      ['bytes', {}, { responseBytes: 9_000 }, 'trace of more than 9000 bytes'],
      ['retained bytes', PRESTATE, { responseBytes: 200 }, 'trace of more than 200 bytes'],
    ])('ends an endless call with more %s than allowed', async (_, config, limits, message) => {
      const small = testRpc({ memory, limits })
      const to = bytesToHex(CONTRACT)
      // The code reads a balance and calls an account without code, in an endless loop.
      const code = '0x5b5f3150 5f5f5f5f60aa61fffffa50 5f56'.replaceAll(' ', '')
      const endless = { ...config, stateOverrides: { [to]: { code } } }
      const { error } = await small.request('debug_traceCall', [{ to }, 'latest', endless])
      expect(error).toEqual({ code: -32000, message })
    })
  })
})
