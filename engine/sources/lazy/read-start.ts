/** What a lazy state begins with, read of one upstream: headers, the newest blocks whole, safe and finalized. */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { encodeHeader } from '../../primitives/header-codec.ts'
import { bytesToHex, quantity } from '../../primitives/hex.ts'
import { Refusal, readBytes, readObject } from '../../primitives/json-fields.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { encodeStoredReceipt } from '../../primitives/receipt-codec.ts'
import { decodeTransaction, TransactionError } from '../../primitives/transaction-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import { START_HEADERS } from '../../storage/lazy/start.ts'
import type { Start, StartBlock } from '../../storage/types.ts'
import { type BlockReader, createBlockReader } from '../upstream/blocks.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import { decodeHeaderJson } from '../upstream/header-json.ts'
import type { Point } from '../upstream/tracker-types.ts'
import type { CallOptions, Settled } from '../upstream/transport.ts'
import { wrong } from './agree.ts'
import { readReceipts } from './receipt-json.ts'

/** The newest blocks that a start has whole: as far as `eth_gasPrice` looks back. */
export const START_BLOCKS = 20

export type ReadStartOptions = { readonly chain: Pick<ChainSpec, 'genesisNumber'> } & CallOptions

/** @param head the block that it begins after, as most upstreams have it @throws {UpstreamError} */
export async function readStart(
  upstream: Upstream,
  head: Point,
  options: ReadStartOptions,
): Promise<Start> {
  const first = Number(options.chain.genesisNumber)
  const lowest = Math.max(first, head.number - START_HEADERS)
  const lowestWhole = Math.max(first, head.number - START_BLOCKS + 1)
  const [headers, found, safe, finalized] = await Promise.all([
    readHeaders(upstream, { from: lowest, to: lowestWhole - 1 }, options),
    readBlocks(upstream, { from: lowestWhole, to: head.number }, options),
    markOf(upstream, 'safe', options),
    markOf(upstream, 'finalized', options),
  ])
  const { unread, blocks } = found
  const newest = bytesToHex(keccak256(blocks.at(-1)!.header))
  if (newest !== head.hash)
    throw wrong(upstream, `block ${head.number} is ${newest} there, and is to be ${head.hash}`)
  const below = (number: number | undefined) => Math.min(number ?? first, head.number)
  const final = below(finalized)
  // Of two questions: what became final between them is safe too.
  return {
    headers: [...headers, ...unread],
    blocks,
    safe: Math.max(final, below(safe)),
    finalized: final,
  }
}

type FetchedBlock = Awaited<ReturnType<BlockReader['byNumber']>>[number]
type Span = { readonly from: number; readonly to: number }
const numbersOf = ({ from, to }: Span): readonly number[] =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at)

/** RLP; held to one another by who takes them. */
async function readHeaders(
  upstream: Upstream,
  span: Span,
  options: CallOptions,
): Promise<readonly Bytes[]> {
  const numbers = numbersOf(span)
  const calls = numbers.map((number) => ({
    method: 'eth_getBlockByNumber',
    params: [quantity(number), false],
  }))
  const answers = await upstream.batch(calls, options)
  return answers.map((answer, at) => {
    if ('error' in answer) throw answer.error
    if (answer.result === null) throw wrong(upstream, `it has no block ${numbers[at]}`)
    return readable(upstream, () =>
      encodeHeader(decodeHeaderJson(readObject(answer.result, `block ${numbers[at]}`))),
    )
  })
}

/** `unread`: headers of the older of them, where a newer one cannot be read here. */
async function readBlocks(
  upstream: Upstream,
  { from, to }: Span,
  options: CallOptions,
): Promise<{ readonly unread: readonly Bytes[]; readonly blocks: readonly StartBlock[] }> {
  const reader = createBlockReader(upstream)
  const blocks: FetchedBlock[] = []
  while (blocks.length < to - from + 1) {
    const next = from + blocks.length
    const more = await reader.byNumber(next, to - next + 1, options)
    if (more.length === 0) throw wrong(upstream, `it has no block ${next}`)
    blocks.push(...more)
  }
  // A block that cannot be read here is kept as a header, and so are those below it.
  const whole = blocks.slice(blocks.findLastIndex(({ unknown }) => unknown !== undefined) + 1)
  if (whole.length === 0) throw wrong(upstream, unknownText(blocks.at(-1)!))
  const receipts = await receiptsOf(upstream, whole, options)
  return {
    unread: blocks.slice(0, blocks.length - whole.length).map(({ header }) => encodeHeader(header)),
    blocks: whole.map((block, at) => startBlock(upstream, block, receipts[at]!)),
  }
}

const unknownText = ({ number, unknown }: FetchedBlock) =>
  `block ${number}: type 0x${unknown!.type.toString(16)} of transaction ${unknown!.at} is not supported`

/** Of each block; one by one where the upstream does not give those of a block at once. */
async function receiptsOf(
  upstream: Upstream,
  blocks: readonly FetchedBlock[],
  options: CallOptions,
): Promise<readonly unknown[]> {
  const calls = blocks.map(({ hash }) => ({ method: 'eth_getBlockReceipts', params: [hash] }))
  const answers = await upstream.batch(calls, options)
  const isRefused = answers.some((one) => 'error' in one && one.error.kind === 'refused')
  if (!isRefused) return answers.map(resultOf)
  const hashes = blocks.map(({ transactions }) => transactions.map(hashOf))
  const single = hashes
    .flat()
    .map((hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] }))
  const receipts = (await upstream.batch(single, options)).map(resultOf)
  let at = 0
  return hashes.map(({ length }) => {
    at += length
    return receipts.slice(at - length, at)
  })
}

/** @throws {UpstreamError} */
function resultOf(answer: Settled): unknown {
  if ('error' in answer) throw answer.error
  return answer.result
}

const hashOf = (raw: Bytes) => bytesToHex(keccak256(raw))

function startBlock(upstream: Upstream, block: FetchedBlock, receipts: unknown): StartBlock {
  const { header, number } = block
  return readable(
    upstream,
    () => ({
      header: encodeHeader(header),
      transactions: block.transactions.map((raw) => {
        const { from, hash } = decodeTransaction(raw)
        return { raw, from, hash }
      }),
      receipts: readReceipts(receipts).map(encodeStoredReceipt),
      tail: undefined,
    }),
    `block ${number}: `,
  )
}

/** Nothing becomes final by a number that is not its header's. undefined: it has none, or does not know the tag. */
async function markOf(
  upstream: Upstream,
  tag: 'safe' | 'finalized',
  options: CallOptions,
): Promise<number | undefined> {
  try {
    const json = await upstream.call('eth_getBlockByNumber', [tag, false], options)
    if (json === null) return undefined
    return readable(upstream, () => {
      const block = readObject(json, `${tag} block`)
      const header = decodeHeaderJson(block)
      if (!equalBytes(keccak256(encodeHeader(header)), readBytes(block['hash'], 'hash', 32)))
        throw wrong(upstream, `its ${tag} block is not what its hash says`)
      return Number(header.number)
    })
  } catch (error) {
    if (error instanceof UpstreamError && error.kind === 'refused') return undefined
    throw error
  }
}

function readable<T>(upstream: Pick<Upstream, 'name'>, read: () => T, where = ''): T {
  try {
    return read()
  } catch (error) {
    if (
      error instanceof Refusal ||
      error instanceof TransactionError ||
      error instanceof RangeError
    )
      throw wrong(upstream, `${where}${error.message}`)
    throw error
  }
}
