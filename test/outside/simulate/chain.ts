/**
 * This model executes every block of a history plainly, one transaction after the other over maps.
 */

import type { UpstreamBlock } from '../../../engine/chain/types.ts'
import { MESSAGE_PASSER } from '../../../engine/chainspec/genesis.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { buildHeader, openBlock } from '../../../engine/execution/block/block.ts'
import type {
  BlockAttributes,
  BlockExecution,
  ExecutedTransaction,
} from '../../../engine/execution/transaction/types.ts'
import { flashblockJson } from '../../../engine/flashblocks/json.ts'
import { subblockOf } from '../../../engine/flashblocks/subblock.ts'
import type { Flashblock } from '../../../engine/flashblocks/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { type Header, hashHeader } from '../../../engine/primitives/header.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import {
  type GasRefund,
  isSigned,
  type PostExecTransaction,
  type Transaction,
} from '../../../engine/primitives/transaction.ts'
import { makePostExec } from '../../../engine/primitives/transaction-codec.ts'
import { ZERO_32 } from '../../../engine/primitives/words.ts'
import { readAccount } from '../../../engine/state/read.ts'
import type { StateReader } from '../../../engine/state/reader.ts'
import { latin1 } from '../../../engine/state/words.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import { openTrie, type StateTrie, type TrieVersion } from '../../../engine/storage/trie/trie.ts'
import type { Proof } from '../../../engine/storage/types.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { genesisDiff } from '../../fixtures/genesis-diff.ts'
import { memoryReader } from '../../fixtures/memory-reader.ts'
import { attributesOn, baseOf, CHAIN, CHAIN_OPTION, depositOn } from '../../fixtures/producer.ts'
import { type Changes, changed, NO_CHANGES, plainState } from './plain-state.ts'

/** The block after one of its flashblocks. */
export type TruePart = {
  readonly message: Flashblock
  readonly subblock: Flashblock
  /** The hashes of the partial block: with the roots of the flashblock, and without roots. */
  readonly moments: readonly Bytes[]
  /** The transactions of the block so far, with the refunds that this flashblock states. */
  readonly count: number
  readonly executed: readonly ExecutedTransaction[]
  /** The transactions if the block ended here, including its post-exec transaction. */
  readonly executedAtEnd: readonly ExecutedTransaction[]
  readonly changes: Changes
  readonly state: StateReader
  /** The header of the block if it ended here. */
  readonly header: Header
  readonly hash: Bytes
}
export type TrueBlock = {
  readonly number: number
  readonly parent: TrueBlock | undefined
  readonly payloadId: string
  readonly header: Header
  readonly hash: Bytes
  readonly executed: readonly ExecutedTransaction[]
  /** The first block has no flashblocks. */
  readonly parts: readonly TruePart[]
  readonly changes: Changes
  readonly state: StateReader
  readonly trie: TrieVersion
  /** The block that this one imitates with another header, which no execution gives. */
  readonly forged?: TrueBlock
}

/** The style in which the sequencer writes its flashblocks. */
export type Style = {
  /** The target index is stated from index 1 on. */
  readonly hasTarget: boolean
  /** Index 0 has the state root. */
  readonly hasRoot: boolean
  readonly hasBlockNumber: boolean
  /** Blocks refund gas, and each subblock states the refunds so far. */
  readonly hasRefunds: boolean
  /** The gas and the receipts root of subblocks include the refunds. */
  readonly countsRefunds: boolean
}
const LAGOON_CHAIN = chainSpec({ ...CHAIN_OPTION, forkTimes: { karst: 0, lagoon: 0 } })
/** A block before its refunds are drawn: the transactions of each flashblock with their gas. */
type Plain = readonly (readonly { readonly transaction: Transaction; readonly gasUsed: bigint }[])[]
/** Draws the refunds that each flashblock states. */
export type DrawRefunds = (plain: Plain) => readonly (readonly GasRefund[])[]
const noRefunds: DrawRefunds = (plain) => plain.map(() => [])
type Moment = { readonly block: TrueBlock; readonly at: number; readonly part: TruePart }

export type Draw = {
  readonly index: number
  nonceOf(address: Bytes): bigint
}

export class TrueChain {
  readonly spec: ChainSpec
  readonly genesis: TrueBlock
  readonly byHash = new Map<string, TrueBlock>()
  /** Maps payload ids to heights. */
  readonly payloadIds = new Map<string, number>()
  readonly payloads = new Map<string, TrueBlock>()
  /** The keys are hashes of the partial block, in either form. */
  readonly byMoment = new Map<string, Moment[]>()
  /** The key is the hash of the block if it ended with the flashblock. */
  readonly byCut = new Map<string, { readonly block: TrueBlock; readonly at: number }>()
  readonly transactions = new Map<string, Transaction>()
  readonly #style: Style
  readonly #trie: StateTrie
  readonly #genesisState: StateReader
  readonly #codes = new Map<string, Bytes>()
  #payloads = 0

