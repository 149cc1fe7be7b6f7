/**
 * A follower is killed and restarted under load, and its receipts and transactions by hash are
 * checked. Each response is judged by the flashblock of its `X-Flashblock`: the transaction exists
 * from its own flashblock on, and not before.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Hex } from 'viem'
import { requestOne, sendRequest } from '../../kit/batch.ts'
import { freePort } from '../../kit/free-port.ts'
import { call, type RunningNode } from '../../kit/node.ts'
import { withoutHashes } from './compare.ts'
import { startFollower, temporary, until } from './nodes.ts'
import type { Around, Section } from './section.ts'
import { startProxy } from './wires.ts'

type JsonResponse = {
  readonly hash: Hex
  readonly method: string
  /** The form is `number:index:payload`. */
  readonly flashblockId: string
  /** undefined: the transaction does not exist, or is in no block. */
  readonly included: unknown
  readonly isBatch: boolean
}
/** Two responses to one request at one moment. */
type Pair = { readonly leader: JsonResponse; readonly follower: JsonResponse }
type Urls = { readonly leader: string; readonly follower: string }

const METHODS = ['eth_getTransactionReceipt', 'eth_getTransactionByHash'] as const
/** The number of follower responses before the first restart, and after each. */
const RESPONSES = 150
/** A round reads the newest transactions, which the follower may not know, and some older ones. */
const [NEWEST, OTHERS] = [2, 4]
/** The upstream's response about a transaction takes longer than a flashblock. */
const UPSTREAM_MS = 250
const ROUNDS_MS = 180_000

async function acrossRestarts(around: Around): Promise<void> {
  const { leader, random, check, isLogged } = around
  const upstream = await startProxy({
    target: `${leader.node.url}/`,
    delayMs: UPSTREAM_MS,
    delayed: METHODS,
  })
  const port = await freePort()
  const start = () =>
    startFollower(leader, {
      datadir,
      upstreams: [upstream.url],
      feeds: [`${leader.node.url.replace('http', 'ws')}/feed`],
      more: ['--state', 'lazy', '--upstream-rate', '2000', '--port', String(port)],
    })
  const datadir = temporary('receipts')
  const urls = { leader: leader.node.url, follower: `http://127.0.0.1:${port}` }
  const pairs: Pair[] = []
  /** The hashes in the order in which they were sent. */
  const hashes = new Set<Hex>()
  let node: RunningNode = await start()
  try {
    for (let restarts = 0; restarts <= around.restarts; restarts++) {
      const first = pairs.length
      const openRequest = until(
        async () => {
          for (const hash of leader.load.world.hashes) hashes.add(hash)
          pairs.push(...(await oneRound(urls, chosen([...hashes], random))))
          return pairs.length >= first + RESPONSES
        },
        ROUNDS_MS,
        10,
      )
      // Requests run during the start as well, because the follower responds before it has caught
      // up.
      const starting = restarts === 0 ? node : restarted(node, start)
      const [started, areEnough] = await Promise.all([starting, openRequest])
      node = started
      const count = pairs.length - first
      check(
        `receipts: the follower answers after ${restarts} restarts`,
        areEnough,
        `${count} of ${RESPONSES}`,
      )
    }
    await judge(pairs, urls.leader, check)
    check('receipts: the follower ends with 0', (await node.stop()) === 0)
  } catch (error) {
    console.log(node.output().slice(-3_000))
    throw error
  } finally {
    if (isLogged) console.log(node.output())
    await node.stop('SIGKILL')
    await upstream.stop()
  }
}

async function restarted(node: RunningNode, start: () => Promise<RunningNode>) {
  await node.stop('SIGKILL')
  return start()
}

const chosen = (hashes: readonly Hex[], random: () => number): readonly Hex[] => [
  ...hashes.slice(-NEWEST),
  ...Array.from({ length: OTHERS }, () => hashes[Math.floor(random() * hashes.length)]!),
]

/**
 * Reads each hash by single requests and in batches; gives nothing where the follower does not
 * listen.
 */
async function oneRound(urls: Urls, hashes: readonly Hex[]): Promise<readonly Pair[]> {
  const rounds = hashes.map(async (hash, at): Promise<readonly Pair[]> => {
    const isBatch = at % 3 === 0
    const requested = isBatch ? [METHODS] : METHODS.map((method) => [method])
    const both = await Promise.all(
      [urls.leader, urls.follower].map((url) =>
        Promise.all(requested.map((methods) => responsesOf(url, hash, { methods, isBatch }))),
      ),
    )
    const [ours, theirs] = both.map((responses) => responses.flat())
    return ours!.map((leader, index) => ({ leader, follower: theirs![index]! }))
  })
  const settled = await Promise.allSettled(rounds)
  return settled.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
}

