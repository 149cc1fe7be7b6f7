/**
 * `flashnode compare`: sends requests to both nodes, and reports differences by method and field.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { quantity } from '../../../engine/primitives/hex.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { StartError } from '../../process/context.ts'
import type { JobContext } from '../shared/job.ts'
import { startParts } from '../shared/parts.ts'
import { print } from '../shared/print.ts'
import { openRpcClient, type RpcClient } from '../shared/rpc-client.ts'
import { table } from '../shared/table.ts'
import { type CallOutcome, type Difference, differencesOf } from './differ.ts'
import { classified, type Deviation, readDeviations } from './known.ts'
import { CHAIN_QUESTIONS, type Question, questionsOf, type RequestedBlock } from './questions.ts'

type CompareConfig = {
  readonly urls: readonly [string, string]
  readonly methods: readonly string[] | undefined
  readonly blocks: { readonly newest: number } | { readonly from: number; readonly to: number }
  readonly perBlock: number
  readonly rate: number
  readonly known: string | undefined
  readonly out: string | undefined
  readonly replay: string | undefined
  readonly json: boolean
}

/** Messages of this error name the node and its failure. */
export const FAILS = [UpstreamError]

/** Requests in one message; few, because a response may be long. */
const BATCH = 20
/** Number of differing requests that are retained and written, and number that the table lists. */
const MAX_RETAINED = 1_000
const LISTED = 20

type Differing = {
  readonly question: Question
  readonly answers: readonly [CallOutcome, CallOutcome]
  readonly differences: readonly Difference[]
}
type Compared = {
  asked: number
  differing: number
  readonly retained: Differing[]
  readonly kinds: Record<Difference['kind'], number>
}

/**
 * Returns the exit status: 1 if there is an unknown difference.
 * @throws {UpstreamError} {StartError}
 */
export async function runCompare(config: CompareConfig, context: JobContext): Promise<number> {
  const deviations = config.known === undefined ? [] : readDeviations(config.known)
  const [a, b] = config.urls.map((url) => openRpcClient(url, config.rate)) as [RpcClient, RpcClient]
  const parts = startParts(context)
  const compared: Compared = {
    asked: 0,
    differing: 0,
    retained: [],
    kinds: { missing: 0, order: 0, wrong: 0, known: 0 },
  }
  try {
    for await (const { question, done, total } of query(config, [a, b])) {
      if (context.isStopped()) break
      await compareSome(question, [a, b], { deviations, compared })
      parts.update({ part: 'questions', done, total })
    }
  } finally {
    parts.stop()
    a.close()
    b.close()
  }
  if (config.out !== undefined) write(config.out, config.urls, compared.retained)
  await print(config.json ? jsonOf(compared) : textOf(compared, [a.name, b.name]))
  const { missing, order, wrong } = compared.kinds
  return missing + order + wrong === 0 && !context.isStopped() ? 0 : 1
}

type Part = {
  readonly question: readonly Question[]
  readonly done: number
  readonly total: number
}

/** Yields requests in batches, block by block. */
async function* query(
  config: CompareConfig,
  nodes: readonly [RpcClient, RpcClient],
): AsyncGenerator<Part> {
  if (config.replay !== undefined) {
    yield { question: [readQuestion(config.replay)], done: 1, total: 1 }
    return
  }
  const isWanted = ({ method }: Question) => config.methods?.includes(method) ?? true
  const { from, to } = await rangeOf(config, nodes)
  const total = to - from + 1
  yield* inBatches(CHAIN_QUESTIONS.filter(isWanted), { done: 0, total })
  for (let number = from; number <= to; number++) {
    const block = await nodes[0].one('eth_getBlockByNumber', [quantity(number), true])
    if (block === null || block === undefined)
      throw new StartError(`${nodes[0].name} has no block ${number}: give other --blocks`)
    const questions = [...questionsOf(block as RequestedBlock, config.perBlock)].filter(isWanted)
    yield* inBatches(questions, { done: number - from, total })
  }
}

