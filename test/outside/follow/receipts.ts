/**
 * Receipts and transactions by hash of a follower that is killed and started again under load. Each answer is judged by the flashblock
 * that its `X-Flashblock` names: the transaction is there from the flashblock that brought it on, and not before.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Hex } from 'viem'
import { ask, askOne } from '../../kit/batch.ts'
import { freePort } from '../../kit/free-port.ts'
import { call, type RunningNode } from '../../kit/node.ts'
import { withoutHashes } from './compare.ts'
import { startFollower, temporary, until } from './nodes.ts'
import type { Around, Section } from './section.ts'
import { startProxy } from './wires.ts'

type Answer = {
  readonly hash: Hex
  readonly method: string
  /** `number:index:payload`. */
  readonly place: string
  /** undefined: there is no such transaction, or it is in no block. */
  readonly included: unknown
  readonly isBatch: boolean
}
/** The same question to both at one moment. */
type Pair = { readonly leader: Answer; readonly follower: Answer }
type Urls = { readonly leader: string; readonly follower: string }

const METHODS = ['eth_getTransactionReceipt', 'eth_getTransactionByHash'] as const
/** Answers of the follower before the first restart, and after each. */
const ANSWERS = 150
/** Of a round: the newest transactions, which the follower may not know, and others, which it may have. */
const [NEWEST, OTHERS] = [2, 4]
/** The upstream's answer about a transaction takes longer than a flashblock. */
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
  /** In the order in which they were sent. */
  const hashes = new Set<Hex>()
  let node: RunningNode = await start()
  try {
    for (let restarts = 0; restarts <= around.restarts; restarts++) {
      const first = pairs.length
      const asking = until(
        async () => {
          for (const hash of leader.load.world.hashes) hashes.add(hash)
          pairs.push(...(await oneRound(urls, chosen([...hashes], random))))
          return pairs.length >= first + ANSWERS
        },
        ROUNDS_MS,
        10,
      )
      // Asked while it starts as well: it answers before it has caught up.
      const starting = restarts === 0 ? node : restarted(node, start)
      const [started, areEnough] = await Promise.all([starting, asking])
      node = started
      const count = pairs.length - first
      check(`receipts: answers after ${restarts} restarts`, areEnough, `${count} of ${ANSWERS}`)
    }
    await judge(pairs, urls.leader, check)
    check('receipts: ends with 0', (await node.stop()) === 0)
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

/** Alone and in batches. None where the follower does not listen. */
async function oneRound(urls: Urls, hashes: readonly Hex[]): Promise<readonly Pair[]> {
  const rounds = hashes.map(async (hash, at): Promise<readonly Pair[]> => {
    const isBatch = at % 3 === 0
    const asked = isBatch ? [METHODS] : METHODS.map((method) => [method])
    const both = await Promise.all(
      [urls.leader, urls.follower].map((url) =>
        Promise.all(asked.map((methods) => answersOf(url, hash, { methods, isBatch }))),
      ),
    )
    const [ours, theirs] = both.map((answers) => answers.flat())
    return ours!.map((leader, index) => ({ leader, follower: theirs![index]! }))
  })
  const settled = await Promise.allSettled(rounds)
  return settled.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
}

/** @throws where nobody listens, or where an answer is an error */
async function answersOf(
  url: string,
  hash: Hex,
  { methods, isBatch }: { readonly methods: readonly string[]; readonly isBatch: boolean },
): Promise<readonly Answer[]> {
  const path = `${url}/flashblocks`
  const questions = methods.map((method) => [method, [hash]] as const)
  const { place, replies } = isBatch
    ? await ask(path, [...questions, ['eth_getBlockByNumber', ['pending', false]]])
    : await askOne(path, questions[0]!)
  return methods.map((method, at) => {
    const { result, error } = replies[at]!
    if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`)
    const { blockNumber } = (result ?? {}) as { readonly blockNumber?: unknown }
    const isIncluded = blockNumber !== undefined && blockNumber !== null
    const included = isIncluded ? withoutHashes(result) : undefined
    return { hash, method, place, included, isBatch }
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
  const wrong = (answer: Answer): boolean => {
    const brought = broughtBy.get(answer.hash)
    return brought !== undefined && hasReached(answer.place, brought) !== isIncluded(answer)
  }
  for (const who of ['leader', 'follower'] as const) {
    const answers = pairs.map((pair) => pair[who]).filter(({ hash }) => broughtBy.has(hash))
    const faults = answers.filter(wrong)
    check(
      `receipts: on the ${who} each transaction is there from its flashblock on, and not before`,
      answers.some(isIncluded) && faults.length === 0,
      `${answers.length} answers, ${answers.filter(isIncluded).length} of a block, ${faults.length} wrong${faults
        .slice(0, 5)
        .map((fault) => told(fault, broughtBy.get(fault.hash)!))
        .join('')}`,
    )
  }
  const equal = pairs.filter(isAtOnePlace)
  const differing = equal.filter(
    (pair) => !isDeepStrictEqual(pair.leader.included, pair.follower.included),
  )
  check(
    'receipts: both answer the same at the same flashblock',
    // A busy machine seldom has both at one: the check before this one judges every answer.
    differing.length === 0,
    `${equal.length} pairs, ${differing.length} differ${differing
      .slice(0, 3)
      .flatMap(({ leader: ours, follower }) => [ours, follower])
      .map((answer) => `\n     ${JSON.stringify(answer).slice(0, 300)}`)
      .join('')}`,
  )
}

const isAtOnePlace = ({ leader, follower }: Pair): boolean => leader.place === follower.place
const isIncluded = ({ included }: Answer): boolean => included !== undefined

/** The flashblock that brought the transaction; undefined: it is in no block yet, or that is not known. */
async function flashblockOf(url: string, hash: Hex): Promise<Flashblock | undefined> {
  const status = (await call(`${url}/flashblocks`, 'flashblocks_transactionStatus', [hash])) as {
    readonly blockNumber?: Hex
    readonly flashblockIndex?: number
  }
  const { blockNumber, flashblockIndex } = status
  if (blockNumber === undefined || flashblockIndex === undefined) return undefined
  return { number: BigInt(blockNumber), index: flashblockIndex }
}

function hasReached(place: string, { number, index }: Flashblock): boolean {
  const [atNumber, atIndex] = place.split(':')
  const at = BigInt(atNumber!)
  return at > number || (at === number && Number(atIndex) >= index)
}

const told = ({ method, hash, place, isBatch, included }: Answer, brought: Flashblock): string =>
  `\n     ${method} ${hash}${isBatch ? ' in a batch' : ''}: ${included === undefined ? 'none' : 'there'} at ${place}, brought by ${brought.number}:${brought.index}`

export const RECEIPTS: Readonly<Record<string, Section>> = { receipts: acrossRestarts }