  constructor(style: Style) {
    this.#style = style
    const spec = style.hasRefunds ? LAGOON_CHAIN : CHAIN
    this.spec = spec
    const database = memoryDatabase()
    importGenesis(database, spec)
    this.#trie = openTrie({ database })
    this.#genesisState = memoryReader({ diff: genesisDiff(spec.alloc!) })
    const { genesisHeader: header, genesisHash: hash } = spec
    const number = Number(spec.genesisNumber)
    this.genesis = {
      number,
      parent: undefined,
      payloadId: '',
      header,
      hash,
      executed: [],
      parts: [],
      changes: NO_CHANGES,
      state: this.#stateOf(NO_CHANGES, undefined),
      trie: this.#trie.base(),
    }
    this.byHash.set(latin1(hash), this.genesis)
  }

  /**
   * Builds a block on `parent` with this number of flashblocks. `draw` gives the transactions of
   * each, of which those that do not fit are left out. Where the chain has refunds, `refunds` gives
   * those of each flashblock.
   */
  async build(
    parent: TrueBlock,
    flashblocks: number,
    {
      draw,
      refunds = noRefunds,
    }: { readonly draw: (draw: Draw) => readonly Transaction[]; readonly refunds?: DrawRefunds },
  ): Promise<TrueBlock> {
    const payload = ++this.#payloads
    const payloadId = `0x03${payload.toString(16).padStart(14, '0')}`
    this.payloadIds.set(payloadId, parent.number + 1)
    const attributes = attributesOn(this.spec, parent, payload)
    const execution = openBlock({
      engine: referenceEngine,
      chain: this.spec,
      attributes,
      reader: this.#stateOf(parent.changes, parent),
    })
    await execution.start()
    const trie = this.#trie.fork(parent.trie)
    const parts: TruePart[] = []
    for (let index = 0; index < flashblocks; index++) {
      const { length } = execution.executed
      const since = index === 0 ? undefined : execution.checkpoint()
      if (index === 0) await add(execution, depositOn(this.spec, parent, attributes))
      for (const one of draw({ index, nonceOf: nonces(execution, parent) }))
        await add(execution, one)
      const diff = await execution.diff(since)
      this.#trie.apply(trie, diff)
      const changes = changed((parts.at(-1) ?? parent).changes, diff, this.#codes)
      parts.push(
        this.#part({ execution, trie, changes, parent, from: length }, [
          ...([payloadId, index, flashblocks] as const),
        ]),
      )
    }
    const lists = parts.map(({ count }, at) =>
      execution.executed.slice(parts[at - 1]?.count ?? 0, count),
    )
    execution.close()
    if (this.#style.hasRefunds) {
      const plain = lists.map((list) =>
        list.map(({ transaction, receipt: { gasUsed } }) => ({ transaction, gasUsed })),
      )
      return this.#refunded({ parent, payloadId, attributes, plain }, refunds(plain))
    }
    return this.#add({
      number: parent.number + 1,
      parent,
      payloadId,
      parts,
      trie,
      header: parts.at(-1)!.header,
      hash: parts.at(-1)!.hash,
      executed: [...execution.executed],
      changes: parts.at(-1)!.changes,
      state: parts.at(-1)!.state,
    })
  }

  /**
   * Builds the block of these transactions in which each flashblock states refunds for all
   * transactions so far.
   */
  async #refunded(
    {
      parent,
      payloadId,
      attributes,
      plain,
    }: {
      readonly parent: TrueBlock
      readonly payloadId: string
      readonly attributes: BlockAttributes
      readonly plain: Plain
    },
    stated: readonly (readonly GasRefund[])[],
  ): Promise<TrueBlock> {
    const parts: TruePart[] = []
    /** Earlier flashblocks with the refunds that a later one states. */
    const restated: { readonly at: number; readonly part: TruePart }[] = []
    let trie = parent.trie
    for (const [last, refunds] of stated.entries()) {
      const postExec = refunds.length === 0 ? undefined : makePostExec(attributes.number, refunds)
      trie = this.#trie.fork(parent.trie)
      const made = await this.#stated(
        { parent, payloadId, attributes, trie, postExec },
        {
          lists: plain.slice(0, last + 1),
          flashblocks: plain.length,
        },
      )
      parts.push(made.pop()!)
      for (const [at, part] of made.entries()) restated.push({ at, part })
    }
    const { header, hash, changes, state, executedAtEnd: executed } = parts.at(-1)!
    const number = parent.number + 1
    const block = { number, parent, payloadId, parts, trie, header, hash, changes, state }
    const added = this.#add({ ...block, executed })
    for (const { at, part } of restated) this.#addMoments({ block: added, at, part })
    return added
  }

  /** Executes all flashblocks up to one, with the refunds that it states. */
  async #stated(
    {
      parent,
      payloadId,
      attributes,
      trie,
      postExec,
    }: {
      readonly parent: TrueBlock
      readonly payloadId: string
      readonly attributes: BlockAttributes
      readonly trie: TrieVersion
      readonly postExec: PostExecTransaction | undefined
    },
    { lists, flashblocks }: { readonly lists: Plain; readonly flashblocks: number },
  ): Promise<TruePart[]> {
    const execution = openBlock({
      engine: referenceEngine,
      chain: this.spec,
      attributes: { ...attributes, postExec },
      reader: this.#stateOf(parent.changes, parent),
    })
    await execution.start()
    const parts: TruePart[] = []
    for (const [index, list] of lists.entries()) {
      const { length: from } = execution.executed
      const since = index === 0 ? undefined : execution.checkpoint()
      for (const { transaction } of list) await mustAdd(execution, transaction)
      const diff = await execution.diff(since)
      this.#trie.apply(trie, diff)
      const changes = changed((parts.at(-1) ?? parent).changes, diff, this.#codes)
      const made = { execution, trie, changes, parent, from }
      parts.push(this.#part(made, [payloadId, index, flashblocks]))
    }
    if (postExec !== undefined) parts.push(await this.#ended(parts.pop()!, execution, postExec))
    execution.close()
    return parts
  }

  /** Makes the flashblock with its stated refunds, and its block if it ended here. */
  async #ended(
    part: TruePart,
    execution: BlockExecution,
    postExec: PostExecTransaction,
  ): Promise<TruePart> {
    const stated = (flashblock: Flashblock): Flashblock => {
      const { gasUsed, receiptsRoot, withdrawalsRoot } = flashblock.delta
      const sums = this.#style.countsRefunds
        ? { gasUsed, receiptsRoot }
        : {
            gasUsed: gasUsed + 1n,
            receiptsRoot: ZERO_32,
            // The block of the hash and the roots is not stated either.
            ...(withdrawalsRoot && { withdrawalsRoot: receiptsRoot }),
          }
      return { ...flashblock, delta: { ...flashblock.delta, ...sums, postExec: postExec.raw } }
    }
    await mustAdd(execution, postExec)
    const { attributes, rules } = execution
    const { stateRoot, withdrawalsRoot } = part.header
    const roots = { stateRoot, withdrawalsRoot }
    const header = buildHeader({ rules, attributes, sums: execution.sums(), ...roots })
    const [message, subblock] = [stated(part.message), stated(part.subblock)]
    const executedAtEnd = [...execution.executed]
    return { ...part, message, subblock, header, hash: hashHeader(header), executedAtEnd }
  }

  /** Makes the same block with another header. */
  forge(block: TrueBlock, change: Partial<Header>): TrueBlock {
    const header = { ...block.header, ...change }
    const forged = { ...block, header, hash: hashHeader(header), forged: block }
    this.byHash.set(latin1(forged.hash), forged)
    return forged
  }

  /** Makes a proof like eth_getProof. */
  prove({ trie }: TrueBlock, address: Bytes, keys: readonly Bytes[]): Proof {
    return this.#trie.prove(trie, address, keys)
  }

  #add(block: TrueBlock): TrueBlock {
    this.byHash.set(latin1(block.hash), block)
    this.payloads.set(block.payloadId, block)
    for (const [at, part] of block.parts.entries()) {
      this.#addMoments({ block, at, part })
      if (!this.byCut.has(latin1(part.hash))) this.byCut.set(latin1(part.hash), { block, at })
    }
    for (const { transaction } of block.executed)
      this.transactions.set(latin1(transaction.hash), transaction)
    return block
  }

  #addMoments({ block, at, part }: Moment): void {
    for (const name of new Set(part.moments.map(latin1))) {
      const known = this.byMoment.get(name) ?? []
      if (known.some((one) => one.block === block && one.at === at)) continue
      this.byMoment.set(name, [...known, { block, at, part }])
    }
  }

  #part(
    made: {
      readonly execution: BlockExecution
      readonly trie: TrieVersion
      readonly changes: Changes
      readonly parent: TrueBlock
      readonly from: number
    },
    [payloadId, index, flashblocks]: readonly [string, number, number],
  ): TruePart {
    const { execution, trie, changes, parent, from } = made
    const { attributes, rules, executed } = execution
    const { hasTarget, hasRoot, hasBlockNumber } = this.#style
    const sums = execution.sums()
    const stateRoot = this.#trie.stateRoot(trie)
    const withdrawalsRoot = this.#trie.storageRoot(trie, hexToBytes(MESSAGE_PASSER))
    const header = buildHeader({ rules, attributes, sums, stateRoot, withdrawalsRoot })
    const isRooted = hasRoot && index === 0
    const roots = { stateRoot: isRooted ? stateRoot : ZERO_32, withdrawalsRoot }
    const none = { stateRoot: ZERO_32, withdrawalsRoot: ZERO_32 }
    const moments = [roots, none].map((own) =>
      hashHeader(buildHeader({ rules, attributes, sums, ...own })),
    )
    const { gasUsed, receiptsRoot, logsBloom, blobGasUsed } = sums
    const message: Flashblock = {
      type: 'flashblock',
      payloadId,
      index,
      targetIndex: hasTarget && index > 0 ? flashblocks - 1 : 0,
      base: index > 0 ? undefined : baseOf(attributes),
      delta: {
        stateRoot: isRooted ? stateRoot : undefined,
        withdrawalsRoot,
        receiptsRoot,
        logsBloom,
        gasUsed,
        blobGasUsed,
        blockHash: moments[0]!,
        transactions: executed.slice(from).map(({ transaction }) => transaction.raw),
      },
      blockNumber: hasBlockNumber ? attributes.number : undefined,
    }
    return {
      message,
      subblock: subblockOf(message),
      moments,
      changes,
      header,
      count: executed.length,
      executed: [...executed],
      executedAtEnd: [...executed],
      state: this.#stateOf(changes, parent),
      hash: hashHeader(header),
    }
  }

  /** Makes a state reader; `newest` is the newest block whose hash BLOCKHASH gives. */
  #stateOf(changes: Changes, newest: TrueBlock | undefined): StateReader {
    return plainState(changes, {
      genesis: this.#genesisState,
      codes: this.#codes,
      blockHash: (number) => newest && ancestorAt(newest, Number(number))?.hash,
    })
  }
}

