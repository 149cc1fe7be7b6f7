/**
 * Blocks of an upstream, each held to its hash and to its transactions root, so that whoever takes one need not trust where it came from.
 * What eth_getBlockByNumber does not give back exactly comes by debug_getRawBlock, or as single raw transactions.
 */
import type { SealedBlock } from '../../chain/types.ts'
import type { Bytes, Hex } from '../../primitives/bytes.ts'
import { hexToBytes, quantity } from '../../primitives/hex.ts'
import { Refusal, readBytes } from '../../primitives/json-fields.ts'
import { RlpError } from '../../primitives/rlp.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import {
  claimedBlock,
  type FetchedBlock,
  hashOf,
  type Part,
  readBlock,
  readRawBlock,
  wholeBlock,
} from './block-json.ts'
import type { Upstream } from './client.ts'
import { UpstreamError } from './error.ts'
import type { CallOptions, Settled } from './transport.ts'

export interface BlockReader {
  /**
   * Blocks from `first` on, one after the other, up to the first that the upstream does not have or does not give.
   * @throws {UpstreamError} the first of them is not given; 'wrong' where what comes is not the block that it says it is
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
      for (const [at, answer] of (await upstream.batch(calls, options)).entries()) {
        if ('error' in answer) throw answer.error
        if (answer.result === null) break
        blocks.push(await blockOf(answer.result, first + at, options))
      }
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error
      if (blocks.length > 0) return blocks
      // Half as many answers are half as long.
      if (error.kind === 'large' && count > 1) return byNumber(first, count >> 1, options)
      throw error
    }
    return blocks
  }

  return { byNumber }
}

type Asked = Part & { readonly number: number }

/** Other ways to a block whose JSON does not give it back exactly. */
function createFallback(upstream: Upstream) {
  const { name } = upstream
  /** It has refused to give a whole block as bytes. */
  let hasNoRawBlocks = false

  async function rawBlock({ number, hash }: Asked, options: CallOptions) {
    if (hasNoRawBlocks) return undefined
    const raw = await given(upstream.call('debug_getRawBlock', [hash], options))
    if (raw === undefined) hasNoRawBlocks = true
    if (raw === undefined || raw === null) return undefined
    return readable(name, number, () => readRawBlock(raw, hash))
  }

  async function withRawTransactions(part: Asked, options: CallOptions): Promise<FetchedBlock> {
    const { number, header, why } = part
    if (header === undefined) throw wrong(name, `block ${number}: ${why}`)
    const missing = part.transactions.filter(({ raw }) => raw === undefined)
    const calls = missing.map(({ hash }) => ({
      method: 'eth_getRawTransactionByHash',
      params: [hash],
    }))
    const answers = await upstream.batch(calls, options)
    const hidden = missing.find(
      ({ unknown }, at) => unknown !== undefined && !isGiven(answers[at]!),
    )
    if (hidden !== undefined) return claimedBlock(part, header, hidden)
    const found = new Map<Hex, Bytes>()
    for (const [at, answer] of answers.entries()) {
      const { hash } = missing[at]!
      found.set(hash, rawOf(answer, part, hash))
    }
    const transactions = part.transactions.map(({ hash, raw }) => raw ?? found.get(hash)!)
    return readable(name, number, () => wholeBlock(part.hash, header, transactions))
  }

  function rawOf(answer: Settled, { number, why }: Asked, hash: Hex): Bytes {
    if ('error' in answer && answer.error.kind !== 'refused') throw answer.error
    const result = 'error' in answer ? undefined : answer.result
    if (result === null || result === undefined)
      throw wrong(name, `block ${number}: ${why}, and transaction ${hash} cannot be had as bytes`)
    const raw = readable(name, number, () => readBytes(result, 'eth_getRawTransactionByHash'))
    if (hashOf(raw) === hash) return raw
    throw wrong(name, `block ${number}: the bytes of transaction ${hash} have another hash`)
  }

  return async (part: Asked, options: CallOptions): Promise<FetchedBlock> =>
    (await rawBlock(part, options)) ?? (await withRawTransactions(part, options))
}

const isGiven = (answer: Settled): boolean =>
  'error' in answer
    ? answer.error.kind !== 'refused'
    : answer.result !== null && answer.result !== undefined

/** What the writer is given. */
export function sealedBlock({ hash, header, transactions }: FetchedBlock): SealedBlock {
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

/** undefined: the upstream has refused. */
async function given(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof UpstreamError && error.kind === 'refused') return undefined
    throw error
  }
}

/** @throws {UpstreamError} 'wrong' where `read` finds something that is none of what it should be */
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
