/**
 * Measures calls of real bytecode on each engine, and on anvil without HTTP, A B A B. It prints
 * medians of the rounds, in processor time of the process.
 * A call is what a view does: a transaction starts, the message runs, and its changes are reverted;
 * state, code and caches stay. anvil has the same code and slots, and gets batches. The time of a
 * STOP call with the same calldata is subtracted.
 * Usage: npm run bench:engine -- [--rounds 3] [--ms 400] [--engines
 * reference,fast:precise,fast:stream] [--only TEXT] [--no-anvil]
 */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import type { Message, Session } from '../engine/evm/engine.ts'
import { ENGINE_NAMES } from '../engine/evm/engines/names.ts'
import { bytesToHex, hexToBytes } from '../engine/primitives/hex.ts'
import { keccak256 } from '../engine/primitives/keccak.ts'
import { memoryReader } from '../test/fixtures/memory-reader.ts'
import { BLOCK, PRAGUE } from '../test/fixtures/world.ts'
import { engineNamed } from '../test/outside/engine-option.ts'
import { installAnvil, rpc, type Server, startBareAnvil } from './servers.ts'
import { ACCOUNTS, CALL_GAS, WORKLOADS, type Workload } from './workloads/workloads.ts'
import { CALLER } from './workloads/world.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    ms: { type: 'string', default: '400' },
    engines: { type: 'string', default: ENGINE_NAMES.join(',') },
    only: { type: 'string', default: '' },
    'no-anvil': { type: 'boolean', default: false },
  },
})
const rounds = Number(values.rounds)
const sampleMs = Number(values.ms)
/** Calls in one batch for anvil. */
const BATCH = 100
/**
 * The clock of anvil's process has ticks of 10 ms, so its samples are longer. The call and the
 * empty call take turns.
 */
const ANVIL_MS = 2 * sampleMs
const SLICES = 3

type Side = {
  readonly name: string
  prepare(workload: Workload): Promise<{ readonly output: string; readonly gas?: bigint }>
  /** Returns nanoseconds of processor time for a call. */
  measure(workload: Workload): Promise<number>
}

function engineSide(name: string): Side {
  const reader = memoryReader({
    diff: ACCOUNTS.map(({ address, code, storage }) => ({
      address: hexToBytes(address),
      before: undefined,
      after: { nonce: 1n, balance: 0n, codeHash: keccak256(hexToBytes(code)) },
      slots: [...storage].map(([key, value]) => ({
        key: hexToBytes(key),
        before: new Uint8Array(32),
        after: hexToBytes(value),
      })),
      code: hexToBytes(code),
    })),
  })
  const session: Session = engineNamed(name).openSession(reader, BLOCK, PRAGUE)
  const base = session.checkpoint()

  async function call(message: Message) {
    session.startTransaction()
    session.warm(message.from)
    session.warm(message.to!)
    // A synchronous result is not awaited, because awaiting would cost time.
    const running = session.run(message)
    const outcome = 'then' in running ? await running : running
    session.revert(base)
    return outcome
  }
  return {
    name,
    async prepare(workload) {
      const outcome = await call(messageOf(workload))
      if (outcome.status !== 'success')
        throw new Error(`${workload.name}: ${JSON.stringify(outcome, json)}`)
      return { output: bytesToHex(outcome.output), gas: BigInt(CALL_GAS) - outcome.gasLeft }
    },
    async measure(workload) {
      const message = messageOf(workload)
      const cpu = process.cpuUsage()
      const until = performance.now() + sampleMs
      let calls = 0
      for (; performance.now() < until; calls++) await call(message)
      const { user, system } = process.cpuUsage(cpu)
      return ((user + system) * 1_000) / calls
    },
  }
}
const json = (_: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value)

function messageOf({ to, data }: Workload): Message {
  const from = hexToBytes(CALLER)
  return {
    from,
    to: hexToBytes(to),
    value: 0n,
    gas: BigInt(CALL_GAS),
    input: hexToBytes(data),
    origin: from,
    gasPrice: 0n,
  }
}

