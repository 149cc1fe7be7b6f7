/**
 * Checks an upstream: its chain, its methods, the depth of its state and proofs, and its blocks
 * against the clock.
 */
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { type Depth, MIN_DEPTH, probeDepth } from '../../../engine/sources/lazy/depth.ts'
import { foreignChain } from '../../../engine/sources/upstream/check.ts'
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import { openUpstream } from '../../follower/upstreams.ts'
import { forkLines } from './forks.ts'
import { error, type Line, ok, warning } from './line.ts'

/** Number of sequential calls; their median counts. */
const PINGS = 5
const SLOW_MS = 500
/** Tolerated clock error of a machine that sets its clock by the network. */
const MAX_LEAD_SECONDS = 2
const LATE_BLOCKS = 5
const MIN_LATE_SECONDS = 15

type Head = { readonly number: number; readonly hash: `0x${string}`; readonly timestamp: number }
type Method = {
  readonly name: string
  readonly params: (head: Head) => readonly unknown[]
  readonly status: 'error' | 'warning'
  readonly why: string
}
const ANYBODY = `0x${'00'.repeat(20)}`
const SLOT = `0x${'00'.repeat(32)}`

/** Methods that a follower calls, and what is lost without them. */
const METHODS: readonly Method[] = [
  {
    name: 'eth_getBlockByHash',
    params: ({ hash }) => [hash, true],
    status: 'error',
    why: 'the node fetches blocks with this method',
  },
  {
    name: 'eth_getBlockReceipts',
    params: ({ hash }) => [hash],
    status: 'warning',
    why: 'without it, the node requests receipts of the first blocks and of older ones one by one',
  },
  {
    name: 'eth_getCode',
    params: ({ hash }) => [ANYBODY, { blockHash: hash }],
    status: 'error',
    why: 'lazy state needs code',
  },
  {
    name: 'eth_getStorageAt',
    params: ({ hash }) => [ANYBODY, SLOT, { blockHash: hash }],
    status: 'error',
    why: 'lazy state needs slots',
  },
  {
    name: 'eth_getTransactionCount',
    params: ({ hash }) => [ANYBODY, { blockHash: hash }],
    status: 'error',
    why: 'lazy state needs nonces',
  },
  {
    name: 'debug_traceBlockByHash',
    params: ({ hash }) => [hash, { tracer: 'prestateTracer' }],
    status: 'warning',
    why: 'without it, the node needs many requests to find the state that a block touches',
  },
]

/** @param chain undefined accepts every chain */
export async function upstreamLines(
  url: string,
  chain: ChainSpec | undefined,
  nowMs: () => number,
): Promise<readonly Line[]> {
  const upstream = openUpstream(url, DEFAULT_UPSTREAM_LIMITS)
  const about = upstream.name
  try {
    const foreign = chain && (await foreignChain(upstream, chain))
    if (foreign !== undefined) return [error(about, 'has another chain', foreign)]
    const head = await headOf(upstream)
    return [
      await responseLine(upstream),
      clockLine(about, head, { nowSeconds: nowMs() / 1_000, chain }),
      ...(await tagLines(upstream)),
      ...(await methodLines(upstream, head)),
      ...(await configLines(upstream, head, chain)),
      ...depthLines(about, await probeDepth(upstream, { ...head, first: firstOf(chain) })),
    ]
  } catch (fault) {
    if (!(fault instanceof UpstreamError)) throw fault
    return [error(about, fault.message, adviceOf(fault))]
  } finally {
    upstream.close()
  }
}

const firstOf = (chain: ChainSpec | undefined): number => Number(chain?.genesisNumber ?? 0n)

const adviceOf = ({ kind }: UpstreamError): string =>
  kind === 'limited'
    ? 'it limits requests: use an API key with a higher limit, or give a lower --upstream-rate'
    : kind === 'wrong'
      ? 'it has another chain, is still starting, or lacks this data: give another --upstream, or another --chain'
      : 'check that node and the network to it, or give another --upstream'

async function headOf(upstream: Upstream): Promise<Head> {
  const block = await upstream.call('eth_getBlockByNumber', ['latest', false])
  const { number, hash, timestamp } = (block ?? {}) as Readonly<Record<string, unknown>>
  if (typeof number !== 'string' || typeof hash !== 'string' || typeof timestamp !== 'string')
    throw new UpstreamError('wrong', `${upstream.name} has no latest block`)
  return { number: Number(number), hash: hash as Head['hash'], timestamp: Number(timestamp) }
}

