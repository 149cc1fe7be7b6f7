/** Checks the start of a lazy directory against the hashes that its blocks state of one another. */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeHeader, type Header } from '../../primitives/header.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { orderedRoot } from '../../primitives/ordered-root.ts'
import { decodeStoredReceipt, encodeReceipt } from '../../primitives/receipt-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { Start, StartBlock, StoredHead } from '../types.ts'

export type CheckedStart = Start & {
  /** All headers, oldest first, with their hashes. */
  readonly chain: readonly ChainLink[]
  readonly head: ChainLink
}
export type ChainLink = StoredHead & { readonly rlp: Bytes; readonly header: Header }

/** BLOCKHASH reaches back this far from the executed block. */
export const START_HEADERS = 256

/** The start is no chain that a state can start with. */
export class LazyStartError extends Error {
  override name = 'LazyStartError'
}

/**
 * Checks a start.
 * @throws {LazyStartError} naming the block and its fault; {RlpError} for an invalid header
 */
export function checkStart(start: Start, genesisNumber: number): CheckedStart {
  const { headers, blocks, safe, finalized } = start
  const chain = [...headers, ...blocks.map(({ header }) => header)].map(linkOf)
  const head = blocks.length === 0 ? undefined : chain.at(-1)
  if (head === undefined)
    throw new LazyStartError('a lazy state needs one whole block to begin with')
  for (const [at, link] of chain.entries()) if (at > 0) checkChild(chain[at - 1]!, link)
  for (const [at, block] of blocks.entries()) checkContents(chain[headers.length + at]!, block)
  const reach = Math.min(START_HEADERS, head.number - genesisNumber)
  if (chain.length <= reach)
    throw new LazyStartError(
      `block ${head.number} comes with ${chain.length - 1} ancestors, BLOCKHASH needs ${reach}`,
    )
  for (const [name, number] of [
    ['safe', safe],
    ['finalized', finalized],
  ] as const)
    if (!Number.isSafeInteger(number) || number < 0 || number > head.number)
      throw new LazyStartError(`the ${name} block is ${number}, the newest is ${head.number}`)
  return { ...start, chain, head }
}

function linkOf(rlp: Bytes): ChainLink {
  const header = decodeHeader(rlp)
  return { number: Number(header.number), hash: keccak256(rlp), rlp, header }
}

function checkChild(parent: ChainLink, child: ChainLink): void {
  if (child.number !== parent.number + 1)
    throw new LazyStartError(`block ${child.number} comes after block ${parent.number}`)
  if (!equalBytes(child.header.parentHash, parent.hash))
    throw new LazyStartError(`block ${parent.number} is not the parent that ${child.number} names`)
}

function checkContents({ number, header }: ChainLink, block: StartBlock): void {
  const { transactions, receipts } = block
  if (!equalBytes(orderedRoot(transactions.map(({ raw }) => raw)), header.transactionsRoot))
    throw new LazyStartError(`block ${number}: its transactions are not those of its header`)
  const encoded = receipts.map((receipt) => encodeReceipt(decodeStoredReceipt(receipt)))
  if (!equalBytes(orderedRoot(encoded), header.receiptsRoot))
    throw new LazyStartError(`block ${number}: its receipts are not those of its header`)
}
