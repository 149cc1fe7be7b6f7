/** Every option once: its value, its default, which commands have it. Flags, environment, file keys and help come from here. */
import { availableParallelism } from 'node:os'
import { WIRE_FORMS } from '../engine/flashblocks/codec.ts'
import { trustedProxies } from '../rpc/address.ts'
import { LIMITS, type Limits } from '../rpc/limits.ts'
import { nearest } from './nearest.ts'

export type CommandName = 'dev' | 'serve' | 'import' | 'import-state' | 'migrate'
export type Option<T> = {
  /** @throws {Error} saying what was expected. */
  readonly decode: (text: string) => T
  readonly fallback: T
  /** How the default is shown in the help where it is computed or differs between commands. */
  readonly shown?: string
  /** Placeholder of the value; undefined: a switch. */
  readonly value: string | undefined
  readonly text: string
  readonly commands: readonly CommandName[]
}

const SERVING: readonly CommandName[] = ['dev', 'serve']
const SERVE: readonly CommandName[] = ['serve']
const ALL: readonly CommandName[] = ['dev', 'serve', 'import', 'import-state']
const IMPORT: readonly CommandName[] = ['import']
const IMPORT_STATE: readonly CommandName[] = ['import-state']
const DEV: readonly CommandName[] = ['dev']
const EVERY: readonly CommandName[] = [...ALL, 'migrate']
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const DAY_MS = 86_400_000
const UINT32 = 0xffff_ffff