function* inBatches(
  questions: readonly Question[],
  progress: Pick<Part, 'done' | 'total'>,
): Generator<Part> {
  for (let at = 0; at < questions.length; at += BATCH)
    yield { question: questions.slice(at, at + BATCH), ...progress }
}

async function rangeOf({ blocks }: CompareConfig, nodes: readonly [RpcClient, RpcClient]) {
  if ('from' in blocks) return blocks
  const heads = await Promise.all(
    nodes.map(async (node) => Number(await node.one('eth_blockNumber', []))),
  )
  const to = Math.min(...heads)
  return { from: Math.max(0, to - blocks.newest + 1), to }
}

async function compareSome(
  questions: readonly Question[],
  nodes: readonly [RpcClient, RpcClient],
  {
    deviations,
    compared,
  }: { readonly deviations: readonly Deviation[]; readonly compared: Compared },
): Promise<void> {
  const [ours, theirs] = await Promise.all(nodes.map((node) => node.request(questions)))
  for (const [at, question] of questions.entries()) {
    compared.asked++
    const responses = [ours![at]!, theirs![at]!] as const
    const differences = differencesOf(...responses).map((one) =>
      classified(one, question.method, deviations),
    )
    if (differences.length === 0) continue
    compared.differing++
    for (const { kind } of differences) compared.kinds[kind]++
    if (compared.retained.length < MAX_RETAINED)
      compared.retained.push({ question, answers: responses, differences })
  }
}

const requestOf = ({ method, params }: Question) => ({ jsonrpc: '2.0', id: 1, method, params })

function write(
  folder: string,
  urls: readonly [string, string],
  retained: readonly Differing[],
): void {
  mkdirSync(folder, { recursive: true })
  for (const [at, { question, answers: responses, differences }] of retained.entries()) {
    const name = `${String(at + 1).padStart(4, '0')}-${question.method}.json`
    const content = { request: requestOf(question), urls, differences, answers: responses }
    writeFileSync(join(folder, name), `${JSON.stringify(content, null, 2)}\n`)
  }
}

/** @throws {StartError} */
function readQuestion(file: string): Question {
  try {
    const { request } = JSON.parse(readFileSync(file, 'utf8')) as {
      readonly request?: Partial<Question>
    }
    const { method, params } = request ?? {}
    if (typeof method === 'string' && Array.isArray(params)) return { method, params }
    throw new Error('it has no request')
  } catch (error) {
    throw new StartError(
      `${file} is not a file that compare --out wrote: ${(error as Error).message}`,
    )
  }
}

function jsonOf({ asked: requested, differing, kinds, retained }: Compared): string {
  const found = retained.flatMap(({ question, differences }) =>
    differences.map((difference) => ({ ...question, ...difference })),
  )
  return `${JSON.stringify({ asked: requested, differing, kinds, found })}\n`
}

function textOf(
  { asked: requested, differing, kinds, retained }: Compared,
  [a, b]: readonly [string, string],
) {
  const groups = new Map<
    string,
    { readonly row: readonly string[]; count: number; last: Difference }
  >()
  for (const { question, differences } of retained)
    for (const difference of differences) {
      const path = difference.path.replace(/\[\d+\]/g, '[*]')
      const row = [difference.kind, question.method, path]
      const group = groups.get(row.join()) ?? { row, count: 0, last: difference }
      group.count++
      groups.set(row.join(), group)
    }
  const lines: string[] = []
  if (groups.size > 0)
    lines.push(table([...groups.values()].map(({ row, count }) => [...row, count])))
  const open = [...groups.values()].filter(({ row }) => row[0] !== 'known')
  for (const { row, last } of open.slice(0, LISTED))
    lines.push(
      `${row.slice(1).join(' ')}, such as ${last.path}\n  ${a} ${short(last.a)}\n  ${b} ${short(last.b)}\n`,
    )
  const counts = Object.entries(kinds).filter(([, count]) => count > 0)
  const said = counts.map(([kind, count]) => `${count} ${kind}`).join(', ')
  lines.push(`${requested} requests, ${differing} with different answers${said && `: ${said}`}\n`)
  return lines.join('')
}

const short = (value: unknown): string => (JSON.stringify(value) ?? 'nothing').slice(0, 200)
