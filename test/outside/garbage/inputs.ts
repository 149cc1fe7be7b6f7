/**
 * A feed may send these instead of flashblocks: 1 kB to 32 MiB of invalid data, or altered
 * flashblocks. Some data expands far beyond its size.
 */
import { brotliCompressSync, constants } from 'node:zlib'
import { flashblockJson } from '../../../engine/flashblocks/json.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import { tableStream } from './tables.ts'

export const MIN_BYTES = 1_000
export const MAX_BYTES = 32 << 20

type Random = () => number
export type Garbage = { readonly name: string; make(random: Random): Buffer }

const byte = (value: number, length = 32) => new Uint8Array(length).fill(value)

/** Reads a clock that all processes of the machine share. */
export const clockUs = (): bigint => process.hrtime.bigint() / 1_000n

/** The payload ids of good flashblocks start with this. */
const GOOD = '0xfeed'
/** Gives the number of a good flashblock. */
export const goodNumber = ({ payloadId }: Flashblock): number | undefined =>
  payloadId.startsWith(GOOD) ? Number(`0x${payloadId.slice(GOOD.length)}`) : undefined

/**
 * Makes a good flashblock with transactions of this size in all; its gas is the time of its
 * creation.
 */
export function flashblock(number: number, sizeBytes: number): Flashblock {
  const count = Math.max(1, Math.min(40_000, Math.ceil(sizeBytes / 700)))
  const each = Math.max(1, Math.floor(sizeBytes / count))
  return {
    type: 'flashblock',
    payloadId: `${GOOD}${number.toString(16).padStart(12, '0')}`,
    index: 0,
    targetIndex: 0,
    base: {
      parentBeaconBlockRoot: byte(1),
      parentHash: byte(2),
      feeRecipient: byte(3, 20),
      prevRandao: byte(4),
      blockNumber: BigInt(number),
      gasLimit: 50_000_000n,
      timestamp: 0x692f7f9cn,
      extraData: byte(5, 17),
      baseFeePerGas: 99_999_999n,
    },
    delta: {
      stateRoot: byte(6),
      receiptsRoot: byte(7),
      logsBloom: byte(0, 256),
      gasUsed: clockUs(),
      blockHash: byte(8),
      transactions: Array.from({ length: count }, (_, at) => byte(at % 251, each)),
      withdrawalsRoot: byte(9),
      blobGasUsed: 0n,
    },
    blockNumber: BigInt(number),
  }
}

/** Draws a size; each order of magnitude is equally likely. */
const anySize = (random: Random, max = MAX_BYTES): number =>
  Math.floor(MIN_BYTES * (max / MIN_BYTES) ** random())

const compress = (bytes: Uint8Array, quality = 1): Buffer =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } })
const framed = (stream: Uint8Array): Buffer => Buffer.concat([Buffer.of(0x1e), stream])
const repeated = (unit: string, bytes: number): string =>
  unit.repeat(Math.max(1, Math.floor(bytes / unit.length)))

function noise(random: Random, bytes: number): Buffer {
  const words = new Uint32Array(Math.ceil(bytes / 4))
  for (let at = 0; at < words.length; at++) words[at] = random() * 2 ** 32
  return Buffer.from(words.buffer, 0, bytes)
}

/** Makes a flashblock of half the size, because hex has two digits for a byte. */
function honest(random: Random, max = MAX_BYTES): Buffer {
  const json = flashblockJson(flashblock(7, anySize(random, max) / 2.2))
  return Buffer.from(JSON.stringify({ ...json, payload_id: '0x0000000000000007' }))
}

/**
 * Makes one change. Bits are flipped, the end is cut off, a piece is repeated or replaced, or a
 * character is exchanged.
 */
function mutate(bytes: Buffer, random: Random): Buffer {
  const at = Math.floor(random() * bytes.length)
  const length = Math.floor(random() * Math.min(1_000, bytes.length - at))
  switch (Math.floor(random() * 5)) {
    case 0: {
      const changed = Buffer.from(bytes)
      for (let times = 1 + random() * 8; times > 0; times--)
        changed[Math.floor(random() * bytes.length)]! ^= 1 << Math.floor(random() * 8)
      return changed
    }
    case 1:
      return bytes.subarray(0, at)
    case 2:
      return Buffer.concat([bytes.subarray(0, at + length), bytes.subarray(at)])
    case 3:
      return Buffer.concat([bytes.subarray(0, at), noise(random, length), bytes.subarray(at)])
    default: {
      const characters = '{}[]",:0x\\n'
      const changed = Buffer.from(bytes)
      changed[at] = characters.charCodeAt(Math.floor(random() * characters.length))
      return changed
    }
  }
}

const keys = (bytes: number, name: (at: number) => string): string =>
  Array.from({ length: Math.floor(bytes / 16) }, (_, at) => `"${name(at)}":1`).join(',')

export const GARBAGE: readonly Garbage[] = [
  { name: 'noise', make: (random) => noise(random, anySize(random)) },
  { name: 'noise after the magic byte', make: (random) => framed(noise(random, anySize(random))) },
  { name: 'JSON mutated', make: (random) => mutate(honest(random), random) },
  { name: 'brotli mutated', make: (random) => mutate(framed(compress(honest(random))), random) },
  {
    name: 'mutated, then brotli',
    make: (random) => framed(compress(mutate(honest(random), random))),
  },
  ...[16, 31, 256].map((megabytes) => ({
    name: `brotli of ${megabytes} MB of zeros`,
    make: () => framed(compress(Buffer.alloc(megabytes << 20), 5)),
  })),
  { name: 'brotli of 31 MB of spaces', make: () => compress(Buffer.alloc(31 << 20, 0x20)) },
  {
    name: 'brotli of a large invalid flashblock',
    make: (random) =>
      framed(compress(Buffer.concat([honest(random, MAX_BYTES - 100), Buffer.from('x')]))),
  },
  { name: 'brotli of code tables', make: (random) => tableStream(anySize(random)) },
  ...(
    [
      ['open lists', (bytes) => repeated('[', bytes)],
      ['empty lists', (bytes) => `[${repeated('[],', bytes - 10)}[]]`],
      ['empty objects', (bytes) => `[${repeated('{},', bytes - 10)}{}]`],
      ['spaces', (bytes) => repeated(' \n', bytes)],
      ['a number', (bytes) => repeated('9', bytes)],
      ['escaped quotes', (bytes) => `"${repeated('\\"', bytes - 10)}"`],
      ['a string that is not closed', (bytes) => `"${repeated('x', bytes)}`],
      ['many keys', (bytes) => `{${keys(bytes, (at) => `k${at}`)}}`],
      ['keys that are numbers', (bytes) => `{${keys(bytes, (at) => String((at << 16) >>> 0))}}`],
    ] as const satisfies readonly (readonly [string, (bytes: number) => string])[]
  ).map(([name, text]) => ({
    name: `JSON: ${name}`,
    make: (random: Random) => Buffer.from(`{"a":${text(anySize(random, MAX_BYTES - 100))}}`),
  })),
]
