/**
 * A chain, a leader that follows and executes, and replicas that apply what it tells: their answers are the leader's, whoever dies and
 * whatever is told wrong.
 * Usage: npm run apply [-- --seed S] [--only honest,planted,missent,mistold]
 */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { DEV_ACCOUNTS } from '../../engine/chainspec/dev-accounts.ts'
import { checks } from '../kit/checks.ts'
import { freePort } from '../kit/free-port.ts'
import { callMany, type RunningNode } from '../kit/node.ts'
import { runOptions } from '../kit/run-options.ts'
import { MISSENT, MISTOLD, PLANTED, type Planted } from './apply/plants.ts'
import { type Spoiler, startSpoiler } from './apply/spoiler.ts'
import { createComparer } from './follow/compare.ts'
import { headOf, startFollower, startLeader, temporary, until } from './follow/nodes.ts'
import { compareFor, told } from './follow/section.ts'

/** Transactions a second. */
const RATE = 20
const COMPARISONS = 1_500
const PATIENCE_MS = 60_000
/** Some blocks. */
const FOUND_MS = 8_000
const PLANTED_AT_MOST = 8
/** A busy machine is no reason to execute. */
const APPLY_MS = 5_000
/** What was executed first is found by what came out otherwise: another kind. */
const PLANTED_APPLY_MS = 5_000
const EVENTS = /^flashnode_chain_events_total\{event="([a-z_]+)"\} (\d+)/

const { random, own } = runOptions('apply', { full: 0, short: 0 }, { only: { type: 'string' } })
const only =
  own['only'] === undefined ? ['honest', 'planted', 'missent', 'mistold'] : String(own['only'])
const { check, close } = checks('apply')

type Replica = { readonly node: RunningNode; readonly adminPort: number }

const chain = await startLeader(random, RATE)
const chainFeed = `${chain.node.url.replace('http', 'ws')}/feed`
const folder = temporary('token')
const token = randomBytes(16).toString('hex')
const tokenFile = join(folder, 'token')
writeFileSync(tokenFile, `${token}\n`)
const leaderPort = await freePort()
const leaderDir = temporary('leader')

const follow = async (datadir: string, more: readonly string[]): Promise<Replica> => {
  const adminPort = await freePort()
  const node = await startFollower(chain, {
    ...{ datadir, upstreams: [`${chain.node.url}/`], feeds: [chainFeed] },
    more: ['--state', 'whole', '--admin-port', String(adminPort), ...more],
  })
  return { node, adminPort }
}
const startTheLeader = () =>
  follow(leaderDir, ['--port', String(leaderPort), '--enrich-token-file', tokenFile])
const replicate = (urls: readonly string[], share: string, applyMs = APPLY_MS) =>
  follow(temporary('replica'), [
    ...['--apply', urls.join(','), '--apply-token-file', tokenFile, '--verify-share', share],
    ...['--apply-ms', String(applyMs)],
  ])

async function eventsOf({ adminPort }: Replica): Promise<ReadonlyMap<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
  return new Map(
    text.split('\n').flatMap((line) => {
      const found = EVENTS.exec(line)
      return found === null ? [] : [[found[1]!, Number(found[2])] as const]
    }),
  )
}
const countOf = async (replica: Replica, what: string) => (await eventsOf(replica)).get(what) ?? 0
/** It comes to where the chain is now. */
async function follows({ node }: Replica): Promise<boolean> {
  const head = await headOf(chain.node.url)
  return until(async () => (await headOf(node.url)) >= head, PATIENCE_MS)
}
const grows = async (replica: Replica, what: string, by: number) => {
  const from = await countOf(replica, what)
  return until(async () => (await countOf(replica, what)) >= from + by, PATIENCE_MS)
}
const comparerOf = ({ node }: Replica) =>
  createComparer({
    ...{ leader: chain.node.url, follower: node.url, world: chain.load.world, random },
    ...{ isLazy: false, oldest: 0 },
  })

async function sameAnswers(name: string, replica: Replica, count = COMPARISONS): Promise<void> {
  const compared = await compareFor(comparerOf(replica), { count, withinMs: PATIENCE_MS })
  check(
    `${name}: answers are the chain's own`,
    compared.total >= count / 2 && compared.differences.length === 0,
    told(compared),
  )
}

/** @param before what it had counted when it followed */
async function shares(
  name: string,
  replica: Replica,
  before: ReadonlyMap<string, number>,
): Promise<void> {
  const events = await eventsOf(replica)
  const of = (what: string) => (events.get(what) ?? 0) - (before.get(what) ?? 0)
  const shown = ['applied', 'executed', 'verified'].map(
    (what) => `${what} ${of(`flashblock_${what}`)}`,
  )
  check(
    `${name}: most flashblocks are applied, none by a leader that is wrong`,
    of('flashblock_applied') > 2 * of('flashblock_executed') && of('leader_dropped') === 0,
    `${shown.join(', ')}, late ${of('diff_missed')}`,
  )
}

