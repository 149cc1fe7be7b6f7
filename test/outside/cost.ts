/**
 * This check searches for inputs that are expensive to read. Such an input occupies the front too
 * long, or costs too much processor time for its points. It may also allocate too much for its
 * bytes.
 * Usage: npm run cost [-- --seconds N] [--seed S] [--replay CASE] [--planted [--only REGEX]]
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { methods } from '../../rpc/methods/index.ts'
import { checks } from '../kit/checks.ts'
import { mulberry32, runOptions } from '../kit/run-options.ts'
import { type Found, repeated, simplified } from './cost/confirm.ts'
import { type MeasuredNode, startMeasured } from './cost/measured-node.ts'
import { PLANTED, type Planted } from './cost/planted.ts'
import { diceOf } from './cost/random.ts'
import { costText, type Ratios, RULES, type Rule, ratiosOf, worstOf } from './cost/rules.ts'
import { createSearch } from './cost/search.ts'
import { type Case, describe } from './cost/wire.ts'

const LIMIT: Readonly<Record<Rule, string>> = {
  stretch: 'no input holds the front for more than 20 ms at a stretch',
  processor: 'no input takes more than 2 ms of the front for each point',
  allocation: 'no input makes the front allocate more than 256 kB and 24 times its bytes',
}
/** This many findings are printed; further ones are only counted. */
const PRINTED = 12
const SIMPLER_TRIES = 40
const WARM_TIMES = 300
/**
 * An input must cost this many times more in a test build. An input that is expensive in the
 * product too finds no planted fault.
 */
const DEARER = 3
const TURNS = 4

const { seconds, seed, random, own } = runOptions(
  'cost',
  { full: 60, short: 60 },
  { replay: { type: 'string' }, planted: { type: 'boolean' }, only: { type: 'string' } },
)
const { check, close } = checks('cost')
const node = await startMeasured()
try {
  await warm(node)
  if (typeof own['replay'] === 'string') await replay(own['replay'])
  else if (own['planted'] === true) await findAll()
  else await search()
} finally {
  await node.stop()
}
close()

async function findAll(): Promise<void> {
  const wanted = new RegExp(String(own['only'] ?? ''))
  for (const build of PLANTED) if (wanted.test(build.name)) await findPlanted(build)
}

/** Searches for an input that distinguishes a test build from the product. */
async function findPlanted({ name, edits }: Planted): Promise<void> {
  const planted = await startMeasured(edits)
  try {
    await warm(planted)
    const searching = createSearch({
      node: planted,
      methods: methods.values(),
      dice: diceOf(mulberry32(seed)),
    })
    const started = performance.now()
    const elapsed = () => (performance.now() - started) / 1_000
    while (elapsed() < seconds) {
      const found = await searching.next()
      if (found === undefined) continue
      if (!(await isDearer(found.one, planted, node))) continue
      const when = `after ${elapsed().toFixed(1)} s and ${searching.tried} inputs`
      check(name, true, `${when}: ${lineOf(found)}`)
      return
    }
    check(name, false, `not found in ${seconds} s and ${searching.tried} inputs`)
  } finally {
    await planted.stop()
  }
}

/**
 * Whether an input is more expensive by one of the rules. Both nodes are measured in turns, so that
 * other load affects both alike.
 */
async function isDearer(one: Case, planted: MeasuredNode, plain: MeasuredNode): Promise<boolean> {
  const ratios: { readonly planted: Ratios; readonly plain: Ratios }[] = []
  for (let turn = 0; turn < TURNS; turn++)
    ratios.push({
      planted: ratiosOf(await planted.measure(one)),
      plain: ratiosOf(await plain.measure(one)),
    })
  return RULES.some((rule) =>
    ratios.every((turn) => turn.planted[rule] > Math.max(1, DEARER * turn.plain[rule])),
  )
}

async function search(): Promise<void> {
  const until = performance.now() + seconds * 1_000
  const searching = createSearch({ node, methods: methods.values(), dice: diceOf(random) })
  const all: Found[] = []
  while (performance.now() < until) {
    const found = await searching.next()
    if (found === undefined) continue
    all.push(found)
    await searching.blame(found.one)
    if (all.length <= PRINTED) console.log(`  ${lineOf(found)}`)
  }
  console.log(`${searching.tried} inputs tried in ${seconds} s, ${all.length} of them too dear`)
  const still = await stillExpensive(all)
  for (const rule of RULES) {
    const worst = searching.worst(rule)
    console.log(`the worst by ${rule}:`)
    for (const found of worst) console.log(`  ${found.ratios[rule].toFixed(2)} ${lineOf(found)}`)
    const broken = still.filter(({ ratios }) => ratios[rule] > 1)
    const first = broken.toSorted((a, b) => b.ratios[rule] - a.ratios[rule])[0]
    const line = first === undefined ? '' : lineOf(await simplified(node, first, SIMPLER_TRIES))
    check(LIMIT[rule], broken.length === 0, line)
  }
  check('more than one input a second was tried', searching.tried > seconds)
}

/** Measures the findings again, because the machine may have been slow for some seconds. */
async function stillExpensive(all: readonly Found[]): Promise<readonly Found[]> {
  const still: Found[] = []
  for (const { one } of all) {
    const cost = await repeated(node, one)
    const ratios = ratiosOf(cost)
    if (worstOf(ratios) > 1) still.push({ one, cost, ratios })
  }
  return still
}

async function replay(text: string): Promise<void> {
  const one = read(text)
  console.log(describe(one))
  const cost = await repeated(node, one)
  const ratios = ratiosOf(cost)
  for (const rule of RULES) check(LIMIT[rule], ratios[rule] <= 1, costText(cost))
}

/** Warms up the node, because code that has not run yet is slow at first. */
async function warm(node: MeasuredNode): Promise<void> {
  const body = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
  const plain = { body, pieces: [], writes: [], headers: '', part: 1, frame: 'text' } as const
  for (const over of ['http', 'websocket'] as const)
    await node.measure({ ...plain, over, path: '/', times: WARM_TIMES })
}

function lineOf({ one, cost }: Found): string {
  return `${describe(one).slice(0, 240)}: ${costText(cost)}; --replay ${written(one)}`
}
function written(one: Case): string {
  return deflateRawSync(JSON.stringify(one)).toString('base64url')
}
function read(text: string): Case {
  // Older cases have no frame type, because all frames were text then.
  const one: Case = JSON.parse(inflateRawSync(Buffer.from(text, 'base64url')).toString())
  return { ...one, frame: one.frame ?? 'text' }
}
