/** Rows of reads, calls and estimates on the initial state of the servers. */
import type { Hex } from '../../engine/primitives/bytes.ts'
import { balanceOf, best, type Call, loop, multicall, quote, swap, transfer } from './calldata.ts'
import { type Group, type Question, type Row, twice } from './row.ts'
import { CALLER, COMPUTE, holder, MULTICALL, ROUTER, TEN_18, TOKENS, word } from './world.ts'

const HOLDERS = 100_000
/**
 * Coprime to the number of holders, so that every holder has a turn before one repeats. Neighbours
 * are far apart.
 */
const STRIDE = 7_919
const LIGHT = 32
const DEAR = 8

const question = (method: string, ...params: readonly unknown[]): Question => ({ method, params })
const call = ({ to, data }: Call): Question =>
  question('eth_call', { from: CALLER, to, data }, 'latest')
const estimate = ({ to, data }: Call): Question =>
  question('eth_estimateGas', { from: CALLER, to, data }, 'latest')

const holderAt = (at: number): number => (at * STRIDE) % HOLDERS
/** Appended data that the contract ignores makes a new request with the same work. */
const marked = (data: Hex, round: number): Hex =>
  round === 0 ? data : `${data}${word(round).slice(2)}`
const roundAt = (at: number, perRound: number): number => Math.floor(at / perRound)

const balanceAt = (at: number): Call => ({
  to: TOKENS[0],
  data: marked(balanceOf(holderAt(at)), roundAt(at, HOLDERS)),
})
const IN_MULTICALL = 50
const IN_BATCH = 100
/** Every fourth request of a batch is a call. */
const CALLS_IN_BATCH = IN_BATCH / 4

/** The calldata around the holders is the same in each multicall. */
const PLACEHOLDER = 'ab'.repeat(20)
const MULTICALL_PARTS = multicall(
  Array.from({ length: IN_MULTICALL }, () => ({
    to: TOKENS[0],
    data: `0x${balanceOf(0).slice(2, -40)}${PLACEHOLDER}` as const,
  })),
).split(PLACEHOLDER)
function multicallAt(at: number): Call {
  const first = at * IN_MULTICALL
  let data = MULTICALL_PARTS[0]!
  for (let n = 0; n < IN_MULTICALL; n++)
    data += `${holder(holderAt(first + n)).slice(2)}${MULTICALL_PARTS[n + 1]}`
  return { to: MULTICALL, data: marked(data as Hex, roundAt(first, HOLDERS)) }
}
/**
 * Iterations that take 10 million gas. Up to 99 more make new requests with nearly the same work.
 */
const ITERATIONS = 17_000
const computeAt = (at: number): Call => ({
  to: COMPUTE,
  data: marked(loop('checkedLoop', ITERATIONS + (at % 100)), roundAt(at, 100)),
})
const amountAt = (at: number): bigint => TEN_18 + BigInt(at)
const within = (share: number) => (result: unknown) =>
  Math.round(Math.log(Number(result)) / Math.log(1 + share))

const blockNumber = question('eth_blockNumber')
const rows: readonly Row[] = [
  {
    name: 'eth_blockNumber',
    connections: LIGHT,
    question: () => blockNumber,
    gist: (result) => typeof result,
  },
  {
    name: 'eth_getBalance',
    connections: LIGHT,
    question: () => question('eth_getBalance', CALLER, 'latest'),
  },
  ...twice({
    name: 'batch of 100 (75 blockNumber, 25 balanceOf)',
    connections: LIGHT,
    request: (at) =>
      Array.from({ length: IN_BATCH }, (_, n) =>
        n % 4 === 3 ? call(balanceAt(at * CALLS_IN_BATCH + (n >> 2))) : blockNumber,
      ),
    gist: (results) => (results as readonly unknown[]).filter((_, n) => n % 4 === 3),
  }),
  ...twice({
    name: 'eth_call balanceOf',
    connections: LIGHT,
    aim: 1,
    request: (at) => call(balanceAt(at)),
  }),
  ...twice({
    name: 'eth_call multicall of 50 balanceOf',
    connections: LIGHT,
    aim: 1.3,
    request: (at) => call(multicallAt(at)),
  }),
  ...twice({
    name: 'eth_call quote over 3 hops',
    connections: LIGHT,
    aim: 1.3,
    request: (at) => call({ to: ROUTER, data: quote(amountAt(at)) }),
  }),
  ...twice({
    name: 'eth_call best of 5 quotes',
    connections: LIGHT,
    aim: 1.3,
    request: (at) => call(best(amountAt(at))),
  }),
  ...twice({
    name: 'eth_call compute, 10 Mgas',
    connections: DEAR,
    aim: 1.5,
    request: (at) => call(computeAt(at)),
  }),
  ...twice({
    name: 'eth_estimateGas ERC-20 transfer',
    connections: LIGHT,
    aim: 1,
    request: (at) =>
      estimate({ to: TOKENS[0], data: transfer(holder(holderAt(at)), BigInt(at + 1)) }),
    // Both servers search, and stop at an approximate result.
    gist: within(0.05),
  }),
  ...twice({
    name: 'eth_estimateGas swap over 3 hops',
    connections: DEAR,
    aim: 1,
    request: (at) => estimate({ to: ROUTER, data: swap(amountAt(at), CALLER) }),
    gist: within(0.05),
  }),
]

export const READS: Group = {
  rows,
  holders: HOLDERS,
  isFilled: true,
  hasBlocks: false,
}
