/** An upstream: its chain, the methods that a follower asks, how far back it has state and proofs, and the clock against its blocks. */
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { type Depth, LEAST_DEPTH, probeDepth } from '../../../engine/sources/lazy/depth.ts'
import { foreignChain } from '../../../engine/sources/upstream/check.ts'
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import { openUpstream } from '../../follower/upstreams.ts'
import { forkLines } from './forks.ts'
import { error, type Line, ok, warning } from './line.ts'

/** Calls after one another, of which the middle one counts. */
const PINGS = 5
const SLOW_MS = 500
/** Of a machine that is set by the network. */
const AHEAD_SECONDS = 2
/** Block times without a new block. */
const LATE_BLOCKS = 5
const LEAST_LATE_SECONDS = 15

type Head = { readonly number: number; readonly hash: `0x${string}`; readonly timestamp: number }
type Method = {
  readonly name: string
  readonly params: (head: Head) => readonly unknown[]
  readonly status: 'error' | 'warning'
  readonly why: string
}
const ANYBODY = `0x${'00'.repeat(20)}`
const SLOT = `0x${'00'.repeat(32)}`

/** What following asks, and what is lost without it. */
const METHODS: readonly Method[] = [
  {
    name: 'eth_getBlockByHash',
    params: ({ hash }) => [hash, true],
    status: 'error',
    why: 'blocks are fetched by it',
  },
  {
    name: 'eth_getBlockReceipts',
    params: ({ hash }) => [hash],
    status: 'warning',
    why: 'receipts of the first blocks, and of older ones, are asked for one by one',
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
    why: 'one request says what a block touches; without it there are many',
  },
]

/** @param chain undefined: whatever it has */
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
      await answerLine(upstream),
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
    ? 'it wants fewer requests: ask for a key with a higher bound, or give a lower --upstream-rate'
    : kind === 'wrong'
      ? 'it is of another chain, starts, or keeps less: give another --upstream, or another --chain'
      : 'look at that node and the way to it, or give another --upstream'

/** @throws {UpstreamError} */
async function headOf(upstream: Upstream): Promise<Head> {
  const block = await upstream.call('eth_getBlockByNumber', ['latest', false])
  const { number, hash, timestamp } = (block ?? {}) as Readonly<Record<string, unknown>>
  if (typeof number !== 'string' || typeof hash !== 'string' || typeof timestamp !== 'string')
    throw new UpstreamError('wrong', `${upstream.name} has no latest block`)
  return { number: Number(number), hash: hash as Head['hash'], timestamp: Number(timestamp) }
}

async function answerLine(upstream: Upstream): Promise<Line> {
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
        'give an --upstream that is nearer: state that is fetched waits for it',
      )
}

/** A clock that is behind refuses blocks of the future; a head that is old is one of a node that stands still. */
function clockLine(
  name: string,
  { number, timestamp }: Head,
  { nowSeconds, chain }: { readonly nowSeconds: number; readonly chain: ChainSpec | undefined },
): Line {
  const about = `${name} clock`
  const age = nowSeconds - timestamp
  const late = Math.max(LEAST_LATE_SECONDS, LATE_BLOCKS * (chain?.blockTime ?? 1))
  const says = `block ${number} is ${Math.round(Math.abs(age))} s ${age < 0 ? 'ahead of' : 'behind'} this machine's clock`
  if (age < -AHEAD_SECONDS)
    return error(about, says, 'set the clock of this machine (chrony, systemd-timesyncd)')
  if (age > late)
    return error(
      about,
      says,
      'its head stands still, or the clock of this machine is ahead: look at both',
    )
  return ok(about, says)
}

async function tagLines(upstream: Upstream): Promise<readonly Line[]> {
  const tags = ['safe', 'finalized']
  const answers = await upstream.batch(
    tags.map((tag) => ({ method: 'eth_getBlockByNumber', params: [tag, false] })),
  )
  const missing = tags.filter((_, at) => {
    const answer = answers[at]
    return answer === undefined || 'error' in answer || answer.result === null
  })
  if (missing.length === 0) return [ok(`${upstream.name} tags`, 'safe and finalized')]
  return [
    warning(
      `${upstream.name} tags`,
      `does not say which block is ${missing.join(' and ')}`,
      'give an --upstream with both: the tags of this node stand still without them',
    ),
  ]
}

async function methodLines(upstream: Upstream, head: Head): Promise<readonly Line[]> {
  const calls = METHODS.map(({ name, params }) => ({ method: name, params: params(head) }))
  const answers = await upstream.batch(calls)
  const lines = METHODS.flatMap(({ name, status, why }, at): readonly Line[] => {
    const answer = answers[at]!
    if ('result' in answer && answer.result !== null) return []
    const says = `${name}: ${'error' in answer ? answer.error.message : 'gives nothing'}`
    const advice = `${why}: ${status === 'error' ? 'give another --upstream' : 'give one that has it where you can'}`
    return [{ about: `${upstream.name} methods`, status, says, advice }]
  })
  if (lines.length > 0) return lines
  return [ok(`${upstream.name} methods`, 'all that are asked')]
}

/** None where the upstream lacks eth_config, which nothing else asks for. */
async function configLines(
  upstream: Upstream,
  { timestamp: headSeconds }: Head,
  chain: ChainSpec | undefined,
): Promise<readonly Line[]> {
  if (chain === undefined) return []
  const [answer] = await upstream.batch([{ method: 'eth_config', params: [] }])
  if (answer === undefined || 'error' in answer) return []
  return forkLines(upstream.name, answer.result, { chain, headSeconds })
}

function depthLines(name: string, { state, proofs, takesHash }: Depth): readonly Line[] {
  const lines: Line[] = []
  const need = `a lazy state needs ${LEAST_DEPTH}: give an --upstream that keeps more`
  lines.push(
    (state ?? -1) >= LEAST_DEPTH
      ? ok(`${name} state`, `${state} blocks back`)
      : error(`${name} state`, state === undefined ? 'none' : `${state} blocks back`, need),
  )
  lines.push(
    (proofs ?? -1) >= LEAST_DEPTH
      ? ok(`${name} proofs`, `${proofs} blocks back`)
      : warning(
          `${name} proofs`,
          proofs === undefined ? 'none' : `${proofs} blocks back`,
          'give one that has them (reth: --rpc.eth-proof-window), or --trust-upstream: what is fetched is as right as the upstream then',
        ),
  )
  if (!takesHash)
    lines.push(
      warning(
        `${name} state`,
        'takes no block by its hash (EIP-1898)',
        'a reorg between two reads is not seen: give an --upstream that does',
      ),
    )
  return lines
}
