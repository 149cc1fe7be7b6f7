/**
 * Measures polled quotes at `pending` beside flashblocks of transfers: responses of a CPU-second,
 * and where they came from. Servers with and without results that outlive a flashblock take turns,
 * A B A B. Both run all the time with the same transfers.
 * Usage: npm run bench:results -- [--rounds 3] [--seconds 10] [--connections 32] [--questions 1000]
 * [--transfers 50, of a flashblock]
 */
import { rmSync } from 'node:fs'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { freePort } from '../test/kit/free-port.ts'
import { load } from '../workers/commands/bench/load.ts'
import { rpc, type Server, startCommand } from './servers.ts'
import { balanceOf, best, quote, transfer } from './workloads/calldata.ts'
import { writeGenesis } from './workloads/genesis.ts'
import { SENDERS, sign } from './workloads/signed.ts'
import { CALLER, holder, ROUTER, TEN_18, TOKENS } from './workloads/world.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '10' },
    connections: { type: 'string', default: '32' },
    questions: { type: 'string', default: '1000' },
    transfers: { type: 'string', default: '50' },
  },
})
const [rounds, seconds, connections, questions, transfers] = [
  ...[values.rounds, values.seconds, values.connections, values.questions, values.transfers],
].map(Number) as [number, number, number, number, number]
const FLASHBLOCK_MS = 200
const HOLDERS = 10_000

/**
 * Requests that repeat in order: quotes over three hops, the best of five paths, and balances that
 * no transfer changes.
 */
const BODIES = Array.from({ length: questions }, (_, n) => {
  const amount = TEN_18 + BigInt(n)
  const call = [
    { to: ROUTER, data: quote(amount) },
    best(amount),
    { to: TOKENS[0], data: balanceOf(HOLDERS / 2 + n) },
  ][n % 3]!
  const params = [{ from: CALLER, ...call }, 'pending']
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_call', params })
})

type Side = {
  readonly name: string
  readonly server: Server
  readonly admin: string
  readonly sender: Sender
  requested: number
  readonly samples: Sample[]
}
type Sample = Readonly<Record<'rate' | 'perCpu' | 'hits' | 'carried' | 'p50Ms' | 'p99Ms', number>>

/** Sends transfers, half of the first token and half of ether, to holders that no request reads. */
class Sender {
  readonly #url: string
  #sent = 0
  #timer: NodeJS.Timeout | undefined
  #error: unknown

  constructor(url: string) {
    this.#url = url
  }
  start(): void {
    this.#timer = setInterval(() => this.#send(), FLASHBLOCK_MS)
  }
  /** @throws {Error} if a transfer was refused */
  stop(): void {
    clearInterval(this.#timer)
    if (this.#error !== undefined) throw this.#error
  }
  #send(): void {
    const batch = Array.from({ length: transfers }, () => this.#next())
    fetch(this.#url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `[${batch.join()}]`,
    })
      .then(async (response) => {
        const text = await response.text()
        if (text.includes('"error"')) this.#error ??= new Error(text.slice(0, 300))
      })
      .catch((error: unknown) => {
        this.#error ??= error
      })
  }
  #next(): string {
    const at = this.#sent++
    const to = holder(at % (HOLDERS / 2))
    const draft =
      at % 2 === 0
        ? { to, value: 1n, gasLimit: 21_000n, data: '0x' as const }
        : { to: TOKENS[0], value: 0n, gasLimit: 60_000n, data: transfer(to, 1n) }
    const signer = { account: at % SENDERS, nonce: Math.floor(at / SENDERS) }
    const params = [sign(draft, signer).raw]
    return JSON.stringify({ jsonrpc: '2.0', id: at, method: 'eth_sendRawTransaction', params })
  }
}

