/**
 * `compare` must find no difference between a node and itself, each planted difference, and a list
 * of differences to anvil.
 */
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startBareAnvil } from '../../../bench/servers.ts'
import type { checks } from '../../kit/checks.ts'
import { temporary } from '../follow/nodes.ts'
import { run, runJson } from './command.ts'
import { REFUSED, type Spoil, startSpoiltProxy } from './spoilt-proxy.ts'

type Found = {
  readonly method: string
  readonly path: string
  readonly kind: string
  readonly a?: unknown
  readonly b?: unknown
}
type Result = {
  readonly asked: number
  readonly differing: number
  readonly kinds: Readonly<Record<string, number>>
  readonly found: readonly Found[]
}
type Planted = Found & { readonly spoil: Spoil }

/** Makes a quantity that is one more. */
const more = (quantity: string) => `0x${(BigInt(quantity) + 1n).toString(16)}`
/** Makes hex of the same length with another last digit. */
const other = (hex: string) => `${hex.slice(0, -1)}${hex.endsWith('1') ? '2' : '1'}`
const planted = (method: string, path: string, kind: string, spoil: Spoil): Planted => ({
  method,
  path,
  kind,
  spoil,
})
const without = (name: string) => (result: object) => {
  const { [name as never]: _, ...rest } = result
  return rest
}
/** Whether the block is requested with full transaction objects. */
const isFull = (params: readonly unknown[]) => params[1] === true

const PLANTED: readonly Planted[] = [
  planted('eth_getBlockByNumber', 'gasUsed', 'wrong', (block) => ({
    ...block,
    gasUsed: more(block.gasUsed),
  })),
  planted('eth_getBlockByNumber', 'transactions', 'order', (block, params) =>
    isFull(params) ? block : { ...block, transactions: block.transactions.toReversed() },
  ),
  planted('eth_getBlockByHash', 'stateRoot', 'wrong', (block) => ({
    ...block,
    stateRoot: other(block.stateRoot),
  })),
  planted('eth_getBlockByHash', 'withdrawalsRoot', 'missing', without('withdrawalsRoot')),
  planted('eth_getBlockTransactionCountByNumber', '', 'wrong', more),
  planted('eth_getBlockReceipts', '[*].cumulativeGasUsed', 'wrong', ([first, ...rest]) => [
    { ...first, cumulativeGasUsed: more(first.cumulativeGasUsed) },
    ...rest,
  ]),
  planted('eth_getBlockReceipts', '[*]', 'missing', (receipts) => receipts.slice(0, -1)),
  planted('eth_getLogs', '', 'order', (logs) => logs.toReversed()),
  planted('eth_feeHistory', 'baseFeePerGas[*]', 'wrong', (history) => ({
    ...history,
    baseFeePerGas: history.baseFeePerGas.map(more),
  })),
  planted('eth_feeHistory', 'reward', 'missing', without('reward')),
  planted('eth_getTransactionByHash', 'from', 'wrong', (one) => ({
    ...one,
    from: other(one.from),
  })),
  planted('eth_getTransactionByHash', 'nonce', 'missing', without('nonce')),
  planted('eth_getTransactionReceipt', 'effectiveGasPrice', 'wrong', (receipt) => ({
    ...receipt,
    effectiveGasPrice: more(receipt.effectiveGasPrice),
  })),
  planted('eth_getTransactionByBlockHashAndIndex', '', 'missing', () => null),
  planted('debug_traceTransaction', 'gasUsed', 'wrong', (frame) =>
    frame.gasUsed === undefined ? frame : { ...frame, gasUsed: more(frame.gasUsed) },
  ),
  planted(
    'debug_traceBlockByNumber',
    '[*].result.type',
    'missing',
    ([{ result, ...one }, ...rest]) => [{ ...one, result: without('type')(result) }, ...rest],
  ),
  planted('eth_call', 'error', 'missing', () => REFUSED),
  planted('eth_estimateGas', '', 'wrong', more),
  planted('eth_getBalance', '', 'wrong', more),
  planted('eth_getCode', '', 'wrong', (code) => `${code}00`),
  planted('eth_getStorageAt', '', 'wrong', other),
  planted('eth_getProof', 'accountProof[*]', 'missing', (proof) => ({
    ...proof,
    accountProof: proof.accountProof.slice(0, -1),
  })),
]

const nameOf = ({ method, path, kind }: Found) =>
  `${method} ${path.replace(/\[\d+\]/g, '[*]')} ${kind}`
