/** Options of every command that runs a node for clients. */
import { availableParallelism } from 'node:os'
import { LEDGER_LIMITS } from '../../engine/storage/ledger-types.ts'
import { HELD_BLOCKS, MOST_HELD_BLOCKS } from '../../engine/views/memory.ts'
import { addressRates } from '../../rpc/limiter/address-rates.ts'
import { isLoopback, trustedProxies } from '../../rpc/seam/address.ts'
import type { Limits } from '../../rpc/seam/limits.ts'
import { readApiKeys } from './api-keys-file.ts'
import type { ConfigOf, Given } from './command.ts'
import {
  choice,
  flag,
  integer,
  list,
  option,
  optional,
  orWord,
  share,
  text,
  url,
} from './option.ts'
import {
  CHAIN,
  DATADIR,
  DB_CACHE_MB,
  directoryOf,
  LIMIT_FLAGS,
  limitsOf,
  WORKING,
} from './options.ts'
import { tokenProblems } from './token-file.ts'

/** Each is a byte in the ids of its filters, and a thread of 128 MB. */
const MOST_FRONTS = 64
const frontsFor = (cores: number): number =>
  cores <= 4 ? 1 : Math.min(MOST_FRONTS, Math.floor(cores / 4))

/** A block of X Layer has five. */
const MOST_BEHIND = 8
/** Of nodes that have a feed. */
export const BEHIND = option('N', integer(0, MOST_BEHIND), {
  fallback: 0,
  text: 'clients are shown a flashblock when N later ones are known, here or to a replica, or N cadences later',
})
/** What a role says of it. */
export const behindOf = (flashblocks: number, cadenceMs: number) =>
  flashblocks === 0 ? undefined : { flashblocks, ms: flashblocks * cadenceMs }

