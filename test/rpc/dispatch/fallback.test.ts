/**
 * Calls run on an engine that fails. Each response must be that of an engine which does not fail,
 * and each fallback must be counted.
 */
import { expect, test } from 'vitest'
import type { Engine } from '../../../engine/evm/engine.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { collectPieces, type Piece } from '../../../rpc/core/pieces.ts'
import { createCallRunner } from '../../../rpc/dispatch/worker-call.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { failingEngine } from '../../fixtures/failing-engine.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { WriterWorld } from '../../fixtures/writer-world.ts'

const TO = '0x00000000000000000000000000000000000000aa'
/**
 * The code reads three slots, writes one, logs, calls the identity contract, and returns 32 bytes.
 */
const CODE = '0x60015460025401600354015f5560205f5f5f5f600460fff1505f545f526020' + '5fa060205ff3'
const OVERRIDES = { [TO]: { code: CODE, state: {} } }
const SLOT = `0x${'00'.repeat(31)}01`
OVERRIDES[TO]!.state = { [SLOT]: `0x${'00'.repeat(31)}2a` }
const REQUESTED: readonly (readonly [method: string, params: readonly unknown[]])[] = [
  ['eth_call', [{ to: TO }, 'latest']],
  ['eth_call', [{ to: TO }, 'latest', OVERRIDES]],
  ['eth_estimateGas', [{ to: TO }, 'latest', OVERRIDES]],
  ['eth_createAccessList', [{ to: TO }, 'latest', OVERRIDES]],
  [
    'eth_simulateV1',
    [{ blockStateCalls: [{ stateOverrides: OVERRIDES, calls: [{ to: TO }] }] }, 'latest'],
  ],
  ['debug_traceCall', [{ to: TO }, 'latest', { stateOverrides: OVERRIDES }]],
  ['debug_traceCall', [{ to: TO }, 'latest', { stateOverrides: OVERRIDES, tracer: 'callTracer' }]],
]
/** The number of host calls, out of all those of a method, that fail in turn. */
const SAMPLED = 8

function runnerOn(engine: Engine) {
  const { reader } = new WriterWorld()
  const runner = createCallRunner({
    reader,
    chain: CHAIN,
    engine,
    limits: DEFAULT_LIMITS,
    methods,
    now: () => 0,
    onBug(error) {
      throw error
    },
  })
  return async (method: string, params: readonly unknown[]) => {
    const put: Piece[] = []
    const reply = await runner.run(
      { method, text: JSON.stringify(params), endpoint: 'flashblocks', snapshot: undefined },
      { isExpired: () => false, put: (piece) => void put.push(piece) },
    )
    runner.endTask()
    return { ...reply, pieces: collectPieces(put).length }
  }
}

test.each(REQUESTED)(
  '%s of case %$ gives the same result when the engine fails at any host call',
  async (method, params) => {
    const plain = await runnerOn(referenceEngine)(method, params)
    expect(plain).toHaveProperty('result')
    const failing = failingEngine()
    const request = runnerOn(failing.engine)
    expect(await request(method, params)).toEqual(plain)
    const before = failing.calls
    await request(method, params)
    const calls = failing.calls - before
    expect(calls).toBeGreaterThan(0)
    for (let call = 1; call <= calls; call += Math.ceil(calls / SAMPLED)) {
      const reported = failing.reported.length
      failing.failAt(call)
      expect(await request(method, params), `host call ${call}`).toEqual(plain)
      expect(failing.reported.length - reported).toBe(1)
    }
    expect(failing.reported.every((why) => why.startsWith(`${method}: the engine trapped`))).toBe(
      true,
    )
  },
)
