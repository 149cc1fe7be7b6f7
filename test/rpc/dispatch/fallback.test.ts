/** Calls on an engine that fails: each answer is the one of an engine that does not, and whoever counts is told. */
import { expect, test } from 'vitest'
import type { Engine } from '../../../engine/evm/engine.ts'
import { createCallRunner } from '../../../rpc/dispatch/worker-call.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
import { collectPieces, type Piece } from '../../../rpc/seam/pieces.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { failingEngine } from '../../fixtures/failing-engine.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { WriterWorld } from '../../fixtures/writer-world.ts'

const TO = '0x00000000000000000000000000000000000000aa'
/** Three slots read, one written, a log, a call of the identity contract, 32 bytes returned. */
const CODE = '0x60015460025401600354015f5560205f5f5f5f600460fff1505f545f526020' + '5fa060205ff3'
const OVERRIDES = { [TO]: { code: CODE, state: {} } }
const SLOT = `0x${'00'.repeat(31)}01`
OVERRIDES[TO]!.state = { [SLOT]: `0x${'00'.repeat(31)}2a` }
const ASKED: readonly (readonly [method: string, params: readonly unknown[]])[] = [
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
/** Host calls that fail, of all that a method makes. */
const SAMPLED = 8

function runnerOn(engine: Engine) {
  const { reader } = new WriterWorld()
  const runner = createCallRunner({
    ...{ reader, chain: CHAIN, engine, limits: DEFAULT_LIMITS, methods, now: () => 0 },
    onBug(error) {
      throw error
    },
  })
  return async (method: string, params: readonly unknown[]) => {
    const put: Piece[] = []
    const reply = await runner.run(
      { method, text: JSON.stringify(params), endpoint: 'flashblocks', record: undefined },
      { isExpired: () => false, put: (piece) => void put.push(piece) },
    )
    runner.endTask()
    return { ...reply, pieces: collectPieces(put).length }
  }
}

test.each(ASKED)('%s, %$', async (method, params) => {
  const plain = await runnerOn(referenceEngine)(method, params)
  expect(plain).toHaveProperty('result')
  const failing = failingEngine()
  const ask = runnerOn(failing.engine)
  expect(await ask(method, params)).toEqual(plain)
  const before = failing.calls
  await ask(method, params)
  const calls = failing.calls - before
  expect(calls).toBeGreaterThan(0)
  for (let call = 1; call <= calls; call += Math.ceil(calls / SAMPLED)) {
    const told = failing.told.length
    failing.failAt(call)
    expect(await ask(method, params), `host call ${call}`).toEqual(plain)
    expect(failing.told.length - told).toBe(1)
  }
  expect(failing.told.every((why) => why.startsWith(`${method}: the engine trapped`))).toBe(true)
})