export const SERVING = {
  chain: CHAIN,
  datadir: DATADIR,
  ephemeral: flag('a temporary data directory, removed on exit'),
  host: option('ADDRESS', text, { fallback: '127.0.0.1', text: 'address to listen on' }),
  port: option('PORT', integer(0, 65_535), {
    fallback: 8_545,
    text: 'HTTP and WebSocket; 0 takes a free one',
  }),
  http: option('llhttp|node', choice('llhttp', 'node'), {
    fallback: 'llhttp',
    text: 'what reads plain requests: llhttp on their sockets, or the server of Node as all others',
  }),
  adminPort: option('PORT', optional(integer(0, 65_535)), {
    fallback: undefined,
    text: 'metrics and details on loopback; 0 is off',
  }),
  rateLimit: option('N|off', orWord('off', integer(1, 1_000_000)), {
    fallback: 100,
    text: 'requests per second of one address',
  }),
  rateLimitOf: option('CIDR=N|off,…', list(addressRate), {
    fallback: [],
    text: 'another rate for each address in a range; off: no limit, an allow list',
  }),
  apiKeys: option('FILE', optional(text), {
    fallback: undefined,
    text: 'keys of callers that are counted by name (JSON), read again at SIGHUP',
  }),
  enrichTokenFile: option('FILE', optional(text), {
    fallback: undefined,
    text: 'the token that readers of /feed?enrich=1 need; without it they are those of private addresses',
  }),
  bootstrapTokenFile: option('FILE', optional(text), {
    fallback: undefined,
    text: 'the token by which a new replica copies the state of this node (flashnode bootstrap); without it nobody does',
  }),
  limitStore: option('memory|redis://…', orWord('memory', url('rediss', 'redis')), {
    fallback: 'memory',
    text: 'where the points are counted; Redis for several nodes that share one limit',
  }),
  limitBy: option('request|cost', choice('request', 'cost'), {
    fallback: 'request',
    text: 'what the rate counts: requests, or what each method costs (rpc_limits)',
  }),
  trustProxy: option('CIDR,…', list(range), {
    fallback: [],
    text: 'whose X-Forwarded-For is believed',
  }),
  proxyProtocol: option('CIDR,…', list(range), {
    fallback: [],
    text: 'who names the client of each connection by the PROXY protocol, version 2, and has to',
  }),
  agentPort: option('PORT', integer(0, 65_535), {
    fallback: 0,
    text: "this node's weight for HAProxy's agent-check; 0 is off",
  }),
  agentHost: option('ADDRESS', text, {
    fallback: '127.0.0.1',
    text: 'address that --agent-port listens on',
  }),
  drainMs: option('MS', integer(0, 600_000), {
    fallback: 0,
    text: 'requests are answered for so long after SIGTERM, while /readyz and the agent say that it goes',
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
  page: option('on|off', choice('on', 'off'), {
    fallback: 'on',
    text: 'the status page in a browser at / of both ports',
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
  poolThreads: option('N', integer(2, 64), {
    fallback: Math.min(64, Math.max(2, availableParallelism() - 1)),
    text: 'threads that run calls',
    shown: 'cores − 1, at least 2',
  }),
  frontThreads: option('N', integer(1, MOST_FRONTS), {
    fallback: frontsFor(availableParallelism()),
    text: 'threads that listen for clients, each with its share of --pool-threads',
    shown: '1 up to 4 cores, then a quarter of them',
  }),
  viewMemory: option('MB', optional(integer(1, 65_536)), {
    fallback: undefined,
    text: 'shared memory of the views',
    shown: 'computed',
  }),
  heldFlashblocks: option('BLOCKS', integer(HELD_BLOCKS, MOST_HELD_BLOCKS), {
    fallback: HELD_BLOCKS,
    text: 'newest canonical blocks whose flashblocks can be named; more take more of --view-memory',
  }),
  latest: option('complete|canonical', choice('complete', 'canonical'), {
    fallback: 'complete',
    text: 'what latest is on /flashblocks: the newest block all of whose flashblocks are here, or the canonical head',
  }),
  stateCache: option('MB', integer(1, 2_000), {
    fallback: 48,
    text: 'shared memory of values of the state that were read last, 160 bytes each, rounded down to a power of two of them',
  }),
  ledgerHours: option('HOURS', integer(1, 366 * 24), {
    fallback: LEDGER_LIMITS.keepMs / 3_600_000,
    text: 'how long it is kept what flashblocks promised, and what became of it',
  }),
  ledgerSize: option('MB', integer(1, 65_536), {
    fallback: LEDGER_LIMITS.bytes / 2 ** 20,
    text: 'of that at most, about; the oldest goes',
  }),
  verifySample: option('SHARE', share, {
    fallback: 0.001,
    text: 'of the calls, run again on the other engine after the answer; 0 is off',
  }),
  slowCallMs: option('MS', integer(0, 3_600_000), {
    fallback: 0,
    text: 'calls that take so long are logged; 0 is off',
  }),
  slowCallParams: flag('with the beginning of their parameters, which say what a client does'),
  ...WORKING,
  ...LIMIT_FLAGS,
}

export type NodeDefaults = {
  /** 0: off. */
  readonly adminPort: number
  /** Megabytes. */
  readonly dbCache: number
  /** undefined: ephemeral. */
  readonly datadir: string | undefined
  readonly limits: Limits
}
/** What every node runs with, whatever its command. */
export type NodeConfig = ConfigOf<typeof SERVING, NodeDefaults>

/** Of `command`, on this chain. */
export function servingDefaults(
  given: Given<typeof SERVING>,
  { command, chain }: { readonly command: string; readonly chain: string | undefined },
): NodeDefaults {
  const { ephemeral, datadir = directoryOf(command, chain ?? 'xlayer') } = given
  return {
    adminPort: given.adminPort ?? 0,
    dbCache: given.dbCache ?? DB_CACHE_MB,
    datadir: ephemeral ? undefined : datadir,
    limits: limitsOf(given),
  }
}

/** What is wrong between the flags of a node. */
export function servingProblems(
  config: NodeConfig,
  isFlag: (key: string) => boolean,
): readonly string[] {
  const found: string[] = []
  if (isFlag('ephemeral') && isFlag('datadir'))
    found.push('--ephemeral and --datadir exclude each other: leave one out')
  if (config.adminPort !== 0 && config.adminPort === config.port)
    found.push('--admin-port and --port are the same: give another --admin-port, or 0 for none')
  if (config.agentPort !== 0 && [config.port, config.adminPort].includes(config.agentPort))
    found.push('--agent-port is the --port or the --admin-port: give another, or 0 for none')
  if (config.apiKeys !== undefined) found.push(...readApiKeys(config.apiKeys).problems)
  for (const file of [config.enrichTokenFile, config.bootstrapTokenFile])
    found.push(...tokenProblems(file))
  if (config.unlock.length === 0) return found
  if (config.keystore === undefined || config.passwordFile === undefined)
    found.push('--unlock needs --keystore DIR and --password-file FILE')
  if (isOpenToAll(config))
    found.push(
      `--unlock on the public --host ${config.host} lets anybody spend: --allow-insecure-unlock if that is meant`,
    )
  return found
}

/** Everybody could spend from unlocked accounts, and nobody has said that this is meant. */
export const isOpenToAll = ({ host, allowInsecureUnlock }: NodeConfig): boolean =>
  !isLoopbackHost(host) && !allowInsecureUnlock

/** Nobody from another machine gets there. */
export const isLoopbackHost = (host: string): boolean => isLoopback(host) || host === 'localhost'

function range(wire: string): string {
  trustedProxies([wire])
  return wire
}

function addressRate(wire: string): string {
  addressRates([wire])
  return wire
}

function address(wire: string): string {
  if (!/^0x[0-9a-fA-F]{40}$/.test(wire))
    throw new Error('expected addresses of 0x and 40 hex digits')
  return wire.toLowerCase()
}
