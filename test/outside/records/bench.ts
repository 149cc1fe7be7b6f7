/**
 * `bench` compares a node with proxies of it. Their responses are equal, wrong, wrong under load,
 * sometimes missing, or always missing.
 */
import type { Check } from '../../kit/checks.ts'
import type { Edit } from '../../kit/edits.ts'
import { runJson } from '../operate/command.ts'
import { REFUSED, type Spoil, startSpoiltProxy } from '../operate/spoilt-proxy.ts'

type LoadStats = { readonly rate: number; readonly wrong: number; readonly failed: number }
type Result = {
  readonly rows: readonly {
    readonly name: string
    readonly nodes: readonly (LoadStats | null)[]
    readonly unlike: number
  }[]
}

/**
 * The one request of eth_chainId is sent once before the measure; on a busy machine not many more
 * follow in a second.
 */
const BEFORE = 10

/**
 * Each of the 16 workloads runs on both nodes, but for less than a second, because that loads both
 * cores.
 */
const QUICK: readonly Edit[] = [
  {
    file: 'workers/commands/bench/bench.ts',
    find: '(round === 0 ? WARM_MS : config.seconds * 1_000)',
    replace: '(round === 0 ? 20 : config.seconds * 100)',
  },
]

/** Makes a proxy whose first responses are right. */
const later = (spoil: Spoil): Spoil => {
  let requested = 0
  return (result, params) => (++requested > BEFORE ? spoil(result, params) : result)
}
const broken: Spoil = () => {
  throw new Error('planted')
}

export async function checkBench(url: string, check: Check): Promise<void> {
  const honest = await ran(url, {}, [], QUICK)
  const rows = honest.result.rows
  check(
    'bench: a node and a plain proxy: all workloads run without a difference, and it ends with 0',
    honest.status === 0 &&
      rows.length >= 16 &&
      rows.every(
        ({ unlike, nodes }) => unlike === 0 && nodes.every((one) => one !== null && one.rate > 0),
      ),
    rows.map(({ name, nodes }) => `${name} ${nodes.map((one) => one?.rate.toFixed(0))}`).join('; '),
  )
  const only = (name: string) => ['--only', name]
  const unlike = await ran(url, { eth_getBalance: () => '0x7' }, only('eth_getBalance'))
  check(
    'bench counts different responses and ends with 1',
    unlike.status === 1 && unlike.result.rows[0]!.unlike > 0,
    JSON.stringify(unlike.result),
  )
  const wrong = await ran(url, { eth_chainId: later(() => '0x7') }, only('eth_chainId'))
  check(
    'bench counts responses that are wrong under load for their node and ends with 1',
    wrong.status === 1 &&
      wrong.result.rows[0]!.nodes[0]!.wrong === 0 &&
      wrong.result.rows[0]!.nodes[1]!.wrong > 0,
    JSON.stringify(wrong.result),
  )
  const failed = await ran(url, { eth_chainId: later(broken) }, only('eth_chainId'))
  check(
    'bench counts missing responses and ends with 1',
    failed.status === 1 && failed.result.rows[0]!.nodes[1]!.failed > 0,
    JSON.stringify(failed.result),
  )
  const none = await ran(url, { debug_traceTransaction: () => REFUSED }, only('debug_trace'))
  check(
    'bench gives no numbers for a node without the method, and ends with 0',
    none.status === 0 &&
      none.result.rows[0]!.nodes[0]!.rate > 0 &&
      none.result.rows[0]!.nodes[1] === null,
    JSON.stringify(none.result),
  )
}

async function ran(
  url: string,
  spoils: Readonly<Record<string, Spoil>>,
  more: readonly string[],
  edits: readonly Edit[] = [],
) {
  const proxy = await startSpoiltProxy(url, spoils)
  const flags = ['--seconds', '1', '--rounds', '1', '--connections', '4']
  try {
    return await runJson<Result>(['bench', url, proxy.url, ...flags, ...more], edits)
  } finally {
    proxy.stop()
  }
}
