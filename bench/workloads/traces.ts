/**
 * Rows of traces of heavy transactions: swaps and transfers, one transaction in a block, the same
 * on both chains.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { quantity } from '../../engine/primitives/hex.ts'
import { rpc, type Server } from '../servers.ts'
import { type Call, multicall, swap, transfer } from './calldata.ts'
import { included } from './fill.ts'
import type { Group, Row } from './row.ts'
import { SENDERS, sign } from './signed.ts'
import { accountsOf, CALLER, holder, MULTICALL, ROUTER, TEN_18, TOKENS } from './world.ts'

/** More transactions than any server caches after replaying them. */
const TRANSACTIONS = 12
const HOLDERS = 1_000
const SWAPS = 6
const TRANSFERS = 20
const GAS_LIMIT = 4_000_000n
const MIN_GAS = 1_000_000
const CONNECTIONS = 4

const heavy = (number: number): readonly Call[] => [
  ...Array.from({ length: SWAPS }, (_, n) => ({
    to: ROUTER,
    data: swap(TEN_18 + BigInt(number * SWAPS + n), MULTICALL),
  })),
  ...Array.from({ length: TRANSFERS }, (_, n) => ({
    to: TOKENS[0],
    data: transfer(holder(1_000_000 + number * TRANSFERS + n), 1n),
  })),
]
const signed = Array.from({ length: TRANSACTIONS }, (_, number) =>
  sign(
    { to: MULTICALL, value: 0n, gasLimit: GAS_LIMIT, data: multicall(heavy(number)) },
    { account: number % SENDERS, nonce: Math.floor(number / SENDERS) },
  ),
)

type Config = { readonly tracer?: string; readonly tracerConfig?: object }
/**
 * Base of a trace's timeout. Each request adds a millisecond, which makes it unique with the same
 * work.
 */
const MAX_MS = 20_000
const traced = (name: string, config: Config, more: Partial<Row>): Row => ({
  name: `debug_traceTransaction ${name}`,
  connections: CONNECTIONS,
  ...more,
  question: (at) => ({
    method: 'debug_traceTransaction',
    params: [signed[at % TRANSACTIONS]!.hash, { ...config, timeout: `${MAX_MS + at}ms` }],
  }),
})

const rows: readonly Row[] = [
  traced('callTracer', { tracer: 'callTracer' }, { aim: 1.5, gist: frames }),
  traced('prestateTracer', { tracer: 'prestateTracer' }, { aim: 1.5, gist: touched }),
  traced(
    'prestateTracer, diffMode',
    { tracer: 'prestateTracer', tracerConfig: { diffMode: true } },
    { aim: 1.5, gist: (result) => touched((result as { readonly post: State }).post) },
  ),
  traced('4byteTracer', { tracer: '4byteTracer' }, { gist: sorted }),
  traced(
    'flatCallTracer',
    { tracer: 'flatCallTracer' },
    { isPeerOptional: true, gist: (result) => (Array.isArray(result) ? result.length : undefined) },
  ),
]
/**
 * Both servers execute a traced call, while anvil answers a traced transaction from cached frames.
 */
const tracedCall = (tracer: string, gist: (result: unknown) => unknown): Row => ({
  name: `debug_traceCall ${tracer}`,
  connections: CONNECTIONS,
  gist,
  question: (at) => ({
    method: 'debug_traceCall',
    params: [
      { from: CALLER, to: MULTICALL, gas: GAS, data: calldata[at % TRANSACTIONS] },
      'latest',
      { tracer, timeout: `${MAX_MS + at}ms` },
    ],
  }),
})
const GAS = quantity(GAS_LIMIT)
const calldata = Array.from({ length: TRANSACTIONS }, (_, number) => multicall(heavy(number)))
const callRows = [tracedCall('callTracer', frames), tracedCall('prestateTracer', touched)]

const stepRows: readonly Row[] = [traced('struct log', {}, { gist: steps })]

const chain = { holders: HOLDERS, hasBlocks: true, prepare: include } as const
export const TRACES: readonly Group[] = [
  { rows: [...rows, ...callRows], ...chain },
  { rows: stepRows, ...chain, hasSteps: true },
]

async function include(servers: readonly Server[]): Promise<void> {
  for (const { raw, hash } of signed) {
    for (const { url } of servers) await rpc(url, 'eth_sendRawTransaction', [raw])
    for (const server of servers) {
      const { gasUsed, blockNumber } = await included(server, hash)
      if (Number(gasUsed) < MIN_GAS) throw new Error(`${server.name}: ${Number(gasUsed)} gas`)
      // The next transaction goes into a later block.
      while (Number(await rpc(server.url, 'eth_blockNumber', [])) < Number(blockNumber))
        await sleep(50)
    }
  }
}

type Frame = { readonly [Key in 'type' | 'to' | 'input' | 'gasUsed']: string } & {
  readonly calls?: readonly Frame[]
}
/** Returns type, receiver, input and gas of each call. */
function frames(result: unknown): unknown {
  const { type, to, input, gasUsed, calls = [] } = result as Frame
  return [type, to, input, gasUsed, calls.map(frames)]
}

type State = Readonly<Record<string, { readonly storage?: Readonly<Record<string, string>> }>>
const CONTRACTS: ReadonlySet<string> = new Set(accountsOf(0).map(({ address }) => address))
/**
 * Returns contracts and their slots; other accounts differ, because fees of an OP chain go to other
 * accounts.
 */
function touched(result: unknown): unknown {
  return Object.entries(result as State)
    .filter(([address]) => CONTRACTS.has(address))
    .map(([address, { storage = {} }]) => [address, Object.keys(storage).toSorted()])
    .toSorted()
}

function sorted(result: unknown): unknown {
  return Object.entries(result as object).toSorted()
}

function steps(result: unknown): unknown {
  const { failed, structLogs } = result as {
    readonly failed: boolean
    readonly structLogs: readonly { readonly pc: number; readonly op: string }[]
  }
  return [failed, structLogs.map(({ pc, op }) => `${pc} ${op}`).join()]
}
