/**
 * The third-party sets run against our own nodes: stock viem and ethers on both endpoints and both
 * chains, bad inputs, and the flashblocks checkers. The sets are outside of the project
 * ($CONFORMANCE_DIR), and their counts are added up.
 * Usage: npm run conformance [-- --front-threads N] [--only NAME,…] [--except NAME,…], of
 * stateTests, corpora, imported, checkers, errors, clients
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { requestsBackwards } from '../kit/coherence.ts'
import { KEYS, type RunningNode, runToEnd, startNode } from '../kit/node.ts'

const { values } = parseArgs({
  options: {
    'front-threads': { type: 'string', default: '1' },
    only: { type: 'string' },
    except: { type: 'string' },
  },
})
const fronts = ['--front-threads', values['front-threads']]
const start = (flags: readonly string[], command?: string): Promise<RunningNode> =>
  startNode([...flags, ...fronts], command)

const directory = process.env['CONFORMANCE_DIR'] ?? '../shared/conformance'
const total = { passed: 0, failed: 0, skipped: 0 }

type Counts = { passed: number; failed: number; skipped: number }
type SetResult = Counts & { readonly output: string; readonly startedMs: number }

const set = (title: string, args: readonly string[]) => counted(title, `${directory}/run.sh`, args)

/** Runs one set, whose own closing line is the result. */
async function counted(title: string, command: string, args: readonly string[]): Promise<void> {
  const startedMs = performance.now()
  let output = await outputOf(command, args)
  for (let tries = 1; tries < TRIES && requestsBackwards(output); tries++) {
    console.log(`again: ${title}, which asked for logs of a backwards range`)
    output = await outputOf(command, args)
  }
  add(title, { ...countsIn(output), output, startedMs })
}

async function outputOf(command: string, args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  for await (const chunk of child.stdout) output += chunk
  return output
}

/** Reads the counts; a set without its closing line counts as one failure. */
function countsIn(output: string): Counts {
  const counts = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/.exec(output)
  const [passed, failed, skipped] = (counts ?? [0, 0, 1, 0]).slice(1).map((n) => Number(n ?? 0))
  return { passed: passed!, failed: failed!, skipped: skipped! }
}

const isWrong = ({ passed, failed }: Pick<Counts, 'passed' | 'failed'>): boolean =>
  failed > 0 || passed === 0

/** Adds a set's counts to the sum and prints them. A set that failed prints its whole output. */
function add(title: string, { output, startedMs, ...counts }: SetResult): void {
  const { passed, failed, skipped } = counts
  if (isWrong(counts)) console.log(output)
  total.passed += passed
  total.failed += isWrong(counts) ? Math.max(1, failed) : 0
  total.skipped += skipped
  const seconds = Math.round((performance.now() - startedMs) / 1000)
  console.log(
    `${isWrong(counts) ? 'FAIL' : 'ok  '} ${title}: ${passed} passed, ${failed} failed, ${skipped} skipped (${seconds} s)`,
  )
}

const expected = ['--expect-fail', 'test/outside/conformance.expect']

/**
 * Log subscriptions are canonical on both endpoints. These flows wait for the event about half a
 * second after the receipt. On /flashblocks the receipt is preconfirmed, so there they wait for a
 * second confirmation first. After a deployment ethers always waits for one, so a write comes
 * between. Otherwise the deployment's own event would count.
 */
const SUBSCRIBED = {
  viem: { flow: 'ws-logs', before: 'deploy' },
  ethers: { flow: 'ws-event', before: 'deploy,write' },
} as const
type Client = keyof typeof SUBSCRIBED

/**
 * These flows sleep for a fixed time and then count events, or destroy a client with open requests.
 * A busy machine fails them. Each is tried up to four times, because a wrong node fails all four.
 */
const SLEEPING: { readonly [client in Client]: RegExp } = {
  viem: /^(watch|ws-)/,
  ethers: /^(on|ws)-/,
}
const TRIES = 4