/**
 * Reads a hash.
 * @throws where no server listens, or where a response is an error
 */
async function responsesOf(
  url: string,
  hash: Hex,
  { methods, isBatch }: { readonly methods: readonly string[]; readonly isBatch: boolean },
): Promise<readonly JsonResponse[]> {
  const path = `${url}/flashblocks`
  const questions = methods.map((method) => [method, [hash]] as const)
  const { flashblockId, replies } = isBatch
    ? await sendRequest(path, [...questions, ['eth_getBlockByNumber', ['pending', false]]])
    : await requestOne(path, questions[0]!)
  return methods.map((method, at) => {
    const { result, error } = replies[at]!
    if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`)
    const { blockNumber } = (result ?? {}) as { readonly blockNumber?: unknown }
    const isIncluded = blockNumber !== undefined && blockNumber !== null
    const included = isIncluded ? withoutHashes(result) : undefined
    return { hash, method, flashblockId, included, isBatch }
  })
}

type Flashblock = { readonly number: bigint; readonly index: number }

async function judge(
  pairs: readonly Pair[],
  leader: string,
  check: Around['check'],
): Promise<void> {
  const broughtBy = new Map<Hex, Flashblock>()
  for (const hash of new Set(pairs.map((pair) => pair.leader.hash))) {
    const found = await flashblockOf(leader, hash)
    if (found !== undefined) broughtBy.set(hash, found)
  }
  const wrong = (response: JsonResponse): boolean => {
    const brought = broughtBy.get(response.hash)
    return (
      brought !== undefined && hasReached(response.flashblockId, brought) !== isIncluded(response)
    )
  }
  for (const who of ['leader', 'follower'] as const) {
    const responses = pairs.map((pair) => pair[who]).filter(({ hash }) => broughtBy.has(hash))
    const faults = responses.filter(wrong)
    check(
      `receipts: on the ${who} each transaction exists from its own flashblock on, and not before`,
      responses.some(isIncluded) && faults.length === 0,
      `${responses.length} answers, ${responses.filter(isIncluded).length} of a block, ${faults.length} wrong${faults
        .slice(0, 5)
        .map((fault) => summaryOf(fault, broughtBy.get(fault.hash)!))
        .join('')}`,
    )
  }
  const equal = pairs.filter(isAtOneFlashblock)
  const differing = equal.filter(
    (pair) => !isDeepStrictEqual(pair.leader.included, pair.follower.included),
  )
  check(
    'receipts: leader and follower give equal responses at the same flashblock',
    // A busy machine seldom has both nodes at one flashblock; the check before judges every
    // response.
    differing.length === 0,
    `${equal.length} pairs, ${differing.length} differ${differing
      .slice(0, 3)
      .flatMap(({ leader: ours, follower }) => [ours, follower])
      .map((response) => `\n     ${JSON.stringify(response).slice(0, 300)}`)
      .join('')}`,
  )
}

const isAtOneFlashblock = ({ leader, follower }: Pair): boolean =>
  leader.flashblockId === follower.flashblockId
const isIncluded = ({ included }: JsonResponse): boolean => included !== undefined

/**
 * Gives the flashblock that brought the transaction; undefined: the transaction is in no block yet,
 * or its flashblock is unknown.
 */
async function flashblockOf(url: string, hash: Hex): Promise<Flashblock | undefined> {
  const status = (await call(`${url}/flashblocks`, 'flashblocks_transactionStatus', [hash])) as {
    readonly blockNumber?: Hex
    readonly flashblockIndex?: number
  }
  const { blockNumber, flashblockIndex } = status
  if (blockNumber === undefined || flashblockIndex === undefined) return undefined
  return { number: BigInt(blockNumber), index: flashblockIndex }
}

function hasReached(flashblockId: string, { number, index }: Flashblock): boolean {
  const [atNumber, atIndex] = flashblockId.split(':')
  const at = BigInt(atNumber!)
  return at > number || (at === number && Number(atIndex) >= index)
}

const summaryOf = (
  { method, hash, flashblockId, isBatch, included }: JsonResponse,
  brought: Flashblock,
): string =>
  `\n     ${method} ${hash}${isBatch ? ' in a batch' : ''}: ${included === undefined ? 'none' : 'there'} at ${flashblockId}, brought by ${brought.number}:${brought.index}`

export const RECEIPTS: Readonly<Record<string, Section>> = { receipts: acrossRestarts }
