/** `flashnode bench`: looks for what can be asked, sees that all answer alike, and measures them in turns. */
import { isDeepStrictEqual } from 'node:util'
import { quantity } from '../../../engine/primitives/hex.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { StartError } from '../../process/context.ts'
import { type Asking, openAsking } from '../shared/asking.ts'
import type { JobContext } from '../shared/job.ts'
import { type Parts, startParts } from '../shared/parts.ts'
import { say } from '../shared/said.ts'
import { table } from '../shared/table.ts'
import { answerOf, bodyOf, type Loaded, load, type Message } from './load.ts'
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

/** Of one node under one workload. */
type Figures = {
  readonly rate: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly wrong: number
  readonly failed: number
  readonly firstFailure: string | undefined
}
type Row = {
  readonly name: string
  /** In the order of the nodes; undefined: it answers none of the questions. */
  readonly nodes: readonly (Figures | undefined)[]
  /** Questions that all who answer do not answer alike, and were not asked. */
  readonly unlike: number
}
type Node = { readonly url: string; readonly name: string }

/** Returns the exit status: 1 where answers differ, are wrong under load, or do not come. @throws {UpstreamError} {StartError} */
export async function runBench(config: BenchConfig, context: JobContext): Promise<number> {
  const nodes = config.urls.map((url) => ({ url, name: new URL(url).host }))
  const blocks = await findBlocks(config)
  const workloads = workloadsOf(blocks).filter(({ name }) => name.includes(config.only ?? ''))
  if (workloads.length === 0)
    throw new StartError(`no workload has "${config.only}" in its name: leave --only out`)
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
  await say(config.json ? jsonOf(nodes, rows) : textOf(nodes, rows))
  const isRight = rows.every(
    ({ unlike, nodes: all }) =>
      unlike === 0 && all.every((one) => one === undefined || one.wrong + one.failed === 0),
  )
  return isRight && !context.isStopped() ? 0 : 1
}

/** The newest that all nodes have. @throws {UpstreamError} {StartError} */
async function findBlocks({ urls, blocks: most }: BenchConfig): Promise<readonly FoundBlock[]> {
  const asking: readonly Asking[] = urls.map((url) => openAsking(url))
  try {
    const heads = await Promise.all(
      asking.map(async (node) => Number(await node.one('eth_blockNumber', []))),
    )
    const to = Math.min(...heads)
    const numbers = Array.from({ length: Math.min(most, to + 1) }, (_, at) => to - at).reverse()
    const found: FoundBlock[] = []
    for (const number of numbers) {
      const block = await asking[0]!.one('eth_getBlockByNumber', [quantity(number), true])
      if (block === null) throw new StartError(`${asking[0]!.name} has no block ${number}`)
      found.push(block as FoundBlock)
    }
    return found
  } finally {
    for (const node of asking) node.close()
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
  // The first round warms, and is not told.
  for (let round = 0; round <= config.rounds; round++)
    for (const [at, { url }] of nodes.entries()) {
      const own = messages[at]!
      if (own.length === 0 || context.isStopped()) continue
      parts.update(progress)
      const until = performance.now() + (round === 0 ? WARM_MS : config.seconds * 1_000)
      let asked = 0
      const isOver = () => performance.now() >= until || context.isStopped()
      const next = () => (isOver() ? undefined : own[asked++ % own.length])
      const loaded = await load({ url, connections, next })
      if (round > 0) sides[at]!.push(loaded)
    }
  return { name: workload.name, unlike, nodes: sides.map(figuresOf) }
}
const WARM_MS = 300

/** Every question once at every node: what is measured is answered by all who answer anything here, and alike. */
async function agree(
  questions: Workload['questions'],
  nodes: readonly Node[],
): Promise<{
  readonly messages: readonly (readonly Message[])[]
  readonly alike: Workload['questions']
  readonly unlike: number
}> {
  const bodies = questions.map(bodyOf)
  const answers = await Promise.all(nodes.map(({ url }) => answersOf(url, bodies)))
  const serving = answers.filter((all) => all.some((text) => text !== undefined))
  let unlike = 0
  const isAsked = bodies.map((_, at) => {
    const texts = serving.map((all) => all[at])
    if (texts.length === 0 || texts.every((text) => text === undefined)) return false
    const isAlike = texts.every((text) => text !== undefined && isSame(text, texts[0]!))
    if (!isAlike) unlike++
    return isAlike
  })
  const messages = answers.map((all) =>
    bodies.flatMap((body, at) => {
      const answer = all[at]
      return isAsked[at] === true && answer !== undefined ? [{ body, answer }] : []
    }),
  )
  return { messages, alike: questions.filter((_, at) => isAsked[at]), unlike }
}

const isSame = (a: string, b: string): boolean =>
  a === b || isDeepStrictEqual(JSON.parse(a), JSON.parse(b))

/** undefined: an error. */
async function answersOf(
  url: string,
  bodies: readonly string[],
): Promise<readonly (string | undefined)[]> {
  const texts: (string | undefined)[] = []
  for (const body of bodies)
    try {
      const text = await answerOf(url, body)
      texts.push(hasError(JSON.parse(text)) ? undefined : text)
    } catch {
      texts.push(undefined)
    }
  return texts
}

const hasError = (answer: unknown): boolean =>
  Array.isArray(answer)
    ? answer.some(hasError)
    : typeof answer !== 'object' || answer === null || !('result' in answer)

function figuresOf(rounds: readonly Loaded[]): Figures | undefined {
  if (rounds.length === 0) return undefined
  const median = (of: (one: Loaded) => number) =>
    rounds.map(of).toSorted((a, b) => a - b)[rounds.length >> 1]!
  const sum = (of: (one: Loaded) => number) => rounds.reduce((all, one) => all + of(one), 0)
  return {
    rate: median(({ answers, seconds }) => answers / seconds),
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
        const cells = one === undefined ? ['-', '-', '-'] : cellsOf(one)
        return at === 0 ? cells : [...cells, ratio]
      }),
    ]
  })
  const said = rows.flatMap(({ name, unlike, nodes: all }) => [
    ...(unlike === 0
      ? []
      : [`${name}: ${unlike} questions are answered differently: flashnode compare says where\n`]),
    ...all.flatMap((one, at) =>
      problemsOf(one).map((what) => `${name}: ${nodes[at]!.name}: ${what}\n`),
    ),
  ])
  return [table([title, ...lines]), ...said].join('')
}

const cellsOf = ({ rate, p50Ms, p99Ms }: Figures): readonly string[] => [
  rate < 100 ? rate.toPrecision(3) : Math.round(rate).toLocaleString('en-US'),
  p50Ms.toFixed(2),
  p99Ms.toFixed(2),
]

function problemsOf(one: Figures | undefined): readonly string[] {
  if (one === undefined) return ['answers none of these']
  const { wrong, failed, firstFailure } = one
  return [
    ...(wrong === 0 ? [] : [`${wrong} answers were not those of before`]),
    ...(failed === 0 ? [] : [`${failed} without an answer: ${firstFailure}`]),
  ]
}
