/** Options of every command that runs a node for clients. */
import { availableParallelism } from 'node:os'
import { LEDGER_LIMITS } from '../../engine/storage/ledger-types.ts'
import { MAX_RETAINED_BLOCKS, RETAINED_BLOCKS } from '../../engine/views/memory.ts'
import type { Limits } from '../../rpc/core/limits.ts'
import { isLoopback, trustedProxies } from '../../rpc/limiter/address.ts'
import { addressRates } from '../../rpc/limiter/address-rates.ts'
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

/** A front thread's number is one byte in the ids of its filters, and each thread takes 128 MB. */
const MAX_FRONTS = 64
const frontsFor = (cores: number): number =>
  cores <= 4 ? 1 : Math.min(MAX_FRONTS, Math.floor(cores / 4))

/** A block of X Layer has five flashblocks. */
const MAX_FLASHBLOCK_LAG = 8
export const FLASHBLOCK_LAG = option('N', integer(0, MAX_FLASHBLOCK_LAG), {
  fallback: 0,
  text: 'clients see a flashblock only when this node or a replica has N later ones, or N flashblock intervals later',
})
/** Converts the flag to the lag in a role. */
export const flashblockLagOf = (flashblocks: number, cadenceMs: number) =>
  flashblocks === 0 ? undefined : { flashblocks, ms: flashblocks * cadenceMs }