async function clients(chain: string): Promise<void> {
  const node = await start(['--ephemeral', '--rate-limit', 'off', '--chain', chain, ...PATIENT])
  const keys = KEYS.values()
  const run = (client: Client, path: string, extra: readonly string[] = []) => {
    const at = ['--url', `${node.url}${path}`, '--key', keys.next().value!]
    const args = [...at, '--timeout', '120000', ...expected, ...extra]
    return clientSet(client, `${client} on ${path} of ${chain}`, args)
  }
  const flows = (['viem', 'ethers'] as const).flatMap((client) => {
    const { flow, before } = SUBSCRIBED[client]
    return [
      run(client, '/'),
      run(client, '/flashblocks', ['--skip', flow]),
      run(client, '/flashblocks', ['--only', `${before},${flow}`, '--confirmations', '2']),
    ]
  })
  await Promise.all(flows)
  await node.stop()
}

async function clientSet(client: Client, title: string, args: readonly string[]): Promise<void> {
  const startedMs = performance.now()
  const run = (extra: readonly string[] = []) =>
    outputOf(`${directory}/run.sh`, [client, ...args, ...extra])
  let output = await run()
  const counts = countsIn(output)
  const failures = failuresIn(output)
  const areSleeping = failures.every(({ flow }) => SLEEPING[client].test(flow))
  if (areSleeping && failures.length === counts.failed)
    for (const { flow, line } of failures) {
      console.log(`again on ${title.slice(client.length + 4)}: ${line}`)
      const last = await untilPassed(() => run(['--only', `${SUBSCRIBED[client].before},${flow}`]))
      output += last
      if (isWrong(countsIn(last))) continue
      counts.passed++
      counts.failed--
    }
  add(title, { ...counts, output, startedMs })
}

const failuresIn = (output: string) =>
  [...output.matchAll(/^FAIL [a-z]+:(\S+).*$/gm)].map(([line, flow]) => ({ line, flow: flow! }))

/**
 * Repeats a run until it passes, for a limited number of tries.
 * @returns the output of the last try
 */
async function untilPassed(run: () => Promise<string>): Promise<string> {
  let output = ''
  for (let tries = 1; tries < TRIES; tries++) {
    output = await run()
    if (!isWrong(countsIn(output))) break
    for (const { line } of failuresIn(output)) console.log(`again: ${line}`)
  }
  return output
}

/** A node on a busy machine may need longer for a call than its default limits. */
const PATIENT = [
  '--limit-call-ms',
  '120000',
  '--limit-logs-ms',
  '120000',
  '--limit-trace-ms',
  '120000',
  '--limit-sidecar-ms',
  '120000',
]

/** The clients of recorded responses wait as long. Their default of 5 s is for an idle machine. */
const WAITING = ['--timeout', '120000']

/** The operator fees are set explicitly; L1 fees are always charged. */
const OPERATOR_FEES = ['--operator-fee-scalar', '3', '--operator-fee-constant', '12345']

async function checkers(): Promise<void> {
  const node = await start(['--ephemeral', '--rate-limit', 'off', ...PATIENT, ...OPERATOR_FEES])
  const socket = node.url.replace('http', 'ws')
  await set('fb-coherence', [
    'fb-coherence',
    '--standard',
    `${node.url}/`,
    '--flashblocks',
    `${node.url}/flashblocks`,
    '--tps',
    '50',
    '--seconds',
    '60',
  ])
  await set('fb-feed-check', [
    'fb-feed-check',
    '--feed',
    `${socket}/feed`,
    '--rpc',
    `${node.url}/`,
    '--key',
    KEYS[1],
    '--interval',
    '200',
    // The gap between two messages on a busy machine says nothing about the node.
    '--max-gap',
    '60000',
  ])
  await set('fb-subscriptions', [
    'fb-subscriptions',
    '--ws',
    `${socket}/flashblocks`,
    '--http',
    `${node.url}/flashblocks`,
  ])
  // The latency is measured by hand, on an idle machine.
  await set('fb-latency over WebSocket', [
    'fb-latency',
    '--flashblocks',
    `${node.url}/flashblocks`,
    '--ws',
    `${socket}/flashblocks`,
    '--only',
    'ws-xlayer,ws-base',
    '--max-p99',
    '0',
  ])
  await node.stop()
}

/**
 * Sends bad inputs to a new chain, and compares the errors with those of geth. The deadline of a
 * call is long, so that a busy machine cannot decide the result.
 */
async function errors(): Promise<void> {
  const node = await start(['--ephemeral', '--rate-limit', 'off', '--limit-call-ms', '14000'])
  const at = ['--url', `${node.url}/`, ...expected]
  await set('errors', ['errors', '--key', KEYS[0], ...at])
  await set('errors-ws', ['errors-ws', ...at])
  await node.stop()
}