export const OPTIONS = {
  chain: option('NAME|FILE', optional(text), {
    fallback: undefined,
    text: 'chain by name, or a genesis.json',
    shown:
      'dev, import-state: xlayer; serve: the one of the data directory; import: a file of blocks (RLP)',
    commands: ALL,
  }),
  genesis: option('FILE', optional(text), {
    fallback: undefined,
    text: 'genesis.json of the blocks',
    commands: IMPORT,
  }),
  head: option('HASH', optional(blockHash), {
    fallback: undefined,
    text: 'last block to import',
    shown: 'the last one of the file',
    commands: IMPORT,
  }),
  state: option('FILE', optional(text), {
    fallback: undefined,
    text: 'account dump: JSON lines, may end on .gz',
    commands: IMPORT_STATE,
  }),
  block: option('FILE', optional(text), {
    fallback: undefined,
    text: 'header of the block whose state it is, as eth_getBlockByNumber answers it',
    commands: IMPORT_STATE,
  }),
  datadir: option('DIR', optional(text), {
    fallback: undefined,
    text: 'data directory',
    shown: '.flashnode/COMMAND-CHAIN',
    commands: EVERY,
  }),
  ephemeral: flag('a temporary data directory, removed on exit'),
  host: option('ADDRESS', text, { fallback: '127.0.0.1', text: 'address to listen on' }),
  port: option('PORT', integer(0, 65_535), {
    fallback: 8_545,
    text: 'HTTP and WebSocket; 0 takes a free one',
  }),
  adminPort: option('PORT', optional(integer(0, 65_535)), {
    fallback: undefined,
    text: 'metrics and details on loopback; 0 is off',
    shown: 'dev: 8546; serve: off',
  }),
  rateLimit: option('N|off', orWord('off', integer(1, 1_000_000)), {
    fallback: 100,
    text: 'requests per second of one address',
  }),
  trustProxy: option('CIDR,…', list(range), {
    fallback: [],
    text: 'whose X-Forwarded-For is believed',
  }),
  cors: option('ORIGIN,…', list(text), { fallback: ['*'], text: 'origins of browsers, * for all' }),
  hosts: option('NAME,…', list(text), {
    fallback: [],
    text: 'further Host values, * for all',
    shown: 'loopback names and addresses',
  }),
  methods: option('all|standard', choice('all', 'standard'), {
    fallback: 'all',
    text: 'which methods are served',
  }),
  traceModeOptional: flag('debug_traceBlockByNumber without a tracer gives the struct logger'),
  receiptHold: option('MS', integer(0, 10_000), {
    fallback: 300,
    text: 'longest hold of a receipt; 0 is off',
  }),
  unlock: option('ADDRESS,…', list(address), { fallback: [], text: 'accounts to sign with' }),
  keystore: option('DIR', optional(text), {
    fallback: undefined,
    text: 'key files of the unlocked accounts',
  }),
  passwordFile: option('FILE', optional(text), {
    fallback: undefined,
    text: 'password of the key files',
  }),
  allowInsecureUnlock: flag('unlocked accounts although --host is public'),
  historyBlocks: option('N|all', orWord('all', integer(256, 1_000_000_000)), {
    fallback: 'all',
    text: 'blocks whose state is kept',
    commands: ALL,
  }),
  poolThreads: option('N', integer(2, 64), {
    fallback: Math.min(64, Math.max(2, availableParallelism() - 1)),
    text: 'threads that run calls',
    shown: 'cores − 1, at least 2',
  }),
  viewMemory: option('MB', optional(integer(1, 65_536)), {
    fallback: undefined,
    text: 'shared memory of the views',
    shown: 'computed',
  }),
  dbCache: option('MB', optional(integer(16, 65_536)), {
    fallback: undefined,
    text: 'block caches of the database; a quarter of it again for trie nodes',
    shown: 'dev: 64; else 512',
    commands: ALL,
  }),
  engine: option('NAME', choice('reference'), {
    fallback: 'reference',
    text: 'which EVM runs',
    commands: ALL,
  }),
  config: option('FILE', optional(text), {
    fallback: undefined,
    text: 'configuration file (JSON)',
    commands: EVERY,
  }),
  logLevel: option('LEVEL', choice(...LOG_LEVELS), {
    fallback: 'info',
    text: LOG_LEVELS.join(', '),
    commands: ALL,
  }),
  logFormat: option('pretty|json', optional(choice('pretty', 'json')), {
    fallback: undefined,
    text: 'form of the log on standard error',
    shown: 'pretty on a terminal, else json',
    commands: ALL,
  }),
  legacyRpc: option('URL', optional(httpUrl), {
    fallback: undefined,
    text: 'node of the chain before this one: answers for blocks below the first',
    commands: SERVE,
  }),
  blockTimeMs: option('MS', wholeSeconds, {
    fallback: 1_000,
    text: 'time between blocks, in whole seconds',
    commands: DEV,
  }),
  flashblockTimeMs: option('MS', integer(20, DAY_MS), {
    fallback: 200,
    text: 'time between flashblocks',
    commands: DEV,
  }),
  feedForm: option('xlayer|plain', choice(...WIRE_FORMS), {
    fallback: 'xlayer',
    text: 'messages of /feed: 0x1E and brotli, or JSON text',
    commands: DEV,
  }),
  chainId: option('N', optional(integer(1, Number.MAX_SAFE_INTEGER)), {
    fallback: undefined,
    text: 'instead of the id of --chain',
    commands: DEV,
  }),
  gasLimit: option('GAS', optional(integer(5_000_000, 1_000_000_000)), {
    fallback: undefined,
    text: 'gas of a block, chosen when the chain is made',
    shown: '50000000',
    commands: DEV,
  }),
  genesisAlloc: option('FILE', optional(text), {
    fallback: undefined,
    text: 'further accounts of the genesis (JSON)',
    commands: DEV,
  }),
  l1BaseFee: option('WEI', integer(0, Number.MAX_SAFE_INTEGER), {
    fallback: 1_000_000_000,
    text: 'base fee of the made-up L1',
    commands: DEV,
  }),
  l1BlobBaseFee: option('WEI', integer(0, Number.MAX_SAFE_INTEGER), {
    fallback: 1,
    text: 'blob base fee of the made-up L1',
    commands: DEV,
  }),
  // Both as X Layer's system configuration had them at its first block.
  l1BaseFeeScalar: option('N', integer(0, UINT32), {
    fallback: 1_368,
    text: 'part of the L1 base fee in the L1 fee, in millionths',
    commands: DEV,
  }),
  l1BlobBaseFeeScalar: option('N', integer(0, UINT32), {
    fallback: 801_949,
    text: 'part of the blob base fee in the L1 fee, in millionths',
    commands: DEV,
  }),
  operatorFeeScalar: option('N', integer(0, UINT32), {
    fallback: 0,
    text: 'operator fee, in hundreds of wei per gas',
    commands: DEV,
  }),
  operatorFeeConstant: option('WEI', integer(0, Number.MAX_SAFE_INTEGER), {
    fallback: 0,
    text: 'operator fee per transaction',
    commands: DEV,
  }),
  daFootprintScalar: option('GAS', integer(0, 65_535), {
    fallback: 400,
    text: 'block gas that an estimated byte of a transaction on L1 takes',
    commands: DEV,
  }),
}