export const SERVING = {
  chain: CHAIN,
  datadir: DATADIR,
  ephemeral: flag('use a temporary data directory, which is removed on exit'),
  host: option('ADDRESS', text, { fallback: '127.0.0.1', text: 'address to listen on' }),
  port: option('PORT', integer(0, 65_535), {
    fallback: 8_545,
    text: 'port for HTTP and WebSocket; 0 takes a free one',
  }),
  http: option('llhttp|node', choice('llhttp', 'node'), {
    fallback: 'llhttp',
    text: 'parser of plain HTTP requests: llhttp on the socket, or the HTTP server of Node, which reads all other requests',
  }),
  adminPort: option('PORT', optional(integer(0, 65_535)), {
    fallback: undefined,
    text: 'port on loopback for metrics and details; 0 turns it off',
  }),
  rateLimit: option('N|off', orWord('off', integer(1, 1_000_000)), {
    fallback: 100,
    text: 'requests or points (--limit-by) per second for each client address',
  }),
  rateLimitOf: option('CIDR=N|off,…', list(addressRate), {
    fallback: [],
    text: 'rates for the addresses in a range, instead of --rate-limit; off is no limit, as in an allow list',
  }),
  apiKeys: option('FILE', optional(text), {
    fallback: undefined,
    text: 'JSON file of API keys; each named caller has a rate limit of its own; SIGHUP reads the file again',
  }),
  enrichTokenFile: option('FILE', optional(text), {
    fallback: undefined,
    text: 'file with the token that readers of /feed?enrich=1 must send; without it, only private addresses may read',
  }),
  bootstrapTokenFile: option('FILE', optional(text), {
    fallback: undefined,
    text: 'file with the token that a new replica must send to copy this node (flashnode bootstrap); without it, no copies are allowed',
  }),
  limitStore: option('memory|redis://…', orWord('memory', url('rediss', 'redis')), {
    fallback: 'memory',
    text: 'where points are counted; with Redis, several nodes share one limit',
  }),
  limitBy: option('request|cost', choice('request', 'cost'), {
    fallback: 'request',
    text: 'what --rate-limit counts: requests, or points by method (rpc_limits lists them)',
  }),
  trustProxy: option('CIDR,…', list(range), {
    fallback: [],
    text: 'addresses of proxies whose X-Forwarded-For header is trusted',
  }),
  proxyProtocol: option('CIDR,…', list(range), {
    fallback: [],
    text: 'addresses of proxies that must name the client of each connection with the PROXY protocol, version 2',
  }),
  agentPort: option('PORT', integer(0, 65_535), {
    fallback: 0,
    text: "port that reports this node's weight to HAProxy's agent-check; 0 turns it off",
  }),
  agentHost: option('ADDRESS', text, {
    fallback: '127.0.0.1',
    text: 'address that --agent-port listens on',
  }),
  drainMs: option('MS', integer(0, 600_000), {
    fallback: 0,
    text: 'time after SIGTERM in which requests are still answered, while /readyz is 503 and the agent reports drain',
  }),
  cors: option('ORIGIN,…', list(text), {
    fallback: ['*'],
    text: 'allowed browser origins, * for all',
  }),
  hosts: option('NAME,…', list(text), {
    fallback: [],
    text: 'further allowed values of the Host header, * for all',
    defaultText: 'loopback names and addresses',
  }),
  methods: option('all|standard', choice('all', 'standard'), {
    fallback: 'all',
    text: 'methods that the node has: all, or only those of the X Layer service',
  }),
  page: option('on|off', choice('on', 'off'), {
    fallback: 'on',
    text: 'status page for browsers at / of both ports',
  }),
  traceModeOptional: flag('debug_traceBlockByNumber without a tracer uses the struct logger'),
  receiptHold: option('MS', integer(0, 10_000), {
    fallback: 300,
    text: 'longest wait for a receipt that is not here yet; 0 turns the wait off',
  }),
  unlock: option('ADDRESS,…', list(address), {
    fallback: [],
    text: 'accounts that the node signs for',
  }),
  keystore: option('DIR', optional(text), {
    fallback: undefined,
    text: 'directory with the key files of the unlocked accounts',
  }),
  passwordFile: option('FILE', optional(text), {
    fallback: undefined,
    text: 'file with the password of the key files',
  }),
  allowInsecureUnlock: flag('allow unlocked accounts although --host is public'),
  poolThreads: option('N', integer(2, 64), {
    fallback: Math.min(64, Math.max(2, availableParallelism() - 1)),
    text: 'threads that run calls',
    defaultText: 'cores − 1, at least 2',
  }),
  frontThreads: option('N', integer(1, MAX_FRONTS), {
    fallback: frontsFor(availableParallelism()),
    text: 'threads that listen for clients, each with its share of --pool-threads',
    defaultText: '1 up to 4 cores, then a quarter of them',
  }),
  viewMemory: option('MB', optional(integer(1, 65_536)), {
    fallback: undefined,
    text: 'shared memory for the changes of blocks that are not persisted yet',
    defaultText: 'computed from gas limit and block time',
  }),
  heldFlashblocks: option('BLOCKS', integer(RETAINED_BLOCKS, MAX_RETAINED_BLOCKS), {
    fallback: RETAINED_BLOCKS,
    text: 'newest canonical blocks whose single flashblocks can be read; more blocks need more --view-memory',
  }),
  latest: option('complete|canonical', choice('complete', 'canonical'), {
    fallback: 'complete',
    text: 'meaning of latest on /flashblocks: the newest block with all its flashblocks, or the canonical head',
  }),
  stateCache: option('MB', integer(1, 2_000), {
    fallback: 48,
    text: 'shared cache of recently read state values, 160 bytes each; their number is rounded down to a power of two',
  }),
  ledgerHours: option('HOURS', integer(1, 366 * 24), {
    fallback: LEDGER_LIMITS.retentionMs / 3_600_000,
    text: 'how long the ledger keeps promises of flashblocks and their outcomes',
  }),
  ledgerSize: option('MB', integer(1, 65_536), {
    fallback: LEDGER_LIMITS.bytes / 2 ** 20,
    text: 'size of the ledger in MB; the oldest entries are dropped',
  }),
  verifySample: option('SHARE', share, {
    fallback: 0.001,
    text: 'share of calls that run again on the other engine, which verifies the result; 0 turns it off',
  }),
  slowCallMs: option('MS', integer(0, 3_600_000), {
    fallback: 0,
    text: 'log calls that take this long or longer; 0 turns it off',
  }),
  slowCallParams: flag(
    'log the start of the parameters of slow calls; they reveal what a client does',
  ),
  ...WORKING,
  ...LIMIT_FLAGS,
}

export type NodeDefaults = {
  /** 0 turns the admin port off. */
  readonly adminPort: number
  /** Megabytes. */
  readonly dbCache: number
  /** undefined if the directory is ephemeral. */
  readonly datadir: string | undefined
  readonly limits: Limits
}
export type NodeConfig = ConfigOf<typeof SERVING, NodeDefaults>

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
    found.push(
      '--agent-port and --port or --admin-port are the same: give another --agent-port, or 0 for none',
    )
  if (config.apiKeys !== undefined) found.push(...readApiKeys(config.apiKeys).problems)
  for (const file of [config.enrichTokenFile, config.bootstrapTokenFile])
    found.push(...tokenProblems(file))
  if (config.unlock.length === 0) return found
  if (config.keystore === undefined || config.passwordFile === undefined)
    found.push('--unlock needs --keystore DIR and --password-file FILE')
  if (isOpenToAll(config))
    found.push(
      `--unlock on the public --host ${config.host} lets anybody spend: add --allow-insecure-unlock if you want this`,
    )
  return found
}

/** True if everybody could spend from unlocked accounts, and no flag allows this. */
export const isOpenToAll = ({ host, allowInsecureUnlock }: NodeConfig): boolean =>
  !isLoopbackHost(host) && !allowInsecureUnlock

/** True if other machines cannot reach this address. */
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
