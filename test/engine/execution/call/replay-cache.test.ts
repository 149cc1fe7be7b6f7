/**
 * Replays are cached. Whatever was traced before, in any order, a trace must be the same, and each
 * transaction is executed once.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Engine, Message } from '../../../../engine/evm/engine.ts'
import { stateWithin, traceTransactions } from '../../../../engine/execution/call/replay.ts'
import {
  createReplayCache,
  type ReplayCache,
  type ReplayOptions,
  ReplayStopped,
} from '../../../../engine/execution/call/replay-cache.ts'
import type { Header } from '../../../../engine/primitives/header.ts'
import { equalBytes } from '../../../../engine/primitives/words.ts'
import { readAccount } from '../../../../engine/state/read.ts'
import { MissingError, type StateReader } from '../../../../engine/state/reader.ts'
import { referenceEngine } from '../../../fixtures/engine.ts'
import { ATTRIBUTES, block, SENDER, testChain, transaction } from '../../../fixtures/op-block.ts'
import { testOutput } from '../../../fixtures/trace-output.ts'
import { address, word } from '../../../fixtures/world.ts'

/** The code adds one to slot 0, which it logs; every second call creates a contract. */
const CODE = '5f54600101805f555f52 60205fa0 60015f5416601757005b 5f5f5ff000'.replaceAll(' ', '')
const COUNT = 6
const transactions = Array.from({ length: COUNT }, (_, at) => transaction({ nonce: BigInt(at) }))
const header = { ...ATTRIBUTES, baseFeePerGas: 7n, mixHash: ATTRIBUTES.prevRandao, difficulty: 0n }
const stateOf = (slot: bigint): StateReader =>
  block({ accounts: { 2: { code: CODE, nonce: 1n, storage: { 0: slot } } } }).reader

function optionsOf(number: number, cached: ReplayCache | undefined, engine = referenceEngine) {
  const options = {
    engine,
    chain: testChain(),
    reader: stateOf(BigInt(number)),
    header: header as unknown as Header,
    hash: word(BigInt(number)),
    transactions,
    limits: {},
  }
  return { ...options, ...(cached === undefined ? {} : { cached }) } satisfies ReplayOptions
}

async function traced(options: ReplayOptions, first: number, last: number, name: string) {
  const { output, budget, parsed } = testOutput()
  const config = name === 'callTracer' ? { withLog: true } : { diffMode: true }
  let separator = '['
  await traceTransactions({
    ...options,
    choice: { name, config },
    budget,
    output,
    first,
    last,
    open() {
      output.write(separator)
      separator = ','
    },
    close() {},
  })
  output.write(']')
  return parsed()
}

/** Makes an engine that counts the runs of the block's transactions. */
function counting(): { readonly engine: Engine; runs: number } {
  const counted = {
    runs: 0,
    engine: {
      ...referenceEngine,
      openSession(...given: Parameters<Engine['openSession']>) {
        const session = referenceEngine.openSession(...given)
        return {
          ...session,
          run(message: Message, ...limits: never[]) {
            if (equalBytes(message.origin, SENDER)) counted.runs++
            return session.run(message, ...limits)
          },
        }
      },
    },
  }
  return counted
}

test('traces in order execute each transaction once, and a repeated one only its own', async () => {
  const counted = counting()
  const options = optionsOf(1, createReplayCache(), counted.engine)
  for (let at = 0; at < COUNT; at++) await traced(options, at, at, 'callTracer')
  expect(counted.runs).toBe(COUNT)
  await traced(options, 2, 2, 'callTracer')
  expect(counted.runs).toBe(COUNT + 1)
  await stateWithin(options, 3)
  expect(counted.runs).toBe(COUNT + 1)
})

test('replays of two blocks are cached, and a third one evicts the oldest', async () => {
  const counted = counting()
  const cached = createReplayCache()
  for (const number of [1, 2, 1, 3, 1, 2])
    await traced(optionsOf(number, cached, counted.engine), 0, 0, 'callTracer')
  const full = await traced(optionsOf(1, cached, counted.engine), 0, COUNT - 1, 'callTracer')
  expect(full).toHaveLength(COUNT)
  expect(cached.take(counted.engine, word(3n))).toBeUndefined()
  expect(cached.take(referenceEngine, word(1n))).toBeUndefined()
  const taken = cached.take(counted.engine, word(1n))
  expect(taken?.checkpoints).toHaveLength(COUNT)
  // A taken replay has only one user.
  expect(cached.take(counted.engine, word(1n))).toBeUndefined()
})

test('an error in a transaction ends its cached replay, and a limit does not', async () => {
  const cached = createReplayCache()
  const options = optionsOf(1, cached)
  const stopped = { ...options, limits: { isExpired: () => true } }
  await traced(options, 1, 1, 'callTracer')
  await expect(traced(stopped, 4, 4, 'callTracer')).rejects.toThrow(ReplayStopped)
  const { reader } = options
  const broken: StateReader = {
    ...reader,
    account: () => 'missing',
    slot: () => 'missing',
    code: (hash) => reader.code(hash),
    blockHash: () => 'missing',
    hasSlots: () => false,
    slots: () => [],
  }
  // The values that the first two read are known; the contract that the next one creates is not.
  await expect(traced({ ...options, reader: broken }, 3, 3, 'callTracer')).rejects.toThrow(
    MissingError,
  )
  expect(cached.take(referenceEngine, word(1n))).toBeUndefined()
  expect(await traced(options, 3, 3, 'callTracer')).toEqual(
    await traced(optionsOf(1, undefined), 3, 3, 'callTracer'),
  )
})

test('any trace is the same with and without cached replays', async () => {
  const index = fc.nat({ max: COUNT - 1 })
  const requested = fc.record({
    number: fc.constantFrom(1, 2, 3),
    kind: fc.constantFrom('callTracer', 'prestateTracer', 'state', 'stopped'),
    first: index,
    length: fc.constantFrom(1, 1, 2, COUNT),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(requested, { minLength: 2, maxLength: 12 }), async (all) => {
      const cached = createReplayCache()
      for (const { number, kind, first, length } of all) {
        const last = Math.min(COUNT, first + length) - 1
        const [ours, fresh] = [optionsOf(number, cached), optionsOf(number, undefined)]
        if (kind === 'stopped') {
          let left = first * 3
          const limits = { isExpired: () => left-- <= 0 }
          await traced({ ...ours, limits }, first, last, 'callTracer').catch((error: unknown) => {
            if (!(error instanceof ReplayStopped)) throw error
          })
        } else if (kind === 'state') {
          const states = [await stateWithin(ours, first), await stateWithin(fresh, first)]
          const [one, other] = states.map((state) => [
            readAccount(state, SENDER),
            readAccount(state, address(2)),
          ])
          expect(one).toEqual(other)
        } else
          expect(await traced(ours, first, last, kind)).toEqual(
            await traced(fresh, first, last, kind),
          )
      }
    }),
    { numRuns: 25 },
  )
})
