import { describe, expect, test } from 'vitest'
import type { TraceSink } from '../../../engine/evm/engine.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { createAddress } from '../../../engine/primitives/transaction-codec.ts'
import { describeEngines } from '../../fixtures/engines.ts'
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
  /** Formats frames as lines, indented by depth. */
  async function frames(
    code: string,
    others: Record<number, WorldAccount> = {},
  ): Promise<string[]> {
    const lines: string[] = []
    let depth = 0
    const name = (of: Uint8Array | undefined) =>
      of === undefined ? '-' : Buffer.from(of).readUInt16BE(0).toString(16)
    const sink: TraceSink = {
      enter(kind, from, to, value, _, input) {
        lines.push(
          `${' '.repeat(depth++)}${kind} ${name(from)} ${name(to)} ${value} ${Buffer.from(input).toString('hex')}`,
        )
      },
      exit(error, _, output) {
        lines.push(`${' '.repeat(--depth)}${error ?? 'ok'} ${Buffer.from(output).toString('hex')}`)
      },
    }
    const session = engine.openSession(
      world({ 1: { balance: 100n }, 2: { code, balance: 5n }, ...others }),
      BLOCK,
      PRAGUE,
    )
    session.setTrace(sink)
    session.startTransaction()
    await session.run(message({ value: 1n }))
    expect(depth).toBe(0)
    return lines
  }

  describe('the enter and exit hooks', () => {
    const three = { 3: { code: '602a5f52 60205ff3' } }
    const cases: [name: string, code: string, lines: string[]][] = [
      ['CALL', `5f5f5f5f6003${push(3)}5af1`, ['CALL 1 2 1 ', ' CALL 2 3 3 ', ' ok 2a', 'ok ']],
      [
        'STATICCALL',
        `5f5f5f5f${push(3)}5afa`,
        ['CALL 1 2 1 ', ' STATICCALL 2 3 0 ', ' ok 2a', 'ok '],
      ],
      [
        'DELEGATECALL',
        `5f5f5f5f${push(3)}5af4`,
        ['CALL 1 2 1 ', ' DELEGATECALL 2 3 1 ', ' ok 2a', 'ok '],
      ],
      [
        'CALLCODE',
        `5f5f5f5f6002${push(3)}5af2`,
        ['CALL 1 2 1 ', ' CALLCODE 2 3 2 ', ' ok 2a', 'ok '],
      ],
      [
        'a CALL with more value than the balance',
        `60aa5f53 5f5f60015f6009${push(3)}5af1`,
        ['CALL 1 2 1 ', ' CALL 2 3 9 aa', ' insufficient balance for transfer ', 'ok '],
      ],
      ['SELFDESTRUCT', `${push(3)}ff`, ['CALL 1 2 1 ', ' SELFDESTRUCT 2 3 6 ', ' ok ', 'ok ']],
      ['a halt', 'fe', ['CALL 1 2 1 ', 'invalid opcode: INVALID ']],
      ['a revert', '602a5f52 6001601ffd', ['CALL 1 2 1 ', 'execution reverted 2a']],
    ]
    test.each(cases)('report the frames of %s', async (_, code, lines) => {
      const reported = await frames(code, three)
      expect(reported.map((line) => line.replace(/(00)+2a$/, '2a'))).toEqual(lines)
    })

    test.each([
      ['CREATE', '5f5f60ff f0', 'insufficient balance for transfer'],
      ['CREATE', '5f5f5f f0', 'nonce uint64 overflow'],
      ['CREATE2', '5f5f5f5f f5', 'nonce uint64 overflow'],
    ])('report a %s that does not start, with the error: %s', async (kind, code, error) => {
      const own = { 2: { code, balance: 5n, nonce: 2n ** 64n - 1n } }
      const value = error === 'nonce uint64 overflow' ? 0 : 255
      const lines = ['CALL 1 2 1 ', ` ${kind} 2 - ${value} `, ` ${error} `, 'ok ']
      expect(await frames(code, own)).toEqual(lines)
    })

    test('report the address and the init code of a creation', async () => {
      const reported: unknown[] = []
      const sink: TraceSink = {
        enter: (kind, _, to, value, __, input) => void reported.push([kind, to, value, input]),
      }
      // The init code is STOP.
      const session = engine.openSession(
        world({ 1: { balance: 1n }, 2: { code: '60015f6001f0', nonce: 4n } }),
        BLOCK,
        PRAGUE,
      )
      session.setTrace(sink)
      session.startTransaction()
      await session.run(message({ value: 1n }))
      expect(reported[1]).toEqual(['CREATE', createAddress(address(2), 4n), 1n, bytes('00')])
    })
  })

  test('the step hook reports stack, memory and cost before each opcode', async () => {
    const steps: unknown[] = []
    const sink: TraceSink = {
      step: ({ pc, op, gas, cost, depth, stack, memory }) =>
        void steps.push([pc, op, gas, cost, depth, stack(), memory().length]),
    }
    const session = engine.openSession(world({ 2: { code: '602a5f5200' } }), BLOCK, PRAGUE)
    session.setTrace(sink)
    session.startTransaction()
    await session.run(message({ gas: 100n }))
    expect(steps).toEqual([
      [0, 0x60, 100n, 3n, 0, [], 0],
      [2, 0x5f, 97n, 2n, 0, [42n], 0],
      [3, 0x52, 95n, 6n, 0, [42n, 0n], 0],
      [4, 0x00, 89n, 0n, 0, [], 32],
    ])
  })

  describe('the touch hook', () => {
    /**
     * Formats touches: the opcode, the address of the storage, the end of the operand, the state's
     * value, and whether the opcode fails.
     */
    async function touches(code: string, options: { gas?: bigint; spec?: string } = {}) {
      const { gas = 1_000_000n, spec = 'prague' } = options
      const accounts = {
        1: { balance: 9n },
        2: { code, balance: 7n, nonce: 3n, storage: { 5: 6n } },
        3: { code: '60055400' },
      }
      const session = engine.openSession(world(accounts), BLOCK, { ...PRAGUE, spec })
      const reported: string[] = []
      const end = (of: Uint8Array) => Buffer.from(of).subarray(-2).toString('hex')
      session.setTrace({
        touch({ op, address: of, target, key, isFailed }) {
          const operand =
            key !== undefined
              ? `${end(key)}=${end(session.slot(of, key))}`
              : target === undefined
                ? '-'
                : `${end(target)} ${session.account(target).balance}`
          reported.push(`${op.toString(16)} ${end(of)} ${operand}${isFailed ? ' failed' : ''}`)
        },
        enter: (kind) => void reported.push(kind),
      })
      session.startTransaction()
      await session.run(message({ gas }))
      return reported.slice(1)
    }
    const created = (hash: Uint8Array) => Buffer.from(hash).subarray(-2).toString('hex')

    test('runs before each opcode, with the state of that moment', async () => {
      const code = `600554 50 6001600555 600554 50 ${push(9)}31 ${push(8)}3b ${push(8)}3f 5f5f5f${push(8)}3c`
      expect(await touches(code.replaceAll(' ', ''))).toEqual([
        '54 0002 0005=0006',
        '55 0002 0005=0006',
        '54 0002 0005=0001',
        '31 0002 0009 0',
        '3b 0002 0008 0',
        '3f 0002 0008 0',
        '3c 0002 0008 0',
      ])
    })
    test('runs before the frame, and names the storage that a delegate call reads', async () => {
      const words = (count: number) => '5f'.repeat(count)
      const to = `${push(3)}5a`
      expect(
        await touches(`${words(4)}6001${to}f1 ${words(4)}${to}f4 ${push(3)}ff`.replaceAll(' ', '')),
      ).toEqual([
        'f1 0002 0003 0',
        'CALL',
        '54 0003 0005=0000',
        'f4 0002 0003 1',
        'DELEGATECALL',
        '54 0002 0005=0006',
        'ff 0002 0003 1',
        'SELFDESTRUCT',
      ])
    })
    test('reports the address that a creation would have', async () => {
      const first = created(createAddress(address(2), 3n))
      const hash = (data: string) => Buffer.from(keccak256(bytes(data))).toString('hex')
      const two = Buffer.from(address(2)).toString('hex')
      const salted = hash(`ff${two}${'00'.repeat(31)}07${hash('0000')}`).slice(-4)
      // The second creation sends more than the balance.
      expect(await touches('5f5f5ff0 6007 6002 5f 60ff f5'.replaceAll(' ', ''))).toEqual([
        `f0 0002 ${first} 0`,
        'CREATE',
        `f5 0002 ${salted} 0`,
        'CREATE2',
      ])
    })
    test.each<[string, string, { gas?: bigint; spec?: string }, string[]]>([
      ['because of a missing stack item', '54', {}, ['54 0002 - failed']],
      ['because of a missing stack item', `5f5f${push(3)}5ff1`, {}, ['f1 0002 - failed']],
      ['because of a missing stack item', `5f5f5f${push(3)}5ff1`, {}, ['f1 0002 0003 0 failed']],
      ['because of too little gas', '600554', { gas: 100n }, ['54 0002 0005=0006 failed']],
      ['because of too little gas', `${push(9)}31`, { gas: 50n }, ['31 0002 0009 0 failed']],
      [
        'because of too little gas',
        `${push(9)}31`,
        { gas: 300n, spec: 'byzantium' },
        ['31 0002 0009 0 failed'],
      ],
      [
        'because of the SSTORE sentry',
        '60016005 55',
        { gas: 2_000n },
        ['55 0002 0005=0006 failed'],
      ],
      ['because of the price of a creation', '5f5f5ff0', { gas: 20_000n }, ['f0 0002 - failed']],
    ])('marks opcodes that fail %s: code %s', async (_, code, options, expected) => {
      expect(await touches(code.replaceAll(' ', ''), options)).toEqual(expected)
    })
  })

  test('a traced run has the outcome and the diff of a run without a trace', async () => {
    const code = `60015f55 5f5f5f5f6003${push(3)}5af1 5f5260205ff3`
    const accounts = { 1: { balance: 9n }, 2: { code }, 3: { code: '5f5ffd' } }
    const sink: TraceSink = { enter() {}, exit() {}, step() {}, touch() {} }
    const [plain, traced] = await Promise.all(
      [undefined, sink].map(async (trace) => {
        const session = engine.openSession(world(accounts), BLOCK, PRAGUE)
        session.setTrace(trace)
        session.startTransaction()
        return { outcome: await session.run(message({ value: 5n })), diff: session.diff(0) }
      }),
    )
    expect(traced).toEqual(plain)
    expect(plain!.outcome).toMatchObject({ output: word(0n) })
  })
})