export type Options = {
  readonly [K in keyof typeof OPTIONS]: (typeof OPTIONS)[K] extends Option<infer T> ? T : never
}

/** `--limit-<name>` of each entry of rpc/limits.ts. */
export const LIMIT_OPTIONS: ReadonlyMap<keyof Limits, Option<number>> = new Map(
  Object.entries(LIMITS).map(([name, { value, unit, text: what }]) => [
    name as keyof Limits,
    option(
      unit.toUpperCase(),
      integer(unit === 'items' || unit === 'blocks' ? 0 : 1, Number.MAX_SAFE_INTEGER),
      { fallback: value, text: what },
    ),
  ]),
)

/** `receiptHold` → `receipt-hold`: the flag without dashes, and the key of the file. */
export const kebab = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
export const environmentName = (key: string): string =>
  `FLASHNODE_${key.toUpperCase().replaceAll('-', '_')}`

/** All options by their kebab name, in the order of the help. */
export const OPTIONS_BY_KEY: ReadonlyMap<string, Option<unknown>> = new Map<
  string,
  Option<unknown>
>([
  ...Object.entries(OPTIONS).map(([name, value]) => [kebab(name), value] as const),
  ...[...LIMIT_OPTIONS].map(([name, value]) => [`limit-${kebab(name)}`, value] as const),
])

type Details<T> = {
  readonly fallback: NoInfer<T>
  readonly text: string
  readonly shown?: string
  readonly commands?: readonly CommandName[]
}

function option<T>(value: string, decode: (text: string) => T, details: Details<T>): Option<T> {
  return { commands: SERVING, ...details, decode, value }
}

/** An option that may be left out altogether. */
function optional<T>(decode: (text: string) => T): (text: string) => T | undefined {
  return decode
}

function flag(what: string): Option<boolean> {
  const decode = choice('true', 'false', '1', '0')
  return {
    decode: (wire) => ['true', '1'].includes(decode(wire)),
    fallback: false,
    value: undefined,
    text: what,
    commands: SERVING,
  }
}

function text(wire: string): string {
  if (wire.trim() === '') throw new Error('expected a text that is not empty')
  return wire
}

function integer(min: number, max: number): (wire: string) => number {
  return (wire) => {
    const number = Number(wire)
    if (/^\d{1,16}$/.test(wire) && number >= min && number <= max) return number
    throw new Error(`expected an integer from ${min} to ${max}`)
  }
}

function wholeSeconds(wire: string): number {
  const ms = integer(1_000, DAY_MS)(wire)
  if (ms % 1_000 !== 0)
    throw new Error('expected whole seconds, such as 2000: timestamps have no less')
  return ms
}

function orWord<W extends string>(
  word: W,
  decode: (wire: string) => number,
): (wire: string) => number | W {
  return (wire) => {
    if (wire === word) return word
    try {
      return decode(wire)
    } catch (error) {
      throw new Error(`${(error as Error).message}, or "${word}"`)
    }
  }
}

function choice<const T extends string>(...values: readonly T[]): (wire: string) => T {
  return (wire) => {
    const found = values.find((value) => value === wire)
    if (found !== undefined) return found
    throw new Error(`expected ${values.join(', ')}; nearest: ${nearest(wire, values)}`)
  }
}

function list<T>(item: (wire: string) => T): (wire: string) => readonly T[] {
  return (wire) => wire.split(',').map((part) => item(part.trim()))
}

function range(wire: string): string {
  trustedProxies([wire])
  return wire
}

function blockHash(wire: string): `0x${string}` {
  if (!/^0x[0-9a-fA-F]{64}$/.test(wire)) throw new Error('expected 0x and 64 hex digits')
  return wire.toLowerCase() as `0x${string}`
}

function httpUrl(wire: string): string {
  if (!URL.canParse(wire) || !/^https?:$/.test(new URL(wire).protocol))
    throw new Error('expected a URL such as https://host/path')
  return wire
}

function address(wire: string): string {
  if (!/^0x[0-9a-fA-F]{40}$/.test(wire))
    throw new Error('expected addresses of 0x and 40 hex digits')
  return wire.toLowerCase()
}