async function front(side: Side): Promise<(what: string) => number> {
  const text = await (await fetch(`${side.admin}/metrics`)).text()
  return (what) => {
    const found = new RegExp(`^flashnode_front\\{what="${what}"\\} (.*)$`, 'm').exec(text)
    return found === null ? 0 : Number(found[1])
  }
}

async function measure(side: Side): Promise<Sample> {
  const { server, sender } = side
  sender.start()
  const before = await front(side)
  const cpu = server.cpuSeconds()
  const until = performance.now() + seconds * 1_000
  const loaded = await load({
    url: server.url,
    connections,
    next: () =>
      performance.now() > until ? undefined : { body: BODIES[side.requested++ % BODIES.length]! },
  })
  const spent = server.cpuSeconds() - cpu
  const after = await front(side)
  sender.stop()
  if (loaded.failed > 0) throw new Error(`${side.name}: ${loaded.firstFailure}`)
  const { responses, p50Ms, p99Ms } = loaded
  const counted = (what: string) => (after(what) - before(what)) / responses
  return {
    rate: responses / loaded.seconds,
    perCpu: responses / spent,
    p50Ms,
    p99Ms,
    hits: counted('cacheHits'),
    carried: counted('cacheCarried'),
  }
}

async function start(allocFile: string, name: string, flags: readonly string[]): Promise<Side> {
  const port = await freePort()
  // The last one of a repeated flag counts.
  const own = ['--ephemeral', '--genesis-alloc', allocFile, '--admin-port', String(port)]
  const server = await startCommand(['dev', ...own, ...flags])
  return {
    name,
    server,
    admin: `http://127.0.0.1:${port}`,
    sender: new Sender(server.url),
    requested: 0,
    samples: [],
  }
}

const median = (side: Side, key: keyof Sample): number =>
  side.samples.map((sample) => sample[key]).toSorted((a, b) => a - b)[rounds >> 1]!

async function agree(sides: readonly Side[]): Promise<void> {
  for (const body of BODIES.slice(0, 6)) {
    const { method, params } = JSON.parse(body) as { method: string; params: unknown[] }
    const [a, b] = await Promise.all(sides.map(({ server }) => rpc(server.url, method, params)))
    if (a !== b) throw new Error(`${body}: ${String(a)} and ${String(b)}`)
  }
}

const { allocFile, genesisFile } = writeGenesis({ flashnode: HOLDERS, anvil: 0 })
const sides: Side[] = []
try {
  sides.push(await start(allocFile, 'carried', []))
  sides.push(await start(allocFile, 'not carried', ['--limit-result-cache-reads', '0']))
  await agree(sides)
  for (const side of sides) await measure(side)
  for (let round = 0; round < rounds; round++)
    for (const side of sides) side.samples.push(await measure(side))
} finally {
  for (const { server } of sides) await server.stop()
  for (const file of [allocFile, genesisFile]) rmSync(file)
}

console.log(
  `${cpus().length} cores, Node ${process.version}, ${rounds} rounds of ${seconds} s, ${questions} questions, ${transfers} transfers a flashblock\n`,
)
console.log(
  '| results | /s | /CPU-s | from the cache | carried | p50 / p99 ms |\n|---|---|---|---|---|---|',
)
for (const side of sides) {
  const share = (key: 'hits' | 'carried') => `${(100 * median(side, key)).toFixed(1)} %`
  const times = `${median(side, 'p50Ms').toFixed(2)} / ${median(side, 'p99Ms').toFixed(2)}`
  const fields = [side.name, median(side, 'rate').toFixed(0), median(side, 'perCpu').toFixed(0)]
  console.log(`| ${[...fields, share('hits'), share('carried'), times].join(' | ')} |`)
}
const ratio = sides[0]!.samples
  .map(({ perCpu }, round) => perCpu / sides[1]!.samples[round]!.perCpu)
  .toSorted((a, b) => a - b)[rounds >> 1]!
console.log(`\nanswers of a CPU-second, carried to not carried: ${ratio.toFixed(2)}`)