async function honest(leader: Replica, replicas: readonly Replica[]): Promise<Replica> {
  const names = ['applies all', 'applies with 5 %']
  for (const [at, replica] of replicas.entries()) {
    check(`${names[at]}: follows`, await follows(replica))
    check(`${names[at]}: applies`, await grows(replica, 'flashblock_applied', 20))
  }
  const before = await Promise.all(replicas.map(eventsOf))
  await Promise.all(replicas.map((replica, at) => sameAnswers(names[at]!, replica)))
  for (const [at, replica] of replicas.entries()) await shares(names[at]!, replica, before[at]!)
  const verified = await until(
    async () => (await countOf(replicas[1]!, 'flashblock_verified')) > 0,
    PATIENCE_MS,
  )
  check('applies with 5 %: some were executed besides, and came out the same', verified)

  await leader.node.stop('SIGKILL')
  const [first] = replicas
  check(
    'the leader is killed: everything is executed',
    await grows(first!, 'flashblock_executed', 10),
  )
  await sameAnswers('without a leader', first!, COMPARISONS / 3)
  const again = await startTheLeader()
  check('the leader is back: it is applied again', await grows(first!, 'flashblock_applied', 10))
  await sameAnswers('with the leader again', first!, COMPARISONS / 3)
  for (const { node } of replicas) check('a replica ends with 0', (await node.stop()) === 0)
  return again
}

/** Two accounts that nothing else sends from, each time with the same nonce, until it is over. */
async function sendPairs(isOver: () => boolean): Promise<void> {
  const accounts = DEV_ACCOUNTS.slice(4, 6).map(({ privateKey }) =>
    privateKeyToAccount(privateKey as Hex),
  )
  for (; !isOver(); pairs++) {
    const signed = accounts.map((account) =>
      account.signTransaction({
        ...{ chainId: 196, type: 'eip1559', nonce: pairs, gas: 21_000n, to: account.address },
        ...{ maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 1_000_000n },
      }),
    )
    const params = (await Promise.all(signed)).map((raw) => [raw])
    await callMany(`${chain.node.url}/flashblocks`, 'eth_sendRawTransaction', params)
    const head = await headOf(chain.node.url)
    await until(async () => isOver() || (await headOf(chain.node.url)) > head, PATIENCE_MS)
  }
}
let pairs = 0

async function plantAll(leader: Replica, which: string, all: readonly Planted[]): Promise<void> {
  const target = leader.node.url.replace('http', 'ws')
  const spoilers: Spoiler[] = []
  for (const _ of all) spoilers.push(await startSpoiler(target, token))
  const replica = await replicate(
    spoilers.map(({ url }) => url),
    '0',
    PLANTED_APPLY_MS,
  )
  check(`${which}: applies`, await follows(replica))
  for (const [at, { name, plant, kind, needsPair }] of all.entries()) {
    const spoiler = spoilers[at]!
    spoiler.lead()
    await grows(replica, 'flashblock_applied', 3)
    const isDropped = () =>
      until(async () => (await countOf(replica, 'leader_dropped')) === at + 1, FOUND_MS)
    let isFound = false
    let isOver = false
    const sending = needsPair === true ? sendPairs(() => isOver) : undefined
    // What a later flashblock of the block writes again is right at its root.
    for (let tries = 0; tries < PLANTED_AT_MOST && !isFound; tries++) {
      await Promise.race([spoiler.plant(plant), isDropped()])
      isFound = await isDropped()
    }
    isOver = true
    await sending
    const log = replica.node.output()
    const isNamed =
      log.includes(`leader ${at} (`) && log.includes(`is not believed any more, ${kind}`)
    check(`${which}: ${name} is found (${kind}), its leader dropped`, isFound && isNamed)
    await sameAnswers(`${which}: after ${name}`, replica, COMPARISONS / 15)
  }
  check(`${which}: then everything is executed`, await grows(replica, 'flashblock_executed', 5))
  const mismatches = await countOf(replica, 'canonical_mismatch')
  check(`${which}: no canonical block was refused for it`, mismatches === 0, String(mismatches))
  check(`${which}: ends with 0`, (await replica.node.stop()) === 0)
  for (const spoiler of spoilers) spoiler.stop()
}

const leader = await startTheLeader()
const url = `ws://127.0.0.1:${leaderPort}/feed?enrich=1`
const response = await fetch(`http://127.0.0.1:${leaderPort}/feed?enrich=1`, {
  headers: { connection: 'upgrade', upgrade: 'websocket' },
}).catch((error: Error) => error)
check('the leader gives nothing without its token', !(response instanceof Response) || !response.ok)
let newest = leader
if (only.includes('honest'))
  newest = await honest(
    leader,
    await Promise.all(['0', '0.05'].map((one) => replicate([url], one))),
  )
await Promise.all([
  ...(only.includes('planted') ? [plantAll(newest, 'planted', PLANTED)] : []),
  ...(only.includes('missent') ? [plantAll(newest, 'missent', MISSENT)] : []),
  ...(only.includes('mistold') ? [plantAll(newest, 'mistold', MISTOLD)] : []),
])
await chain.load.stop().catch((error: Error) => check('the load', false, error.message))
check('the leader ends with 0', (await newest.node.stop()) === 0)
check('the chain ends with 0', (await chain.node.stop()) === 0)
close()
process.exit()