const SOME = ['--per-block', '4', '--rate', '1000', '--blocks']
const ANVIL_DEVIATIONS = 'test/outside/operate/anvil-deviations.json'

/**
 * Runs the check.
 * @param blocks a range of blocks with transactions
 */
export async function checkCompare(
  url: string,
  blocks: string,
  { check, skip }: Pick<ReturnType<typeof checks>, 'check' | 'skip'>,
): Promise<void> {
  const same = await runJson<Result>(['compare', `${url}/`, `${url}/`, ...SOME, blocks])
  check(
    'compare finds no difference between a node and itself',
    same.status === 0 && same.result.asked > 100 && same.result.differing === 0,
    `${same.result.asked} questions, ${same.result.differing} differ`,
  )
  await checkPlanted(url, blocks, check)
  await checkAnvil(url, blocks, { check, skip })
}

async function checkPlanted(
  url: string,
  blocks: string,
  check: ReturnType<typeof checks>['check'],
): Promise<void> {
  const spoils: Record<string, Spoil> = {}
  for (const { method, spoil } of PLANTED) {
    const before = spoils[method] ?? ((result) => result)
    spoils[method] = (result, params) => spoil(before(result, params), params)
  }
  const proxy = await startSpoiltProxy(`${url}/`, spoils)
  try {
    const out = temporary('differences')
    const pair = ['compare', `${url}/`, proxy.url]
    const { status, result } = await runJson<Result>([...pair, ...SOME, blocks, '--out', out])
    const found = new Set(result.found.map(nameOf))
    const expected = new Set(PLANTED.map(nameOf))
    const missed = [...expected].filter((name) => !found.has(name))
    const invented = [...found].filter((name) => !expected.has(name))
    check(
      `compare finds each of ${PLANTED.length} planted differences, and no other one`,
      status === 1 && missed.length === 0 && invented.length === 0,
      `${result.asked} questions, missed ${missed.join('; ')}, invented ${invented.join('; ')}`,
    )
    const file = join(out, readdirSync(out).find((name) => name.includes('eth_getBalance'))!)
    const repeated = await runJson<Result>([...pair, '--replay', file])
    const alone = await run(['compare', `${url}/`, `${url}/`, '--replay', file])
    check(
      'compare --replay repeats the question of a written file',
      repeated.status === 1 && repeated.result.asked === 1 && alone.status === 0,
      `${JSON.stringify(repeated.result)} ${alone.out}`,
    )
    const list = join(out, 'known.json')
    const known = PLANTED.map(({ method, path, kind }) => ({ method, path, kind, why: 'planted' }))
    writeFileSync(list, JSON.stringify(known))
    const listed = await runJson<Result>([...pair, ...SOME, blocks, '--known', list])
    check(
      'compare --known accepts the differences of a list',
      listed.status === 0 && listed.result.kinds['known']! > 0,
      JSON.stringify(listed.result.kinds),
    )
  } finally {
    proxy.stop()
  }
}

/**
 * Compares with another client on the same blocks, which fetches forked state from the node and
 * makes its own responses.
 */
async function checkAnvil(
  url: string,
  blocks: string,
  { check, skip }: Pick<ReturnType<typeof checks>, 'check' | 'skip'>,
): Promise<void> {
  const what = 'compare: all differences to anvil, forked from the node, are on the list'
  let anvil: Awaited<ReturnType<typeof startBareAnvil>>
  try {
    anvil = await startBareAnvil(['--fork-url', `${url}/`, '--no-mining'])
  } catch (error) {
    skip(what, `anvil cannot be had: ${(error as Error).message}`)
    return
  }
  try {
    const list = existsSync(ANVIL_DEVIATIONS) ? ['--known', ANVIL_DEVIATIONS] : []
    const { status, result } = await runJson<Result>([
      'compare',
      `${url}/`,
      anvil.url,
      ...SOME,
      blocks,
      ...list,
    ])
    const open = new Set(
      result.found
        .filter(({ kind }) => kind !== 'known')
        .map((one) => `${nameOf(one)} ${JSON.stringify([one.a, one.b]).slice(0, 120)}`),
    )
    check(
      what,
      status === 0 && result.asked > 100,
      `${result.asked} questions, ${JSON.stringify(result.kinds)}, open: ${[...open].join('; ')}`,
    )
  } finally {
    await anvil.stop()
  }
}
