/**
 * A new replica copies a running node under load. Its connection is cut, it is killed, and the
 * copied node is stopped. The replica resumes each time, resists wrong data and follows the chain.
 * It responds like the node that it was copied from.
 * Usage: npm run bootstrap [-- --seed S]
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Hex } from 'viem'
import { checks } from '../kit/checks.ts'
import { freePort } from '../kit/free-port.ts'
import type { RunningNode } from '../kit/node.ts'
import { runOptions } from '../kit/run-options.ts'
import { startMiddle } from './bootstrap/middle.ts'
import { compareResponses, questionsAt } from './bootstrap/questions.ts'
import { createComparer } from './follow/compare.ts'
import { headOf, startFollower, startLeader, temporary, until } from './follow/nodes.ts'
import { compareFor, summaryOf } from './follow/section.ts'

/** The load has this many transactions a second. */
const RATE = 10
const ACCOUNTS = 4_000
const SLOTS = 1_000
/**
 * These limits for the rows of one response and of one second make the copy take some ten seconds.
 */
const CHUNK_BYTES = 8_192
const BYTES_PER_SECOND = 200_000
const COMPARISONS = 400
const TIMEOUT_MS = 600_000

const { random } = runOptions('bootstrap', { full: 0, short: 0 })
const { check, close } = checks('bootstrap')

const addressOf = (index: number): Hex =>
  `0x${(0x5eed_0000 + index * 7_919).toString(16).padStart(8, '0').repeat(5)}`
const word = (number: number): Hex => `0x${number.toString(16).padStart(64, '0')}`

function writeAlloc(): string {
  const file = join(temporary('alloc'), 'alloc.json')
  const accounts = Array.from({ length: ACCOUNTS }, (_, index) => [
    addressOf(index),
    { balance: `0x${(index + 1).toString(16)}` },
  ])
  const storage = Object.fromEntries(
    Array.from({ length: SLOTS }, (_, at) => [word(at), word(at + 1)]),
  )
  const contract = { balance: '0x0', code: '0x5f545f5260205ff3', storage }
  writeFileSync(
    file,
    JSON.stringify(Object.fromEntries([...accounts, [addressOf(ACCOUNTS), contract]])),
  )
  return file
}

const folder = temporary('token')
const tokenFile = join(folder, 'token')
writeFileSync(tokenFile, `${randomBytes(16).toString('hex')}\n`)
const otherToken = join(folder, 'other')
writeFileSync(otherToken, `${randomBytes(16).toString('hex')}\n`)

const chain = await startLeader(random, RATE, ['--genesis-alloc', writeAlloc()])
const feed = `${chain.node.url.replace('http', 'ws')}/feed`
const [sourcePort, sourceDir] = [await freePort(), temporary('source')]
const following = (datadir: string, more: readonly string[]) =>
  startFollower(chain, {
    datadir,
    upstreams: [`${chain.node.url}/`],
    feeds: [feed],
    more: ['--state', 'whole', ...more],
  })
/** Starts the copied node. With several front threads the main one reads for all. */
const startSource = (fronts: number): Promise<RunningNode> =>
  following(sourceDir, [
    ...[
      '--front-threads',
      String(fronts),
      '--port',
      String(sourcePort),
      '--bootstrap-token-file',
      tokenFile,
    ],
    ...['--limit-bootstrap-chunk-bytes', String(CHUNK_BYTES)],
    ...['--limit-bootstrap-bytes-per-second', String(BYTES_PER_SECOND)],
  ])

let source = await startSource(1)
const middle = await startMiddle(new URL(source.url))
const datadir = temporary('replica')

type Run = {
  readonly child: ChildProcess
  readonly ended: Promise<number | null>
  readonly said: () => string
}
function runCopy(from: string, more: readonly string[] = []): Run {
  const child = spawn(process.execPath, [
    ...[
      'workers/main.ts',
      'bootstrap',
      '--from',
      from,
      '--datadir',
      datadir,
      '--token-file',
      tokenFile,
      ...more,
    ],
  ])
  process.once('exit', () => child.kill('SIGKILL'))
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (piece: Buffer) => {
      said = (said + piece.toString()).slice(-10_000)
    })
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return { child, ended, said: () => said }
}

