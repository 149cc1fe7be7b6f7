/**
 * Reads the start of a lazy state from one upstream: headers, the newest full blocks, safe and
 * finalized.
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { encodeHeader } from '../../primitives/header.ts'
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
import type { CallOptions, Settled } from '../upstream/messages.ts'
import type { Point } from '../upstream/tracker-types.ts'
import { wrong } from './agree.ts'
import { readReceipts } from './receipt-json.ts'

/** Newest blocks that a start has in full, as far as `eth_gasPrice` looks back. */
export const START_BLOCKS = 20

export type ReadStartOptions = { readonly chain: Pick<ChainSpec, 'genesisNumber'> } & CallOptions

/**
 * @param head the block after which the state starts, as most upstreams have it
 * @throws {UpstreamError}
 */
export async function readStart(
  upstream: Upstream,
  head: Point,
  options: ReadStartOptions,
): Promise<Start> {
  const first = Number(options.chain.genesisNumber)
  const lowest = Math.max(first, head.number - START_HEADERS)
  const lowestFull = Math.max(first, head.number - START_BLOCKS + 1)
  const [headers, found, safe, finalized] = await Promise.all([
    readHeaders(upstream, { from: lowest, to: lowestFull - 1 }, options),
    readBlocks(upstream, { from: lowestFull, to: head.number }, options),
    markOf(upstream, 'safe', options),
    markOf(upstream, 'finalized', options),
  ])
  const { unread, blocks } = found
  const newest = bytesToHex(keccak256(blocks.at(-1)!.header))
  if (newest !== head.hash)
    throw wrong(upstream, `block ${head.number} is ${newest} there, and is to be ${head.hash}`)
  const below = [...headers, ...unread]
  const chain = [...below, ...blocks.map(({ header }) => header)]
  const numberOf = (mark: Mark | undefined) => {
    if (mark === undefined || mark.number > head.number) return first
    checkMark(upstream, mark, chain[mark.number - lowest])
    return mark.number
  }
  const final = numberOf(finalized)
  // A block that became final between the two calls is safe as well.
  return { headers: below, blocks, safe: Math.max(final, numberOf(safe)), finalized: final }
}

/**
 * Checks that a labelled block is on the chain below the head. If the upstream changed chains
 * between two calls, its final block says nothing of this chain.
 * @param ours the block of that height; undefined: below all blocks read
 */
function checkMark(upstream: Upstream, { tag, number, hash }: Mark, ours: Bytes | undefined): void {
  if (ours === undefined || equalBytes(keccak256(ours), hash)) return
  const is = `is ${bytesToHex(keccak256(ours))} below the head that it gave`
  throw wrong(upstream, `its ${tag} block ${number} is ${bytesToHex(hash)}, and ${is}`)
}

type Mark = {
  readonly tag: 'safe' | 'finalized'
  readonly number: number
  readonly hash: Bytes
}
type FetchedBlock = Awaited<ReturnType<BlockReader['byNumber']>>[number]
type Span = { readonly from: number; readonly to: number }
const numbersOf = ({ from, to }: Span): readonly number[] =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at)

/** Reads headers as RLP; the caller checks that they form a chain. */
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
  const responses = await upstream.batch(calls, options)
  return responses.map((response, at) => {
    if ('error' in response) throw response.error
    if (response.result === null) throw wrong(upstream, `it has no block ${numbers[at]}`)
    return readable(upstream, () =>
      encodeHeader(decodeHeaderJson(readObject(response.result, `block ${numbers[at]}`))),
    )
  })
}

/** Reads blocks. `unread` has headers of older blocks, if a newer block cannot be decoded here. */
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
  // A block that cannot be decoded here is stored as a header, as are those below it.
  const fullBlocks = blocks.slice(blocks.findLastIndex(({ unknown }) => unknown !== undefined) + 1)
  if (fullBlocks.length === 0) throw wrong(upstream, unknownText(blocks.at(-1)!))
  const receipts = await receiptsOf(upstream, fullBlocks, options)
  return {
    unread: blocks
      .slice(0, blocks.length - fullBlocks.length)
      .map(({ header }) => encodeHeader(header)),
    blocks: fullBlocks.map((block, at) => startBlock(upstream, block, receipts[at]!)),
  }
}

const unknownText = ({ number, unknown }: FetchedBlock) =>
  `block ${number}: type 0x${unknown!.type.toString(16)} of transaction ${unknown!.at} is not supported`

/** Reads the receipts of each block, one by one if the upstream does not give a block's at once. */
async function receiptsOf(
  upstream: Upstream,
  blocks: readonly FetchedBlock[],
  options: CallOptions,
): Promise<readonly unknown[]> {
  const calls = blocks.map(({ hash }) => ({ method: 'eth_getBlockReceipts', params: [hash] }))
  const responses = await upstream.batch(calls, options)
  const isRefused = responses.some((one) => 'error' in one && one.error.kind === 'refused')
  if (!isRefused) return responses.map(resultOf)
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
function resultOf(response: Settled): unknown {
  if ('error' in response) throw response.error
  return response.result
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

/**
 * Reads a labelled head, and verifies its hash, so that no wrong number becomes final. undefined:
 * there is none, or the tag is unknown.
 */
async function markOf(
  upstream: Upstream,
  tag: Mark['tag'],
  options: CallOptions,
): Promise<Mark | undefined> {
  try {
    const json = await upstream.call('eth_getBlockByNumber', [tag, false], options)
    if (json === null) return undefined
    return readable(upstream, () => {
      const block = readObject(json, `${tag} block`)
      const header = decodeHeaderJson(block)
      const hash = keccak256(encodeHeader(header))
      if (!equalBytes(hash, readBytes(block['hash'], 'hash', 32)))
        throw wrong(upstream, `its ${tag} block is not what its hash says`)
      return { tag, number: Number(header.number), hash }
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