/** Formats the content of a flashblock without hashes and side data. */
export function contentOf(message: Flashblock): string {
  const { base, diff } = flashblockJson(message)
  const { gas_used, receipts_root, logs_bloom, blob_gas_used, transactions, post_exec_tx } = diff
  const sums = [gas_used, receipts_root, logs_bloom, blob_gas_used]
  return JSON.stringify([base, ...sums, transactions, post_exec_tx])
}

/** Finds the block of a height on the chain of `top`. */
export function ancestorAt(top: TrueBlock, number: number): TrueBlock | undefined {
  let at: TrueBlock | undefined = top
  while (at !== undefined && at.number > number) at = at.parent
  return at?.number === number ? at : undefined
}
export const isAncestor = (one: TrueBlock, of: TrueBlock): boolean =>
  ancestorAt(of, one.number) === one

/** Makes the upstream block with its hash and the full header. */
export function upstreamBlockOf(block: TrueBlock): UpstreamBlock {
  const { header } = block
  return {
    hash: block.hash,
    payloadId: '',
    parentHash: header.parentHash,
    parentBeaconBlockRoot: header.parentBeaconBlockRoot ?? ZERO_32,
    coinbase: header.coinbase,
    prevRandao: header.mixHash,
    number: block.number,
    gasLimit: header.gasLimit,
    timestamp: header.timestamp,
    extraData: header.extraData,
    baseFee: header.baseFeePerGas ?? 0n,
    transactions: block.executed.map(({ transaction }) => transaction.raw),
    gasUsed: header.gasUsed,
    receiptsRoot: header.receiptsRoot,
    logsBloom: header.logsBloom,
    stateRoot: header.stateRoot,
    withdrawalsRoot: header.withdrawalsRoot,
    blobGasUsed: header.blobGasUsed,
    ...(header.excessBlobGas === undefined ? {} : { excessBlobGas: header.excessBlobGas }),
    requestsHash: header.requestsHash,
  }
}

async function add(execution: BlockExecution, transaction: Transaction): Promise<void> {
  const result = await execution.execute(transaction)
  // A transaction that its sender cannot pay for is left out.
  if (result.status === 'stopped') throw new Error('a block without limits was stopped')
}

async function mustAdd(execution: BlockExecution, transaction: Transaction): Promise<void> {
  const result = await execution.execute(transaction)
  if (result.status !== 'executed')
    throw new Error(
      `not executed with refunds: ${JSON.stringify(result, (_, value) => String(value))}`,
    )
}

/** Gives the next nonces of accounts after the executed transactions and those drawn since. */
function nonces(execution: BlockExecution, parent: TrueBlock): Draw['nonceOf'] {
  const next = new Map<string, bigint>()
  for (const { transaction } of execution.executed)
    if (isSigned(transaction)) next.set(latin1(transaction.from), transaction.nonce + 1n)
  return (address) => {
    const name = latin1(address)
    const nonce = next.get(name) ?? readAccount(parent.state, address)?.nonce ?? 0n
    next.set(name, nonce + 1n)
    return nonce
  }
}