async function anvilSide(server: Server): Promise<Side> {
  await rpc(server.url, 'anvil_setCode', [STOPPING, '0x00'])
  for (const { address, code, storage } of ACCOUNTS) {
    await rpc(server.url, 'anvil_setCode', [address, code])
    for (const [key, value] of storage)
      await rpc(server.url, 'anvil_setStorageAt', [address, key, value])
  }
  const bodyOf = (workload: Workload) =>
    JSON.stringify(
      Array.from({ length: BATCH }, (_, id) => ({
        jsonrpc: '2.0',
        id,
        method: 'eth_call',
        params: [callOf(workload), 'latest'],
      })),
    )
  async function perCall(workload: Workload): Promise<number> {
    const body = bodyOf(workload)
    const cpu = server.cpuSeconds()
    const until = performance.now() + ANVIL_MS
    let calls = 0
    for (; performance.now() < until; calls += BATCH) {
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(server.url, { method: 'POST', headers, body })
      await response.arrayBuffer()
    }
    return ((server.cpuSeconds() - cpu) * 1e9) / calls
  }
  return {
    name: 'anvil',
    async prepare(workload) {
      return { output: String(await rpc(server.url, 'eth_call', [callOf(workload), 'latest'])) }
    },
    async measure(workload) {
      let [full, empty] = [0, 0]
      for (let slice = 0; slice < SLICES; slice++) {
        full += await perCall(workload)
        empty += await perCall({ ...workload, to: STOPPING })
      }
      return Math.max(0, full - empty) / SLICES
    },
  }
}
/** Address of a contract whose code is STOP. */
const STOPPING = '0x00000000000000000000000000000000000e0e0e'
const callOf = ({ to, data }: Workload) => ({
  from: CALLER,
  to,
  data,
  gas: `0x${CALL_GAS.toString(16)}`,
})

async function row(sides: readonly Side[], workload: Workload): Promise<string> {
  let gas = 0n
  const outputs = new Set<string>()
  for (const side of sides) {
    const response = await side.prepare(workload)
    outputs.add(response.output)
    gas = response.gas ?? gas
  }
  if (outputs.size !== 1) throw new Error(`${workload.name}: two answers ${[...outputs].join(' ')}`)
  for (const side of sides) await side.measure(workload)
  const samples = sides.map((): number[] => [])
  for (let round = 0; round < rounds; round++)
    for (const [at, side] of sides.entries()) samples[at]!.push(await side.measure(workload))
  const medians = samples.map((list) => list.toSorted((a, b) => a - b)[rounds >> 1]!)
  const fields = medians.flatMap((ns) => [
    Math.round(ns).toLocaleString('en'),
    ns > 0 ? ((Number(gas) * 1e3) / ns).toPrecision(3) : '-',
  ])
  const ratios = medians.slice(1).map((ns) => (ns > 0 ? (medians[0]! / ns).toPrecision(3) : '-'))
  return `| ${workload.name} | ${Number(gas).toLocaleString('en')} | ${[...fields, ...ratios].join(' | ')} |`
}

if (!values['no-anvil']) installAnvil()
const server = values['no-anvil'] ? undefined : await startBareAnvil(['--hardfork', 'prague'])
try {
  const names = values.engines.split(',')
  const sides = names.map(engineSide)
  if (server !== undefined) sides.push(await anvilSide(server))
  console.log(
    `${cpus().length} cores, Node ${process.version}, ${rounds} rounds of ${sampleMs} ms\n`,
  )
  const columns = [
    ...sides.flatMap(({ name }) => [`${name} ns`, 'Mgas/s']),
    ...sides.slice(1).map(({ name }) => `${sides[0]!.name} / ${name}`),
  ]
  console.log(`| call | gas | ${columns.join(' | ')} |\n|${'---|'.repeat(columns.length + 2)}`)
  for (const workload of WORKLOADS)
    if (workload.name.includes(values.only)) console.log(await row(sides, workload))
} finally {
  await server?.stop()
}
