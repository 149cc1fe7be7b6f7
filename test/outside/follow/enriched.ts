/**
 * A client that applies the enriched feed must have the node's state after each flashblock. The
 * node is the chain's own, or a follower.
 */
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { HANGS_MS } from '../../kit/checks.ts'
import { call, startNode } from '../../kit/node.ts'
import { type EnrichedReader, startReader } from './enriched-reader.ts'
import { headOf, type Leader, until } from './nodes.ts'
import type { Around, Section } from './section.ts'
import type { FeedFault, Wire } from './wires.ts'

const FLASHBLOCKS = 60
const MIN_RESPONSES = 1_000
const FAULT_MS = 2_500
const CUTS = 3

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function enough({ found }: EnrichedReader, flashblocks: number): Promise<boolean> {
  const from = found.flashblocks
  return until(async () => found.flashblocks >= from + flashblocks, HANGS_MS)
}

/** Gives some accounts that may be unchanged since the client started. */
const othersOf = ({ load }: Leader) => load.world.holders.slice(0, 3)

async function close(name: string, reader: EnrichedReader, check: Around['check']): Promise<void> {
  const error = await reader.stop().then(
    () => '',
    (reason: Error) => reason.message,
  )
  const { differences, ...counts } = reader.found
  check(`enriched, ${name}: every message continues the ones before`, error === '', error)
  check(
    `enriched, ${name}: state, receipts and blocks equal the node's own after each flashblock`,
    differences.length === 0 && counts.responses >= MIN_RESPONSES,
    `${JSON.stringify(counts)}${differences.slice(0, 5).map((one) => `\n     ${one.slice(0, 1_500)}`)}`,
  )
}

const onDev: Section = async ({ leader, check }) => {
  const reader = await startReader(leader.node.url, { others: othersOf(leader) })
  check('enriched, dev: flashblocks arrive', await enough(reader, FLASHBLOCKS))
  for (let cut = 0; cut < CUTS; cut++) {
    await reader.reconnect()
    await enough(reader, 5)
  }
  const { resumed } = reader.found
  check(
    'enriched, dev: the client resumes after each cut without a new start',
    resumed === CUTS,
    String(resumed),
  )
  await close('dev', reader, check)
}

const EDITED = `0x${'ed'.repeat(20)}`
const word = (number: number) => `0x${number.toString(16).padStart(64, '0')}`
/**
 * These are the ways in which a test can break the chain. Each entry says whether the client must
 * see removed blocks.
 */
const BREAKS: readonly (readonly [method: string, params: readonly unknown[], removes: boolean])[] =
  [
    ['dev_reorg', [{ depth: 0 }], true],
    ['dev_reorg', [{ depth: 1 }], true],
    ['dev_gap', [], false],
    ['dev_reorg', [{ depth: 4, keep: true }], true],
    ['dev_equivocate', [], false],
    ['dev_silence', [{ ms: 1_500 }], false],
    ['anvil_setBalance', [EDITED, '0x123456789'], false],
    ['evm_snapshot', [], false],
    ['anvil_setCode', [EDITED, '0x60016007556133ff5f526002601ef3'], false],
    ['anvil_setStorageAt', [EDITED, word(7), word(9)], false],
    ['evm_revert', ['0x1'], true],
  ]

/**
 * Runs a separate chain that removes visible blocks: second payloads, flushes, reorgs in diff
 * layers and below them.
 */
const onBreaks: Section = async ({ check }) => {
  const node = await startNode(['--ephemeral', '--rate-limit', 'off', '--pool-threads', '2'])
  const sending = sendAlways(node.url)
  try {
    await until(async () => (await headOf(node.url)) > 1, HANGS_MS)
    const reader = await startReader(node.url, { others: [] })
    check('enriched, breaks: flashblocks arrive', await enough(reader, FLASHBLOCKS / 2))
    for (const [method, params, removes] of BREAKS) {
      const before = reader.found.removed
      const refusal = await refusalOf(node.url, method, params)
      if (refusal !== undefined) {
        check(`enriched, breaks: the node executes ${method}`, false, refusal)
        continue
      }
      const isOn = await enough(reader, 10)
      const removed = reader.found.removed - before
      const what = `enriched, breaks: goes on after ${method} ${JSON.stringify(params)}`
      check(what, isOn && (removed > 0 || !removes), `${removed} blocks removed`)
    }
    await close('breaks', reader, check)
  } finally {
    await sending.stop()
    await node.stop('SIGKILL')
  }
}

/** Gives the reason of a refusal; a chain that is behind its clock gets the request again. */
async function refusalOf(url: string, method: string, params: readonly unknown[]) {
  let refusal: string | undefined = 'never asked'
  await until(async () => {
    refusal = await call(`${url}/`, method, params).then(
      () => undefined,
      ({ message }: Error) => message,
    )
    return refusal === undefined || !NOT_NOW.test(refusal)
  }, NOT_NOW_MS)
  return refusal
}

const NOT_NOW = /is not canonical yet|no flashblock of the block in progress has transactions/
const NOT_NOW_MS = 60_000

/**
 * Sends transfers and creations from an account of the node, which counts the nonces. Removed
 * transactions therefore leave no gap.
 */
function sendAlways(url: string): { stop(): Promise<void> } {
  let isStopped = false
  const from = DEV_ACCOUNTS[1]!.address
  const running = (async () => {
    for (let sent = 0; !isStopped; sent++) {
      const to = `0x${(0x20_0000 + (sent % 50)).toString(16).padStart(40, '0')}`
      const fields = sent % 5 === 0 ? { data: STORING } : { to, value: '0x1' }
      // While the chain goes back a send may be refused.
      await call(`${url}/flashblocks`, 'eth_sendTransaction', [{ from, ...fields }]).catch(() => {})
      await pause(SEND_MS)
    }
  })()
  return {
    async stop() {
      isStopped = true
      await running
    },
  }
}
const SEND_MS = 60
/** The code runs SSTORE(7, 1) and returns a contract of six bytes. */
const STORING = '0x60016007556133ff5f526002601ef3'

/**
 * The feed below a follower is silent, cut and garbage for a while. Canonical blocks complete the
 * received flashblocks, or arrive as a whole.
 */
export async function enrichedByFollower(
  { leader, check }: Around,
  {
    name,
    url,
    feed,
  }: { readonly name: string; readonly url: string; readonly feed: Wire<FeedFault> },
): Promise<void> {
  const reader = await startReader(url, { others: othersOf(leader) })
  check(`enriched, ${name}: flashblocks arrive`, await enough(reader, FLASHBLOCKS / 2))
  for (const fault of ['silence', 'cut', 'garbage'] as const) {
    await feed.fault(fault)
    await pause(FAULT_MS)
    await feed.fault('none')
    check(`enriched, ${name}: flashblocks arrive again after ${fault}`, await enough(reader, 10))
  }
  const { fullBlocks } = reader.found
  check(`enriched, ${name}: the client received full blocks`, fullBlocks > 0, String(fullBlocks))
  await close(name, reader, check)
}

export const ENRICHED: Readonly<Record<string, Section>> = {
  enriched: onDev,
  'enriched-breaks': onBreaks,
}
