/**
 * `flashnode bench`: finds requests, checks that all nodes respond alike, and measures the nodes in
 * turn.
 */
import { isDeepStrictEqual } from 'node:util'
import { quantity } from '../../../engine/primitives/hex.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { StartError } from '../../process/context.ts'
import type { JobContext } from '../shared/job.ts'
import { type Parts, startParts } from '../shared/parts.ts'
import { print } from '../shared/print.ts'
import { openRpcClient, type RpcClient } from '../shared/rpc-client.ts'
import { table } from '../shared/table.ts'
import { bodyOf, type Loaded, load, type Message, responseOf } from './load.ts'
import { batchesOf, type FoundBlock, type Workload, workloadsOf } from './workloads.ts'

type BenchConfig = {
  readonly urls: readonly string[]
  readonly seconds: number
  readonly rounds: number
  readonly connections: number
  readonly blocks: number
  readonly only: string | undefined
  readonly json: boolean
}
export const FAILS = [UpstreamError]

type LoadStats = {
  readonly rate: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly wrong: number
  readonly failed: number
  readonly firstFailure: string | undefined
}
type Row = {
  readonly name: string
  /** One entry for each node in order; undefined if it answers none of the requests. */
  readonly nodes: readonly (LoadStats | undefined)[]
  /** Number of requests left out of the measurement, because the nodes' responses differ. */
  readonly unlike: number
}
type Node = { readonly url: string; readonly name: string }

/**
 * Returns the exit status: 1 if responses differ, are wrong under load, or are missing.
 * @throws {UpstreamError} {StartError}
 */
export async function runBench(config: BenchConfig, context: JobContext): Promise<number> {
  const nodes = config.urls.map((url) => ({ url, name: new URL(url).host }))
  const blocks = await findBlocks(config)
  const workloads = workloadsOf(blocks).filter(({ name }) => name.includes(config.only ?? ''))
  if (workloads.length === 0)
    throw new StartError(
      `no workload has "${config.only}" in its name: give another --only, or leave it out`,
    )
  const parts = startParts(context)
  const rows: Row[] = []
  try {
    for (const [at, workload] of workloads.entries()) {
      if (context.isStopped()) break
      const progress = { part: workload.name, done: at, total: workloads.length }
      rows.push(await rowOf(workload, { config, nodes, context, parts, progress }))
    }
  } finally {
    parts.stop()
  }
  await print(config.json ? jsonOf(nodes, rows) : textOf(nodes, rows))
  const isRight = rows.every(
    ({ unlike, nodes: all }) =>
      unlike === 0 && all.every((one) => one === undefined || one.wrong + one.failed === 0),
  )
  return isRight && !context.isStopped() ? 0 : 1
}

/** Finds the newest blocks that all nodes have. @throws {UpstreamError} {StartError} */
async function findBlocks({ urls, blocks: max }: BenchConfig): Promise<readonly FoundBlock[]> {
  const clients: readonly RpcClient[] = urls.map((url) => openRpcClient(url))
  try {
    const heads = await Promise.all(
      clients.map(async (node) => Number(await node.one('eth_blockNumber', []))),
    )
    const to = Math.min(...heads)
    const numbers = Array.from({ length: Math.min(max, to + 1) }, (_, at) => to - at).reverse()
    const found: FoundBlock[] = []
    for (const number of numbers) {
      const block = await clients[0]!.one('eth_getBlockByNumber', [quantity(number), true])
      if (block === null) throw new StartError(`${clients[0]!.name} has no block ${number}`)
      found.push(block as FoundBlock)
    }
    return found
  } finally {
    for (const node of clients) node.close()
  }
}

type Around = {
  readonly config: BenchConfig
  readonly nodes: readonly Node[]
  readonly context: JobContext
  readonly parts: Parts
  readonly progress: Parameters<Parts['update']>[0]
}

async function rowOf(workload: Workload, around: Around): Promise<Row> {
  const { config, nodes, context, parts, progress } = around
  const { messages, unlike } = workload.isBatched
    ? await agree(batchesOf((await agree(workload.questions, nodes)).alike), nodes)
    : await agree(workload.questions, nodes)
  const sides = nodes.map(() => [] as Loaded[])
  const connections = workload.isDear ? Math.max(1, config.connections >> 2) : config.connections
  // The first round warms the nodes up and is left out of the results.
  for (let round = 0; round <= config.rounds; round++)
    for (const [at, { url }] of nodes.entries()) {
      const own = messages[at]!
      if (own.length === 0 || context.isStopped()) continue
      parts.update(progress)
      const until = performance.now() + (round === 0 ? WARM_MS : config.seconds * 1_000)
      let requested = 0
      const isOver = () => performance.now() >= until || context.isStopped()
      const next = () => (isOver() ? undefined : own[requested++ % own.length])
      const loaded = await load({ url, connections, next })
      if (round > 0) sides[at]!.push(loaded)
    }
  return { name: workload.name, unlike, nodes: sides.map(loadStatsOf) }
}
const WARM_MS = 300