async function responseLine(upstream: Upstream): Promise<Line> {
  const times: number[] = []
  for (let at = 0; at < PINGS; at++) {
    const started = performance.now()
    await upstream.call('eth_blockNumber', [])
    times.push(performance.now() - started)
  }
  const middle = times.toSorted((a, b) => a - b)[PINGS >> 1]!
  const says = `answers in ${Math.round(middle)} ms`
  return middle < SLOW_MS
    ? ok(upstream.name, says)
    : warning(
        upstream.name,
        says,
        'give a nearer --upstream: calls wait for the state that it sends',
      )
}

/**
 * Checks both directions: a slow clock refuses future blocks, and an old head means that the
 * upstream stands still.
 */
function clockLine(
  name: string,
  { number, timestamp }: Head,
  { nowSeconds, chain }: { readonly nowSeconds: number; readonly chain: ChainSpec | undefined },
): Line {
  const about = `${name} clock`
  const age = nowSeconds - timestamp
  const late = Math.max(MIN_LATE_SECONDS, LATE_BLOCKS * (chain?.blockTime ?? 1))
  const says = `block ${number} is ${Math.round(Math.abs(age))} s ${age < 0 ? 'ahead of' : 'behind'} this machine's clock`
  if (age < -MAX_LEAD_SECONDS)
    return error(about, says, 'set the clock of this machine (chrony, systemd-timesyncd)')
  if (age > late)
    return error(
      about,
      says,
      'its head does not advance, or the clock of this machine is ahead: check both',
    )
  return ok(about, says)
}

async function tagLines(upstream: Upstream): Promise<readonly Line[]> {
  const tags = ['safe', 'finalized']
  const responses = await upstream.batch(
    tags.map((tag) => ({ method: 'eth_getBlockByNumber', params: [tag, false] })),
  )
  const missing = tags.filter((_, at) => {
    const response = responses[at]
    return response === undefined || 'error' in response || response.result === null
  })
  if (missing.length === 0) return [ok(`${upstream.name} tags`, 'safe and finalized')]
  return [
    warning(
      `${upstream.name} tags`,
      `does not know the tags ${missing.join(' and ')}`,
      'give an --upstream with both tags: without them, those of this node do not advance',
    ),
  ]
}

async function methodLines(upstream: Upstream, head: Head): Promise<readonly Line[]> {
  const calls = METHODS.map(({ name, params }) => ({ method: name, params: params(head) }))
  const responses = await upstream.batch(calls)
  const lines = METHODS.flatMap(({ name, status, why }, at): readonly Line[] => {
    const response = responses[at]!
    if ('result' in response && response.result !== null) return []
    const says = `${name}: ${'error' in response ? response.error.message : 'returns null'}`
    const advice = `${why}: ${status === 'error' ? 'give another --upstream' : 'give one that has this method if you can'}`
    return [{ about: `${upstream.name} methods`, status, says, advice }]
  })
  if (lines.length > 0) return lines
  return [ok(`${upstream.name} methods`, 'all that the node calls')]
}

/** Returns no line if the upstream lacks eth_config, because only this check needs it. */
async function configLines(
  upstream: Upstream,
  { timestamp: headSeconds }: Head,
  chain: ChainSpec | undefined,
): Promise<readonly Line[]> {
  if (chain === undefined) return []
  const [response] = await upstream.batch([{ method: 'eth_config', params: [] }])
  if (response === undefined || 'error' in response) return []
  return forkLines(upstream.name, response.result, { chain, headSeconds })
}

function depthLines(name: string, { state, proofs, takesHash }: Depth): readonly Line[] {
  const lines: Line[] = []
  const need = `lazy state needs ${MIN_DEPTH} blocks: give an --upstream that retains more`
  lines.push(
    (state ?? -1) >= MIN_DEPTH
      ? ok(`${name} state`, `${state} blocks back`)
      : error(`${name} state`, state === undefined ? 'none' : `${state} blocks back`, need),
  )
  lines.push(
    (proofs ?? -1) >= MIN_DEPTH
      ? ok(`${name} proofs`, `${proofs} blocks back`)
      : warning(
          `${name} proofs`,
          proofs === undefined ? 'none' : `${proofs} blocks back`,
          'give one that has proofs (reth: --rpc.eth-proof-window), or --trust-upstream; then fetched state is not verified',
        ),
  )
  if (!takesHash)
    lines.push(
      warning(
        `${name} state`,
        'cannot read state by block hash (EIP-1898)',
        'the node then misses a reorg between two reads: give an --upstream that can',
      ),
    )
  return lines
}
