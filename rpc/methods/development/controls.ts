/** Methods of a development chain that pause it, make blocks on request, and set its time. */

import { bytesToHex, quantity } from '../../../engine/primitives/hex.ts'
import type { Control, Controlled } from '../../../engine/sources/sequencer/controls.ts'
import { invalidParameter } from '../../core/errors.ts'
import type { Limits } from '../../core/limits.ts'
import { quantityText } from '../../json/codecs.ts'
import { booleanResult, quantityResult, textResult } from '../../json/results.ts'
import { boolean, kindOf, type PlainCodec, refuseUnknown, SchemaError } from '../../json/schema.ts'
import { frontMethod, type Method, optional, param } from '../../method/method.ts'

/**
 * Sends a control and resolves when it is done.
 * @throws {RpcError}
 */
export type SendControl = (control: Control) => Promise<Controlled>

/** Gas limits of a block, as the flag for the first block has them. */
const MIN_GAS = 5_000_000n
const MAX_GAS = 1_000_000_000n
/** Maximum seconds between two blocks: a day. */
const MAX_INTERVAL = 86_400n

/**
 * Creates a codec for integers in anvil's forms: a JSON number, decimal text, or hex with or
 * without leading zeros.
 */
function uint(bits: number): PlainCodec<bigint> {
  return {
    decode(wire) {
      if (typeof wire === 'number' && (!Number.isSafeInteger(wire) || wire < 0))
        throw new SchemaError(
          'JSON number must be an integer from 0 to 2^53 - 1; send larger numbers as strings',
        )
      if (typeof wire !== 'number' && (typeof wire !== 'string' || !UINT.test(wire)))
        throw new SchemaError(kindOf(wire), `uint${bits}`)
      const value = BigInt(wire)
      if (value >> BigInt(bits) !== 0n) throw new SchemaError(`number must be below 2^${bits}`)
      return value
    },
    encode: (value) => quantity(value),
    schema: {
      title: `Integer below 2^${bits}: a JSON number, decimal string or hex string`,
      anyOf: [
        { type: 'string', pattern: UINT.source },
        { type: 'integer', minimum: 0 },
      ],
    },
  }
}
const UINT = /^(0[xX][0-9a-fA-F]{1,64}|[0-9]{1,78})$/
export const natural = uint(64)
export const wei = uint(256)

export const headResult = textResult('Newest block', {
  type: 'object',
  properties: { number: { type: 'string' }, hash: { type: 'string' } },
})
export const headText = ({ head }: Controlled): string | undefined =>
  head && `{"number":${quantityText(head.number)},"hash":"${bytesToHex(head.hash)}"}`
export const positionText = ({ position }: Controlled): string | undefined =>
  position && `{"number":${quantityText(position.number)},"index":${position.index}}`

/** Creates the same method under each of these names. */
export const named = (names: readonly string[], make: (name: string) => Method): Method[] =>
  names.map(make)

/**
 * Creates the methods that control the chain.
 * @param isRunning tells whether blocks are made automatically
 */
