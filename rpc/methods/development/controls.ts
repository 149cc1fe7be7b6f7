/** What only a development chain has: it stands still, makes blocks at a word, and has the time that it is told. */

import { bytesToHex, quantity } from '../../../engine/primitives/hex.ts'
import type { Control, Controlled } from '../../../engine/sources/sequencer/controls.ts'
import { quantityText } from '../../json/codecs.ts'
import { booleanResult, quantityResult, textResult } from '../../json/results.ts'
import { boolean, kindOf, type PlainCodec, refuseUnknown, SchemaError } from '../../json/schema.ts'
import { frontMethod, type Method, optional, param } from '../../method/method.ts'
import { invalidParameter } from '../../seam/errors.ts'
import type { Limits } from '../../seam/limits.ts'

/** Resolves when it is done. @throws {RpcError} */
export type SendControl = (control: Control) => Promise<Controlled>

/** Of a block, as the flag for its first one has it. */
const LEAST_GAS = 5_000_000n
const MOST_GAS = 1_000_000_000n
/** Seconds between two of them at most: a day. */
const MOST_INTERVAL = 86_400n

/** A whole number as anvil takes it: a JSON number, decimal text, or hex with or without leading zeros. */
function whole(bits: number): PlainCodec<bigint> {
  return {
    decode(wire) {
      if (typeof wire === 'number' && (!Number.isSafeInteger(wire) || wire < 0))
        throw new SchemaError(
          'JSON number must be a whole one from 0 to 2^53 - 1; greater ones are written as text',
        )
      if (typeof wire !== 'number' && (typeof wire !== 'string' || !WHOLE.test(wire)))
        throw new SchemaError(kindOf(wire), `uint${bits}`)
      const value = BigInt(wire)
      if (value >> BigInt(bits) !== 0n) throw new SchemaError(`number must be below 2^${bits}`)
      return value
    },
    encode: (value) => quantity(value),
    schema: {
      title: `Whole number below 2^${bits}: a JSON number, decimal text or hex`,
      anyOf: [
        { type: 'string', pattern: WHOLE.source },
        { type: 'integer', minimum: 0 },
      ],
    },
  }
}
const WHOLE = /^(0[xX][0-9a-fA-F]{1,64}|[0-9]{1,78})$/
export const natural = whole(64)
export const wei = whole(256)

export const headResult = textResult('Newest block', {
  type: 'object',
  properties: { number: { type: 'string' }, hash: { type: 'string' } },
})
export const headText = ({ head }: Controlled): string | undefined =>
  head && `{"number":${quantityText(head.number)},"hash":"${bytesToHex(head.hash)}"}`
export const placeText = ({ place }: Controlled): string | undefined =>
  place && `{"number":${quantityText(place.number)},"index":${place.index}}`

/** The same method under each of these names. */
export const named = (names: readonly string[], make: (name: string) => Method): Method[] =>
  names.map(make)

/** @param isRunning blocks come by themselves */
export function chainControls(send: SendControl, isRunning: () => boolean): readonly Method[] {
  const run = (shallRun: boolean) => send({ type: shallRun ? 'resume' : 'pause' })
  return [
    frontMethod({
      ...CONTROL,
      name: 'dev_pause',
      summary: 'Seals the block in progress; from then on nothing is made but at a word.',
      params: [],
      result: headResult,
      handler: async () => headText(await run(false)),
    }),
    frontMethod({
      ...CONTROL,
      name: 'dev_resume',
      summary: 'Blocks and flashblocks come by themselves again.',
      params: [],
      result: headResult,
      handler: async () => headText(await run(true)),
    }),
    frontMethod({
      ...CONTROL,
      name: 'dev_step',
      summary: 'Makes one flashblock of a chain that is paused: the next index, or index 0.',
      params: [],
      result: textResult('Place of the flashblock', { type: 'object' }),
      handler: async () => placeText(await send({ type: 'step' })),
    }),
    frontMethod({
      ...CONTROL,
      name: 'dev_seal',
      summary: 'Seals the block in progress now, with what waits in the txpool.',
      params: [],
      result: headResult,
      handler: async () => headText(await send({ type: 'seal' })),
    }),
    ...named(['evm_setBlockGasLimit', 'anvil_setBlockGasLimit'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'Gas of the next block, and of those after it.',
        params: [param('Gas', natural)],
        result: booleanResult('Done'),
        handler(_context, gasLimit) {
          if (gasLimit < LEAST_GAS || gasLimit > MOST_GAS)
            throw invalidParameter(0, `a block has ${LEAST_GAS} to ${MOST_GAS} gas`)
          return send({ type: 'gasLimit', gasLimit }).then(() => true)
        },
      }),
    ),
    ...mining(send),
    ...times(send),
    ...automine(run, isRunning),
  ]
}