async function refusals(): Promise<void> {
  const wrong = runCopy(source.url, ['--token-file', otherToken])
  check(
    'bootstrap with another token fails with 401',
    (await wrong.ended) === 1 && wrong.said().includes('401'),
    wrong.said().trim(),
  )
  const nobody = runCopy(chain.node.url)
  check(
    'bootstrap from a node without a token fails and names --bootstrap-token-file',
    (await nobody.ended) === 1 && nobody.said().includes('--bootstrap-token-file'),
    nobody.said().trim(),
  )
  check('a refused bootstrap writes nothing', !existsSync(join(datadir, 'flashnode.json')))
}

async function cutThrice(): Promise<void> {
  const first = runCopy(middle.url)
  await middle.after(12)
  middle.cut()
  await middle.after(12)
  check('bootstrap survives a cut connection', first.child.exitCode === null)
  first.child.kill('SIGKILL')
  await first.ended
  const refused = await following(datadir, []).then(
    (node) => node.stop().then(() => 'it started'),
    (error: Error) => error.message,
  )
  check(
    'follow refuses an unfinished copy and names the command that finishes it',
    refused.includes('flashnode bootstrap --from'),
    refused.slice(-400),
  )
  const bytesBefore = middle.bytes()
  const second = runCopy(middle.url)
  await middle.after(6)
  middle.spoil()
  await middle.after(6)
  check(
    'bootstrap asks once more after a spoilt response',
    second.said().includes('retrying once'),
    second.said().slice(-300),
  )
  await source.stop()
  source = await startSource(2)
  check('bootstrap survives a restart of its source', second.child.exitCode === null, second.said())
  const code = await second.ended
  check('bootstrap ends with 0', code === 0, second.said().trim().slice(-600))
  const twice = [...middle.sent].filter(([, times]) => times > 1)
  // Each cut may lose one response that had arrived and was not committed.
  check(
    'bootstrap fetches again only the ranges that a cut lost',
    twice.length <= 3,
    `${middle.sent.size} ranges, twice: ${JSON.stringify(twice)}, ${bytesBefore} bytes before the kill, ${middle.bytes()} in all`,
  )
}

async function verified(): Promise<void> {
  const child = spawn(process.execPath, ['workers/main.ts', 'verify', '--datadir', datadir])
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (piece: Buffer) => (said += piece))
  const [code] = await once(child, 'close')
  check(
    'verify finds no fault in the copy',
    code === 0,
    said.trim().split('\n').slice(-3).join(' '),
  )
}

async function compareNodes(replica: RunningNode): Promise<void> {
  const head = await headOf(source.url)
  const isThere = await until(async () => (await headOf(replica.url)) >= head, TIMEOUT_MS)
  check('a follower on the copy reaches the head of the source', isThere)
  const { world } = chain.load
  const blocks = [
    ...new Set([
      0,
      1,
      2,
      5,
      ...[0.25, 0.5, 0.75, 0.9].map((share) => Math.floor(head * share)),
      head - 12,
      head - 2,
      head,
    ]),
  ]
  const questions = questionsAt(
    blocks.filter((number) => number >= 0),
    { world, plain: [addressOf(3), addressOf(ACCOUNTS)] },
  )
  const { total, differences } = await compareResponses([source.url, replica.url], questions)
  check(
    'blocks, receipts, logs, state and proofs equal those of the source, even old ones',
    differences.length === 0,
    `${total} questions at ${blocks.join(', ')}${differences
      .slice(0, 3)
      .map((one) => `\n     ${one}`)
      .join('')}`,
  )
  const comparer = createComparer({
    leader: chain.node.url,
    follower: replica.url,
    world,
    random,
    isLazy: false,
    oldest: 0,
  })
  const compared = await compareFor(comparer, { count: COMPARISONS, withinMs: TIMEOUT_MS })
  check(
    "the follower answers like the chain's own node while the chain goes on",
    compared.total >= COMPARISONS / 2 && compared.differences.length === 0,
    summaryOf(compared),
  )
}

await refusals()
await cutThrice()
await verified()
const replica = await following(datadir, [])
await compareNodes(replica)
check('the follower ends with 0', (await replica.stop()) === 0)
await source.stop()
middle.close()
await chain.load.stop()
await chain.node.stop()
close()
process.exit()