/**
 * Sends every request once to every node, and retains those that all serving nodes answer alike.
 */
async function agree(
  questions: Workload['questions'],
  nodes: readonly Node[],
): Promise<{
  readonly messages: readonly (readonly Message[])[]
  readonly alike: Workload['questions']
  readonly unlike: number
}> {
  const bodies = questions.map(bodyOf)
  const responses = await Promise.all(nodes.map(({ url }) => responsesOf(url, bodies)))
  const serving = responses.filter((all) => all.some((text) => text !== undefined))
  let unlike = 0
  const isRequested = bodies.map((_, at) => {
    const texts = serving.map((all) => all[at])
    if (texts.length === 0 || texts.every((text) => text === undefined)) return false
    const isAlike = texts.every((text) => text !== undefined && isSame(text, texts[0]!))
    if (!isAlike) unlike++
    return isAlike
  })
  const messages = responses.map((all) =>
    bodies.flatMap((body, at) => {
      const response = all[at]
      return isRequested[at] === true && response !== undefined ? [{ body, response }] : []
    }),
  )
  return { messages, alike: questions.filter((_, at) => isRequested[at]), unlike }
}

const isSame = (a: string, b: string): boolean =>
  a === b || isDeepStrictEqual(JSON.parse(a), JSON.parse(b))

/** An entry is undefined if the response is an error. */
async function responsesOf(
  url: string,
  bodies: readonly string[],
): Promise<readonly (string | undefined)[]> {
  const texts: (string | undefined)[] = []
  for (const body of bodies)
    try {
      const text = await responseOf(url, body)
      texts.push(hasError(JSON.parse(text)) ? undefined : text)
    } catch {
      texts.push(undefined)
    }
  return texts
}

const hasError = (response: unknown): boolean =>
  Array.isArray(response)
    ? response.some(hasError)
    : typeof response !== 'object' || response === null || !('result' in response)

function loadStatsOf(rounds: readonly Loaded[]): LoadStats | undefined {
  if (rounds.length === 0) return undefined
  const median = (of: (one: Loaded) => number) =>
    rounds.map(of).toSorted((a, b) => a - b)[rounds.length >> 1]!
  const sum = (of: (one: Loaded) => number) => rounds.reduce((all, one) => all + of(one), 0)
  return {
    rate: median(({ responses, seconds }) => responses / seconds),
    p50Ms: median(({ p50Ms }) => p50Ms),
    p99Ms: median(({ p99Ms }) => p99Ms),
    wrong: sum(({ wrong }) => wrong),
    failed: sum(({ failed }) => failed),
    firstFailure: rounds.find(({ failed }) => failed > 0)?.firstFailure,
  }
}

const jsonOf = (nodes: readonly Node[], rows: readonly Row[]): string =>
  `${JSON.stringify({ nodes: nodes.map(({ name }) => name), rows: rows.map((row) => ({ ...row, nodes: row.nodes.map((one) => one ?? null) })) })}\n`

function textOf(nodes: readonly Node[], rows: readonly Row[]): string {
  const title = [
    '',
    ...nodes.flatMap(({ name }, at) => [
      `${name} /s`,
      'p50 ms',
      'p99 ms',
      ...(at === 0 ? [] : ['ratio']),
    ]),
  ]
  const lines = rows.map(({ name, nodes: all }) => {
    const first = all[0]?.rate
    return [
      name,
      ...all.flatMap((one, at) => {
        const ratio = one === undefined || first === undefined ? '-' : (one.rate / first).toFixed(2)
        const columns = one === undefined ? ['-', '-', '-'] : columnsOf(one)
        return at === 0 ? columns : [...columns, ratio]
      }),
    ]
  })
  const said = rows.flatMap(({ name, unlike, nodes: all }) => [
    ...(unlike === 0
      ? []
      : [
          `${name}: ${unlike} requests have different answers: flashnode compare reports the differences\n`,
        ]),
    ...all.flatMap((one, at) =>
      problemsOf(one).map((what) => `${name}: ${nodes[at]!.name}: ${what}\n`),
    ),
  ])
  return [table([title, ...lines]), ...said].join('')
}

const columnsOf = ({ rate, p50Ms, p99Ms }: LoadStats): readonly string[] => [
  rate < 100 ? rate.toPrecision(3) : Math.round(rate).toLocaleString('en-US'),
  p50Ms.toFixed(2),
  p99Ms.toFixed(2),
]

function problemsOf(one: LoadStats | undefined): readonly string[] {
  if (one === undefined) return ['answers none of these requests']
  const { wrong, failed, firstFailure } = one
  return [
    ...(wrong === 0 ? [] : [`${wrong} answers under load differ from the first ones`]),
    ...(failed === 0 ? [] : [`${failed} requests got no answer: ${firstFailure}`]),
  ]
}
