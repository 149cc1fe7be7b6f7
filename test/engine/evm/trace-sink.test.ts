import { describe, expect, test } from 'vitest'
import type { TraceSink } from '../../../engine/evm/engine.ts'
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
  /** Frames as lines, indented by depth. */
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
    session.beginTransaction()
    await session.run(message({ value: 1n }))
    expect(depth).toBe(0)
    return lines
  }

  describe('enter and exit', () => {
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
        'a balance too low',
        `60aa5f53 5f5f60015f6009${push(3)}5af1`,
        ['CALL 1 2 1 ', ' CALL 2 3 9 aa', ' insufficient balance for transfer ', 'ok '],
      ],
      ['SELFDESTRUCT', `${push(3)}ff`, ['CALL 1 2 1 ', ' SELFDESTRUCT 2 3 6 ', ' ok ', 'ok ']],
      ['a halt', 'fe', ['CALL 1 2 1 ', 'invalid opcode: INVALID ']],
      ['a revert', '602a5f52 6001601ffd', ['CALL 1 2 1 ', 'execution reverted 2a']],
    ]
    test.each(cases)('%s', async (_, code, lines) => {
      const told = await frames(code, three)
      expect(told.map((line) => line.replace(/(00)+2a$/, '2a'))).toEqual(lines)
    })

    test('a creation has its address and its init code', async () => {
      const told: unknown[] = []
      const sink: TraceSink = {
        enter: (kind, _, to, value, __, input) => void told.push([kind, to, value, input]),
      }
      // Init code STOP.
      const session = engine.openSession(
        world({ 1: { balance: 1n }, 2: { code: '60015f6001f0', nonce: 4n } }),
        BLOCK,
        PRAGUE,
      )
      session.setTrace(sink)
      session.beginTransaction()
      await session.run(message({ value: 1n }))
      expect(told[1]).toEqual(['CREATE', createAddress(address(2), 4n), 1n, bytes('00')])
    })
  })

  test('steps come before the opcode, with stack, memory and cost', async () => {
    const steps: unknown[] = []
    const sink: TraceSink = {
      step: ({ pc, op, gas, cost, depth, stack, memory }) =>
        void steps.push([pc, op, gas, cost, depth, stack(), memory().length]),
    }
    const session = engine.openSession(world({ 2: { code: '602a5f5200' } }), BLOCK, PRAGUE)
    session.setTrace(sink)
    session.beginTransaction()
    await session.run(message({ gas: 100n }))
    expect(steps).toEqual([
      [0, 0x60, 100n, 3n, 0, [], 0],
      [2, 0x5f, 97n, 2n, 0, [42n], 0],
      [3, 0x52, 95n, 6n, 0, [42n, 0n], 0],
      [4, 0x00, 89n, 0n, 0, [], 32],
    ])
  })

  test('a traced run ends as a plain one', async () => {
    const code = `60015f55 5f5f5f5f6003${push(3)}5af1 5f5260205ff3`
    const accounts = { 1: { balance: 9n }, 2: { code }, 3: { code: '5f5ffd' } }
    const sink: TraceSink = { enter() {}, exit() {}, step() {} }
    const [plain, traced] = await Promise.all(
      [undefined, sink].map(async (trace) => {
        const session = engine.openSession(world(accounts), BLOCK, PRAGUE)
        session.setTrace(trace)
        session.beginTransaction()
        return { outcome: await session.run(message({ value: 5n })), diff: session.diff(0) }
      }),
    )
    expect(traced).toEqual(plain)
    expect(plain!.outcome).toMatchObject({ output: word(0n) })
  })
})
