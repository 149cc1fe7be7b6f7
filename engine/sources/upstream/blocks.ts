/**
 * Blocks of an upstream, verified against their hash and transactions root, so that their origin
 * need not be trusted.
 * A block that eth_getBlockByNumber does not reproduce exactly comes by debug_getRawBlock, or as
 * single raw transactions.
 */
import type { UpstreamBlock } from '../../chain/types.ts'
import type { Bytes, Hex } from '../../primitives/bytes.ts'
import { hexToBytes, quantity } from '../../primitives/hex.ts'
import { Refusal, readBytes } from '../../primitives/json-fields.ts'
import { RlpError } from '../../primitives/rlp.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import {
  claimedBlock,
  completeBlock,
  type FetchedBlock,
  hashOf,
  type Part,
  readBlock,
  readRawBlock,
} from './block-json.ts'
import type { Upstream } from './client.ts'
import { UpstreamError } from './error.ts'
import type { CallOptions, Settled } from './messages.ts'

export interface BlockReader {
  /**
   * Fetches blocks from `first` on, up to the first that the upstream does not have or give.
   * @throws {UpstreamError} when the first block is not given; 'wrong' when a response is not the
   * requested block
   */
  byNumber(first: number, count: number, options?: CallOptions): Promise<readonly FetchedBlock[]>
}

export function createBlockReader(upstream: Upstream): BlockReader {
  const fallback = createFallback(upstream)

  async function blockOf(json: unknown, number: number, options: CallOptions) {
    const read = readable(upstream.name, number, () => readBlock(json))
    const block = 'block' in read ? read.block : await fallback({ ...read, number }, options)
    if (block.number === number) return block
    throw wrong(upstream.name, `asked for block ${number}, it gave block ${block.number}`)
  }

  async function byNumber(
    first: number,
    count: number,
    options: CallOptions = {},
  ): Promise<readonly FetchedBlock[]> {
    const calls = Array.from({ length: count }, (_, at) => ({
      method: 'eth_getBlockByNumber',
      params: [quantity(first + at), true],
    }))
    const blocks: FetchedBlock[] = []
    try {
      for (const [at, response] of (await upstream.batch(calls, options)).entries()) {
        if ('error' in response) throw response.error
        if (response.result === null) break
        blocks.push(await blockOf(response.result, first + at, options))
      }
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error
      if (blocks.length > 0) return blocks
      // Half the blocks make half the response.
      if (error.kind === 'large' && count > 1) return byNumber(first, count >> 1, options)
      throw error
    }
    return blocks
  }

  return { byNumber }
}

type BlockRequest = Part & { readonly number: number }

/** Makes other ways to fetch a block whose JSON does not reproduce its hash. */
function createFallback(upstream: Upstream) {
  const { name } = upstream
  /** The upstream has refused debug_getRawBlock. */
  let hasNoRawBlocks = false

  async function rawBlock({ number, hash }: BlockRequest, options: CallOptions) {
    if (hasNoRawBlocks) return undefined
    const raw = await given(upstream.call('debug_getRawBlock', [hash], options))
    if (raw === undefined) hasNoRawBlocks = true
    if (raw === undefined || raw === null) return undefined
    return readable(name, number, () => readRawBlock(raw, hash))
  }

  async function withRawTransactions(
    part: BlockRequest,
    options: CallOptions,
  ): Promise<FetchedBlock> {
    const { number, header, why } = part
    if (header === undefined) throw wrong(name, `block ${number}: ${why}`)
    const missing = part.transactions.filter(({ raw }) => raw === undefined)
    const calls = missing.map(({ hash }) => ({
      method: 'eth_getRawTransactionByHash',
      params: [hash],
    }))
    const responses = await upstream.batch(calls, options)
    const hidden = missing.find(
      ({ unknown }, at) => unknown !== undefined && !isGiven(responses[at]!),
    )
    if (hidden !== undefined) return claimedBlock(part, header, hidden)
    const found = new Map<Hex, Bytes>()
    for (const [at, response] of responses.entries()) {
      const { hash } = missing[at]!
      found.set(hash, rawOf(response, part, hash))
    }
    const transactions = part.transactions.map(({ hash, raw }) => raw ?? found.get(hash)!)
    return readable(name, number, () => completeBlock(part.hash, header, transactions))
  }

  function rawOf(response: Settled, { number, why }: BlockRequest, hash: Hex): Bytes {
    if ('error' in response && response.error.kind !== 'refused') throw response.error
    const result = 'error' in response ? undefined : response.result
    if (result === null || result === undefined)
      throw wrong(name, `block ${number}: ${why}, and transaction ${hash} cannot be had as bytes`)
    const raw = readable(name, number, () => readBytes(result, 'eth_getRawTransactionByHash'))
    if (hashOf(raw) === hash) return raw
    throw wrong(name, `block ${number}: the bytes of transaction ${hash} have another hash`)
  }

  return async (part: BlockRequest, options: CallOptions): Promise<FetchedBlock> =>
    (await rawBlock(part, options)) ?? (await withRawTransactions(part, options))
}

const isGiven = (response: Settled): boolean =>
  'error' in response
    ? response.error.kind !== 'refused'
    : response.result !== null && response.result !== undefined

/** Returns the block in the form for the writer. */
export function upstreamBlockOf({ hash, header, transactions }: FetchedBlock): UpstreamBlock {
  return {
    payloadId: '',
    parentHash: header.parentHash,
    parentBeaconBlockRoot: header.parentBeaconBlockRoot ?? ZERO_32,
    coinbase: header.coinbase,
    prevRandao: header.mixHash,
    number: Number(header.number),
    gasLimit: header.gasLimit,
    timestamp: header.timestamp,
    extraData: header.extraData,
    baseFee: header.baseFeePerGas ?? 0n,
    transactions,
    gasUsed: header.gasUsed,
    receiptsRoot: header.receiptsRoot,
    logsBloom: header.logsBloom,
    stateRoot: header.stateRoot,
    withdrawalsRoot: header.withdrawalsRoot,
    hash: hexToBytes(hash),
    blobGasUsed: header.blobGasUsed,
    ...(header.excessBlobGas === undefined ? {} : { excessBlobGas: header.excessBlobGas }),
    requestsHash: header.requestsHash,
  }
}

/** Returns undefined if the upstream has refused the call. */
async function given(response: Promise<unknown>): Promise<unknown> {
  try {
    return await response
  } catch (error) {
    if (error instanceof UpstreamError && error.kind === 'refused') return undefined
    throw error
  }
}

/** @throws {UpstreamError} 'wrong' when `read` finds malformed data */
function readable<T>(name: string, number: number, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof Refusal || error instanceof RlpError)
      throw wrong(name, `block ${number}: ${error.message}`)
    throw error
  }
}

const wrong = (name: string, what: string) => new UpstreamError('wrong', `${name}: ${what}`)
