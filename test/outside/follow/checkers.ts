/**
 * Third-party checkers run on a follower, where their data is available. The properties of the
 * chain's own node must hold for its follower.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { requestsBackwards } from '../../kit/coherence.ts'
import { KEYS } from '../../kit/node.ts'
import { startFollower, temporary, withMetrics } from './nodes.ts'
import type { Around, Section } from './section.ts'

const DIRECTORY = process.env['CONFORMANCE_DIR'] ?? '../shared/conformance'

const hasSets = () => existsSync(`${DIRECTORY}/run.sh`)

async function runSet(name: string, args: readonly string[]) {
  let result = await runOnce(name, args)
  for (let tries = 1; tries < 3 && requestsBackwards(result.output); tries++) {
    console.log(`again: ${name}, which asked for logs of a backwards range`)
    result = await runOnce(name, args)
  }
  if (!result.isRight) console.log(result.output.slice(-8_000))
  return result
}

async function runOnce(name: string, args: readonly string[]) {
  const child = spawn(`${DIRECTORY}/run.sh`, [name, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  for await (const chunk of child.stdout) output += chunk
  const found = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/.exec(output)
  const isRight = found !== null && Number(found[1]) > 0 && Number(found[2]) === 0
  return { isRight, line: found?.[0].trim() ?? 'no closing line', output }
}

/**
 * Runs a checker that sends from the first six accounts, which nothing else on the chain may use.
 */
export async function checkCoherence(
  what: string,
  url: string,
  { check, skip }: Pick<Around, 'check' | 'skip'>,
): Promise<void> {
  if (!hasSets()) return skip(what, `no ${DIRECTORY}/run.sh`)
  const coherence = await runSet('fb-coherence', [
    ...['--standard', `${url}/`, '--flashblocks', `${url}/flashblocks`],
    ...['--tps', '20', '--seconds', '30'],
  ])
  check(what, coherence.isRight, coherence.line)
}

async function runCheckers(mode: 'whole' | 'lazy', { leader, check, skip }: Around): Promise<void> {
  if (!hasSets()) return skip(`checkers on a follower, ${mode}`, `no ${DIRECTORY}/run.sh`)
  const { flags, metric } = await withMetrics()
  const follower = await startFollower(leader, {
    datadir: temporary(`checkers-${mode}`),
    upstreams: [`${leader.node.url}/`],
    feeds: [`${leader.node.url.replace('http', 'ws')}/feed`],
    more: ['--state', mode, ...flags],
  })
  try {
    const { url } = follower
    await checkCoherence(`${mode}: fb-coherence on a follower`, url, { check, skip })
    const socket = `${url.replace('http', 'ws')}/flashblocks`
    const subscriptions = await runSet('fb-subscriptions', [
      ...['--ws', socket, '--http', `${url}/flashblocks`],
    ])
    check(
      `${mode}: fb-subscriptions passes on a follower`,
      subscriptions.isRight,
      subscriptions.line,
    )
    const feed = await runSet('fb-feed-check', [
      ...['--feed', `${url.replace('http', 'ws')}/feed`, '--rpc', `${url}/`],
      // The gap between two messages on a busy machine says nothing about the node.
      ...['--key', KEYS[5], '--interval', '200', '--max-gap', '60000'],
    ])
    check(`${mode}: fb-feed-check passes on a follower`, feed.isRight, feed.line)
    const counted = (event: string) =>
      metric(new RegExp(`^flashnode_followed_feed_total\\{.*"${event}"`))
    const [connects, losses] = await Promise.all([counted('connects'), counted('losses')])
    check(
      `${mode}: the follower's feed stayed connected`,
      connects === 1 && losses === 0,
      `${connects} connections, ${losses} lost`,
    )
  } finally {
    await follower.stop('SIGKILL')
  }
}

export const CHECKERS: Readonly<Record<string, Section>> = {
  // The checkers run one after the other, because both send from the same accounts.
  checkers: async (around) => {
    await runCheckers('whole', around)
    await runCheckers('lazy', around)
  },
}