/**
 * Imports and serves real Ethereum chains; geth's recorded responses are compared, and roots are
 * rebuilt from ours.
 */
async function imported(): Promise<void> {
  const chains = [
    {
      name: 'rpc-compat/tests',
      sets: [
        ['rpc-compat', '--all-methods', ...WAITING],
        ['golden-hive54', ...WAITING],
      ],
    },
    {
      name: 'chain-facts/ethtest-chain',
      sets: [
        ['golden-ethtest', ...WAITING],
        ['chain-facts', '--blocks', '0', '--accounts', '0', '--optional'],
      ],
    },
  ]
  for (const { name, sets } of chains) {
    const datadir = mkdtempSync(join(tmpdir(), 'flashnode-imported-'))
    const files = ['--genesis', 'genesis.json', '--chain', 'chain.rlp'].map((item) =>
      item.startsWith('--') ? item : `${directory}/${name}/${item}`,
    )
    await runToEnd(['import', ...files, '--datadir', datadir])
    const flags = ['--datadir', datadir, '--rate-limit', 'off', '--trace-mode-optional', ...PATIENT]
    const node = await start(flags, 'serve')
    for (const [first, ...options] of sets) {
      const known = first === 'chain-facts' ? [] : expected
      await set(first!, [first!, '--url', `${node.url}/`, ...options, ...known])
    }
    await node.stop()
    if (name.startsWith('rpc-compat')) await precompiles(datadir)
    rmSync(datadir, { recursive: true })
  }
}

/**
 * Compares outputs by eth_call on an Ethereum chain, because OP forks shorten the longest inputs.
 * Three vectors need more gas than the runner gives; they are among those whose gas is checked on
 * the engine alone. The longest vectors take a busy machine longer than a call's default limit.
 */
async function precompiles(datadir: string): Promise<void> {
  const flags = ['--datadir', datadir, '--rate-limit', 'off', ...PATIENT]
  const node = await start(flags, 'serve')
  await set('precompiles', ['precompiles', '--url', `${node.url}/`, '--max-input', '200000'])
  await node.stop()
  await counted('precompiles on the engine', 'npm', ['run', '-s', 'precompiles'])
}

/**
 * A case passes where the engine ends the same in each of its tiers: state, logs, and exception.
 */
/** The sets start commands by a shell, in sessions of their own. */
const RUN = 'exec test/kit/yielding.sh npm run -s'
const STATE_TESTS = `${RUN} statetest -- --engine-tier each`

/**
 * Runs the state tests in halves, one for each processor. Each half runs one case at a time.
 * Responses are matched by id, and some cases share an id.
 */
async function stateTests(): Promise<void> {
  const half = (shard: string) =>
    set(`statetest ${shard}, in each way of the engine`, [
      ...['statetest', '--shard', shard, '--cmd', STATE_TESTS, '--window', '1'],
      ...['--timeout', '600000'],
    ])
  await Promise.all([half('0/2'), half('1/2')])
}

/** Runs recorded blocks and frames without a node. */
async function corpora(): Promise<void> {
  await set('fb-corpus', ['fb-corpus', '--cmd', `${RUN} decode-feed`, ...WAITING])
  await set('op-blocks', ['op-blocks', '--cmd', `${RUN} op-block`])
  await set('tracers', ['tracers', '--cmd', `${RUN} tracetest`, ...WAITING])
}

async function bothClients(): Promise<void> {
  for (const chain of ['xlayer', 'xlayer-testnet']) await clients(chain)
}

const PARTS = { stateTests, corpora, imported, checkers, errors, clients: bothClients }

if (existsSync(`${directory}/run.sh`)) {
  const except = values.except?.split(',') ?? []
  const wanted = values.only?.split(',') ?? Object.keys(PARTS)
  const unknown = [...wanted, ...except].filter((name) => !(name in PARTS))
  if (unknown.length > 0) throw new Error(`no such part: ${unknown.join(', ')}`)
  for (const [name, part] of Object.entries(PARTS))
    if (wanted.includes(name) && !except.includes(name)) await part()
} else {
  console.log(`conformance sets skipped: no ${directory}/run.sh (set CONFORMANCE_DIR)`)
  total.skipped++
}
console.log(`conformance\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`)
process.exitCode = total.failed === 0 ? 0 : 1