function automine(
  run: (shallRun: boolean) => Promise<Controlled>,
  isRunning: () => boolean,
): readonly Method[] {
  return [
    ...named(['evm_setAutomine', 'anvil_setAutomine', 'hardhat_setAutomine'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'Whether blocks come by themselves.',
        params: [param('Automine', boolean)],
        result: booleanResult('Done'),
        handler: async (_context, isOn) => run(isOn).then(() => true),
      }),
    ),
    ...named(['anvil_getAutomine', 'hardhat_getAutomine'], (name) =>
      frontMethod({
        name,
        summary: 'Whether blocks come by themselves.',
        params: [],
        result: booleanResult('Automine'),
        handler: isRunning,
      }),
    ),
    ...named(['evm_setIntervalMining', 'anvil_setIntervalMining'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary:
          '0: blocks do not come by themselves; the time between blocks of this chain: they do.',
        params: [param('Seconds', natural)],
        result: booleanResult('Done'),
        handler(context, seconds) {
          const blockTime = BigInt(context.chain.blockTime)
          if (seconds !== 0n && seconds !== blockTime)
            throw invalidParameter(
              0,
              `blocks of this chain come every ${blockTime} s (--block-time-ms), or not at all (0)`,
            )
          return run(seconds > 0n).then(() => true)
        },
      }),
    ),
  ]
}

/** It changes the chain, and is waited for. */
export const CONTROL = { hasEffect: true, isWaiting: true } as const

function mining(send: SendControl): readonly Method[] {
  function checkBlocks({ minedBlocks }: Limits, blocks: bigint): void {
    if (blocks > minedBlocks)
      throw invalidParameter(0, `at most ${minedBlocks} blocks at a time (--limit-mined-blocks)`)
  }
  async function mine(blocks: bigint, interval?: bigint): Promise<void> {
    if (interval !== undefined && interval > MOST_INTERVAL)
      throw invalidParameter(1, `blocks are at most ${MOST_INTERVAL} s apart`)
    if (blocks === 0n) return
    await send({
      type: 'mine',
      blocks: Number(blocks),
      interval: interval === undefined || interval === 0n ? undefined : Number(interval),
    })
  }
  return [
    frontMethod({
      ...CONTROL,
      name: 'evm_mine',
      summary: 'Makes a block now; with the timestamp that is given.',
      params: [optional('Timestamp, or options', mineOptions, {})],
      result: textResult('Done', { type: 'string' }),
      async handler({ limits }, { timestamp, blocks = 1n }) {
        checkBlocks(limits, blocks)
        if (timestamp !== undefined) await send({ type: 'time', at: timestamp })
        await mine(blocks)
        return '"0x0"'
      },
    }),
    ...named(['anvil_mine', 'hardhat_mine'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'Makes blocks now, so many seconds apart by their timestamps.',
        params: [optional('Blocks', natural, 1n), optional('Seconds', natural)],
        result: textResult('Done', { type: 'null' }),
        handler({ limits }, blocks, interval) {
          checkBlocks(limits, blocks)
          return mine(blocks, interval).then(() => undefined)
        },
      }),
    ),
  ]
}

type MineOptions = { readonly timestamp?: bigint; readonly blocks?: bigint }
const mineOptions: PlainCodec<MineOptions> = {
  decode(wire) {
    if (typeof wire !== 'object' || wire === null) return { timestamp: natural.decode(wire) }
    refuseUnknown(wire, ['timestamp', 'blocks'])
    const { timestamp, blocks } = wire as Record<string, unknown>
    // anvil takes null for a field that is left out.
    const [at, count] = [timestamp ?? undefined, blocks ?? undefined]
    return {
      ...(at === undefined ? {} : { timestamp: natural.decode(at) }),
      ...(count === undefined ? {} : { blocks: natural.decode(count) }),
    }
  },
  encode: ({ timestamp, blocks }) => ({
    ...(timestamp === undefined ? {} : { timestamp: natural.encode(timestamp) }),
    ...(blocks === undefined ? {} : { blocks: natural.encode(blocks) }),
  }),
  schema: { oneOf: [natural.schema, { type: 'object' }] },
}

function times(send: SendControl): readonly Method[] {
  const setNext = (names: readonly string[], summary: string) =>
    named(names, (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary,
        params: [param('Seconds', natural)],
        result: textResult('Done', { type: 'null' }),
        handler: (_context, at) => send({ type: 'time', at }).then(() => undefined),
      }),
    )
  return [
    ...setNext(
      ['dev_setTime', 'evm_setTime', 'anvil_setTime'],
      'The next block has this timestamp, and the chain goes on from there.',
    ),
    ...setNext(
      ['evm_setNextBlockTimestamp', 'anvil_setNextBlockTimestamp'],
      'The next block has this timestamp.',
    ),
    ...named(['evm_increaseTime', 'anvil_increaseTime'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'The next block is so many seconds later than the newest one.',
        params: [param('Seconds', natural)],
        result: quantityResult('Seconds that the chain is ahead of the clock'),
        async handler(_context, by) {
          return (await send({ type: 'time', by })).aheadSeconds ?? 0
        },
      }),
    ),
    frontMethod({
      ...CONTROL,
      name: 'anvil_setBlockTimestampInterval',
      summary: 'Timestamps of blocks are so many seconds apart.',
      params: [param('Seconds', natural)],
      result: textResult('Done', { type: 'null' }),
      handler(_context, every) {
        if (every === 0n || every > MOST_INTERVAL)
          throw invalidParameter(0, `blocks are 1 to ${MOST_INTERVAL} s apart`)
        return send({ type: 'time', every }).then(() => undefined)
      },
    }),
    frontMethod({
      ...CONTROL,
      name: 'anvil_removeBlockTimestampInterval',
      summary: 'Timestamps of blocks follow the clock again.',
      params: [],
      result: booleanResult('Done'),
      handler: () => send({ type: 'time', every: undefined }).then(() => true),
    }),
  ]
}
