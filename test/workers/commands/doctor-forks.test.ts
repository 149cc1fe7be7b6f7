/** `doctor` checks a node's fork times against its eth_config, and the form of its feed. */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { forkLines } from '../../../workers/commands/doctor/forks.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'
import { run, runJson } from '../../outside/operate/command.ts'

const KARST = Math.floor(Date.now() / 1_000) + 100_000
type Line = {
  readonly about: string
  readonly status: string
  readonly says: string
  readonly advice?: string
}
type Result = { readonly lines: readonly Line[] }

describe('doctor on a node with Karst', () => {
  const datadir = join(temporaryDirectory(), 'data')
  const chain = join(datadir, 'genesis.json')
  let node: RunningNode
  beforeAll(async () => {
    const form = ['--feed-form', 'subblocks']
    node = await startNode(['--datadir', datadir, '--fork-time', `karst=${KARST}`, ...form])
  })
  afterAll(async () => expect(await node.stop()).toBe(0))
  const linesOf = async (about: RegExp, ...flags: readonly string[]) => {
    const { result } = await runJson<Result>(['doctor', ...flags])
    return result.lines.filter((line) => about.test(line.about))
  }
  const forks = (...flags: readonly string[]) =>
    linesOf(/ forks$/, '--chain', chain, '--upstream', node.url, ...flags)

  test('reports equal times for the genesis file of the chain', async () => {
    expect(await forks()).toMatchObject([
      { status: 'ok', says: `the same times: those of the genesis; karst at ${KARST}` },
    ])
  })
  test('reports a different time, and the flag that corrects it', async () => {
    const wrong = KARST + 5
    const [line] = await forks('--fork-time', `karst=${wrong}`)
    expect(line).toMatchObject({
      status: 'warning',
      says: `karst starts at ${KARST} on the upstream, and at ${wrong} here`,
    })
    const flag = /--fork-time (\S+)$/.exec(line!.advice!)![1]!
    expect(await forks('--fork-time', flag)).toMatchObject([{ status: 'ok' }])
  })
  test('reports a feed of subblocks', async () => {
    const feed = `${node.url.replace('http', 'ws')}/feed`
    const lines = await linesOf(/ form$/, '--feed', feed, '--feed-ms', '1000')
    const text = expect.stringMatching(/^subblocks without hashes, /)
    expect(lines).toMatchObject([{ status: 'ok', says: text }])
  })
  test('refuses fork times without a chain', async () => {
    const { status, error } = await run(['doctor', '--fork-time', 'karst=5'])
    expect([status, error]).toEqual([2, expect.stringContaining('--fork-time needs --chain')])
  })
})
test('doctor reports a feed of flashblocks with hashes', async () => {
  const node = await startNode(['--ephemeral'])
  try {
    const feed = `${node.url.replace('http', 'ws')}/feed`
    const { result } = await runJson<Result>(['doctor', '--feed', feed, '--feed-ms', '1000'])
    expect(result.lines.find(({ about }) => / form$/.test(about))).toMatchObject({
      says: expect.stringMatching(/^flashblocks with hashes, /),
    })
  } finally {
    expect(await node.stop()).toBe(0)
  }
})

/** The times of eth_config have these reports: OP Mainnet has Jovian, Karst and Lagoon. */
const [JOVIAN, MAINNET_KARST, LAGOON] = [1_764_691_201, 1_783_526_401, 1_799_683_201]
test.each<
  [what: string, head: number, times: readonly (number | null)[], says: string, advice: RegExp]
>([
  [
    'the same times',
    MAINNET_KARST,
    [MAINNET_KARST, LAGOON, LAGOON],
    `ok the same times: karst at ${MAINNET_KARST}; lagoon at ${LAGOON}`,
    /^$/,
  ],
  [
    'an older node',
    MAINNET_KARST + 1,
    [JOVIAN, null, null],
    `error karst starts at ${MAINNET_KARST} here, and never on the upstream`,
    /check whether the upstream runs a version from before the fork; .* --fork-time karst=off$/,
  ],
  [
    'a started fork at another time',
    MAINNET_KARST + 1,
    [MAINNET_KARST - 9, LAGOON, LAGOON],
    `error karst starts at ${MAINNET_KARST - 9} on the upstream, and at ${MAINNET_KARST} here`,
    /--fork-time karst=1783526392$/,
  ],
  [
    'two future forks at other times',
    MAINNET_KARST - 99,
    [JOVIAN, MAINNET_KARST + 5, LAGOON + 5],
    `warning karst starts at ${MAINNET_KARST + 5} on the upstream, and at ${MAINNET_KARST} here`,
    /--fork-time karst=1783526406$/,
  ],
  [
    'a fork without a name in this version',
    LAGOON + 1,
    [LAGOON, LAGOON + 1_000, LAGOON + 1_000],
    `warning a fork starts at ${LAGOON + 1_000} on the upstream, and none here`,
    /if it is lagoon, start the node with .*; if this version has no such fork, update the node$/,
  ],
])('doctor compares the fork times with eth_config: %s', (_, headSeconds, times, text, advice) => {
  const chain = chainSpec({ name: 'op-mainnet' })
  const [current, next, last] = times.map((time) => time && { activationTime: time })
  const [line] = forkLines('up', { current, next, last }, { chain, headSeconds })
  expect(`${line!.status} ${line!.says}`).toBe(text)
  expect(line!.advice ?? '').toMatch(advice)
})

test('doctor says nothing about forks without a configuration', () => {
  const about = { chain: chainSpec({ name: 'op-mainnet' }), headSeconds: 1 }
  for (const response of [null, {}, { current: null }])
    expect(forkLines('up', response, about)).toEqual([])
})
