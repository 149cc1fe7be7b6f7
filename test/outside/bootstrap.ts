/**
 * A new replica from one that runs, under load: its connection is cut, it is killed, the node that it copies is stopped; it goes on where it
 * was, holds what it has to be held to, follows, and answers as the node that it was copied from.
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
import { compareAnswers, questionsAt } from './bootstrap/questions.ts'
import { createComparer } from './follow/compare.ts'
import { headOf, startFollower, startLeader, temporary, until } from './follow/nodes.ts'
import { compareFor, told } from './follow/section.ts'

/** Transactions a second. */
const RATE = 10
const ACCOUNTS = 4_000
const SLOTS = 1_000
/** Of rows in one answer, and in a second: the copy takes some ten seconds. */
const CHUNK_BYTES = 8_192
const BYTES_PER_SECOND = 200_000
const COMPARISONS = 400
const PATIENCE_MS = 60_000

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
/** With several front threads the main one reads for all. */
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
    'another token is refused',
    (await wrong.ended) === 1 && wrong.said().includes('401'),
    wrong.said().trim(),
  )
  const nobody = runCopy(chain.node.url)
  check(
    'a node without a token is copied by nobody',
    (await nobody.ended) === 1 && nobody.said().includes('--bootstrap-token-file'),
    nobody.said().trim(),
  )
  check('nothing was written by a refused copy', !existsSync(join(datadir, 'flashnode.json')))
}

async function cutThrice(): Promise<void> {
  const first = runCopy(middle.url)
  await middle.after(12)
  middle.cut()
  await middle.after(12)
  check('a cut connection does not end it', first.child.exitCode === null)
  first.child.kill('SIGKILL')
  await first.ended
  const refused = await following(datadir, []).then(
    (node) => node.stop().then(() => 'it started'),
    (error: Error) => error.message,
  )
  check(
    'follow refuses what is half done, and names the command',
    refused.includes('flashnode bootstrap --from'),
    refused.slice(-400),
  )
  const bytesBefore = middle.bytes()
  const second = runCopy(middle.url)
  await middle.after(6)
  middle.spoil()
  await middle.after(6)
  check(
    'a spoiled answer is asked for once more',
    second.said().includes('asking once more'),
    second.said().slice(-300),
  )
  await source.stop()
  source = await startSource(2)
  check(
    'a source that is started again does not end it',
    second.child.exitCode === null,
    second.said(),
  )
  const code = await second.ended
  check('it ends with 0', code === 0, second.said().trim().slice(-600))
  const twice = [...middle.sent].filter(([, times]) => times > 1)
  // Of each cut one answer may have come and not been committed.
  check(
    'nothing is fetched again but what a cut has lost',
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
  check('verify finds nothing wrong', code === 0, said.trim().split('\n').slice(-3).join(' '))
}

async function answersAlike(replica: RunningNode): Promise<void> {
  const head = await headOf(source.url)
  const isThere = await until(async () => (await headOf(replica.url)) >= head, PATIENCE_MS)
  check('it follows, and comes to where the chain is', isThere)
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
  const { total, differences } = await compareAnswers([source.url, replica.url], questions)
  check(
    'blocks, receipts, logs, state and proofs are those of the source, old ones too',
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
  const compared = await compareFor(comparer, { count: COMPARISONS, withinMs: PATIENCE_MS })
  check(
    "its answers are the chain's own as it goes on",
    compared.total >= COMPARISONS / 2 && compared.differences.length === 0,
    told(compared),
  )
}

await refusals()
await cutThrice()
await verified()
const replica = await following(datadir, [])
await answersAlike(replica)
check('it ends with 0', (await replica.stop()) === 0)
await source.stop()
middle.close()
await chain.load.stop()
await chain.node.stop()
close()
process.exit()