export function chainControls(send: SendControl, isRunning: () => boolean): readonly Method[] {
  const run = (shallRun: boolean) => send({ type: shallRun ? 'resume' : 'pause' })
  return [
    frontMethod({
      ...CONTROL,
      name: 'dev_pause',
      summary:
        'Seals the block in progress and pauses the chain, which then makes blocks only on request.',
      params: [],
      result: headResult,
      handler: async () => headText(await run(false)),
    }),
    frontMethod({
      ...CONTROL,
      name: 'dev_resume',
      summary: 'Resumes a paused chain: it makes blocks and flashblocks automatically again.',
      params: [],
      result: headResult,
      handler: async () => headText(await run(true)),
    }),
    frontMethod({
      ...CONTROL,
      name: 'dev_step',
      summary:
        'Makes the next flashblock of a paused chain; without a block in progress, index 0 of the next block.',
      params: [],
      result: textResult('Flashblock position', { type: 'object' }),
      handler: async () => positionText(await send({ type: 'step' })),
    }),
    frontMethod({
      ...CONTROL,
      name: 'dev_seal',
      summary: 'Seals the block in progress now, with the transactions that wait in the txpool.',
      params: [],
      result: headResult,
      handler: async () => headText(await send({ type: 'seal' })),
    }),
    ...named(['evm_setBlockGasLimit', 'anvil_setBlockGasLimit'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'Sets the gas limit of the next block and of later blocks.',
        params: [param('Gas', natural)],
        result: booleanResult('Done'),
        handler(_context, gasLimit) {
          if (gasLimit < MIN_GAS || gasLimit > MAX_GAS)
            throw invalidParameter(0, `expected ${MIN_GAS} to ${MAX_GAS} gas, got ${gasLimit}`)
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
        summary: 'Turns the automatic production of blocks on or off.',
        params: [param('Automine', boolean)],
        result: booleanResult('Done'),
        handler: async (_context, isOn) => run(isOn).then(() => true),
      }),
    ),
    ...named(['anvil_getAutomine', 'hardhat_getAutomine'], (name) =>
      frontMethod({
        name,
        summary: 'Whether the chain makes blocks automatically.',
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
          'Turns the automatic production of blocks off (0) or on (the block time of this chain).',
        params: [param('Seconds', natural)],
        result: booleanResult('Done'),
        handler(context, seconds) {
          const blockTime = BigInt(context.chain.blockTime)
          if (seconds !== 0n && seconds !== blockTime)
            throw invalidParameter(
              0,
              `expected ${blockTime} (the block time, --block-time-ms) or 0 (off), got ${seconds}`,
            )
          return run(seconds > 0n).then(() => true)
        },
      }),
    ),
  ]
}

/** The method changes the chain and waits for the result. */
export const CONTROL = { hasEffect: true, isWaiting: true } as const

function mining(send: SendControl): readonly Method[] {
  function checkBlocks({ minedBlocks }: Limits, blocks: bigint): void {
    if (blocks > minedBlocks)
      throw invalidParameter(
        0,
        `expected at most ${minedBlocks} blocks (--limit-mined-blocks), got ${blocks}`,
      )
  }
  async function mine(blocks: bigint, interval?: bigint): Promise<void> {
    if (interval !== undefined && interval > MAX_INTERVAL)
      throw invalidParameter(1, `expected at most ${MAX_INTERVAL} seconds, got ${interval}`)
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
      summary: 'Makes one or more blocks now, the first with the given timestamp.',
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
        summary: 'Makes blocks now, with timestamps that are the given number of seconds apart.',
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
    // anvil treats null as a missing field.
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
      'Sets the timestamp of the next block that starts; the chain continues from there.',
    ),
    ...setNext(
      ['evm_setNextBlockTimestamp', 'anvil_setNextBlockTimestamp'],
      'Sets the timestamp of the next block that starts.',
    ),
    ...named(['evm_increaseTime', 'anvil_increaseTime'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary:
          'Makes the next block that starts the given number of seconds later than the newest block.',
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
      summary: 'Sets the number of seconds between the timestamps of blocks.',
      params: [param('Seconds', natural)],
      result: textResult('Done', { type: 'null' }),
      handler(_context, every) {
        if (every === 0n || every > MAX_INTERVAL)
          throw invalidParameter(0, `expected 1 to ${MAX_INTERVAL} seconds, got ${every}`)
        return send({ type: 'time', every }).then(() => undefined)
      },
    }),
    frontMethod({
      ...CONTROL,
      name: 'anvil_removeBlockTimestampInterval',
      summary: 'Removes the set interval, so that timestamps of blocks follow the clock again.',
      params: [],
      result: booleanResult('Done'),
      handler: () => send({ type: 'time', every: undefined }).then(() => true),
    }),
  ]
}
