/** Plain execution: every block that any part of a history speaks of, executed one transaction after the other over maps. */

import type { SealedBlock } from '../../../engine/chain/types.ts'
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
import type { Header } from '../../../engine/primitives/header.ts'
import { hashHeader } from '../../../engine/primitives/header-codec.ts'
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
import { type Changes, changed, NO_CHANGES, plainState } from './state.ts'

/** The block after one of its flashblocks. */
export type TruePart = {
  readonly message: Flashblock
  readonly subblock: Flashblock
  /** Hashes of the partial block: with the roots of the flashblock, and without roots. */
  readonly moments: readonly Bytes[]
  /** Transactions of the block so far, with the refunds that this flashblock states. */
  readonly count: number
  readonly executed: readonly ExecutedTransaction[]
  /** The block if it ended here, with its post-exec transaction. */
  readonly sealed: readonly ExecutedTransaction[]
  readonly changes: Changes
  readonly state: StateReader
  /** What it would be if it ended here. */
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
  /** None: the first block. */
  readonly parts: readonly TruePart[]
  readonly changes: Changes
  readonly state: StateReader
  readonly trie: TrieVersion
  /** What it stands for, with another header: nobody's execution makes it. */
  readonly forged?: TrueBlock
}

/** How the sequencer writes its flashblocks. */
export type Style = {
  /** The target index is told from index 1 on. */
  readonly hasTarget: boolean
  /** The state root stands in index 0. */
  readonly hasRoot: boolean
  readonly hasBlockNumber: boolean
  /** Blocks give gas back, and each subblock states how much so far. */
  readonly hasRefunds: boolean
  /** Gas and receipts root of subblocks count the refunds. */
  readonly countsRefunds: boolean
}
const LAGOON_CHAIN = chainSpec({ ...CHAIN_OPTION, forkTimes: { karst: 0, lagoon: 0 } })
/**
 * A block before its refunds are drawn: of each flashblock the transactions, and the gas of each.
 */
type Plain = readonly (readonly { readonly transaction: Transaction; readonly gasUsed: bigint }[])[]
/** Refunds that each flashblock states. */
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
  /** Heights, by the id. */
  readonly payloadIds = new Map<string, number>()
  readonly payloads = new Map<string, TrueBlock>()
  /** By the hash of the partial block, in either form. */
  readonly byMoment = new Map<string, Moment[]>()
  /** By the hash that the block would have if it ended with the flashblock. */
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
      ...{ number, parent: undefined, payloadId: '', header, hash, executed: [], parts: [] },
      changes: NO_CHANGES,
      state: this.#stateOf(NO_CHANGES, undefined),
      trie: this.#trie.base(),
    }
    this.byHash.set(latin1(hash), this.genesis)
  }

  /**
   * A block on `parent` of as many flashblocks; `draw` gives the transactions of each, of which
   * those that do not fit are left out. Where the chain has refunds `refunds` says which each
   * flashblock states.
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
      ...{ engine: referenceEngine, chain: this.spec, attributes },
      reader: this.#stateOf(parent.changes, parent),
    })
    await execution.begin()
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
      ...{ number: parent.number + 1, parent, payloadId, parts, trie },
      ...{ header: parts.at(-1)!.header, hash: parts.at(-1)!.hash },
      executed: [...execution.executed],
      changes: parts.at(-1)!.changes,
      state: parts.at(-1)!.state,
    })
  }

  /**
   * The block of these transactions in which each flashblock states refunds of all that it has so
   * far.
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
    /** Earlier flashblocks under the refunds that a later one states. */
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
    const { header, hash, changes, state, sealed: executed } = parts.at(-1)!
    const number = parent.number + 1
    const block = { ...{ number, parent, payloadId, parts, trie }, header, hash, changes, state }
    const added = this.#add({ ...block, executed })
    for (const { at, part } of restated) this.#addMoments({ block: added, at, part })
    return added
  }

  /** All flashblocks up to one, with the refunds that it states. */
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
      ...{ engine: referenceEngine, chain: this.spec, attributes: { ...attributes, postExec } },
      reader: this.#stateOf(parent.changes, parent),
    })
    await execution.begin()
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

  /** The flashblock that states it, and its block if it ended here. */
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
            ...{ gasUsed: gasUsed + 1n, receiptsRoot: ZERO_32 },
            // Nor does anybody say which block the hash and the roots are of.
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
    const sealed = [...execution.executed]
    return { ...part, message, subblock, header, hash: hashHeader(header), sealed }
  }

  /** The same block with another header. */
  forge(block: TrueBlock, change: Partial<Header>): TrueBlock {
    const header = { ...block.header, ...change }
    const forged = { ...block, header, hash: hashHeader(header), forged: block }
    this.byHash.set(latin1(forged.hash), forged)
    return forged
  }

  /** As eth_getProof has it. */
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
      ...{ payloadId, index },
      targetIndex: hasTarget && index > 0 ? flashblocks - 1 : 0,
      base: index > 0 ? undefined : baseOf(attributes),
      delta: {
        ...{ stateRoot: isRooted ? stateRoot : undefined, withdrawalsRoot },
        ...{ receiptsRoot, logsBloom, gasUsed, blobGasUsed },
        blockHash: moments[0]!,
        transactions: executed.slice(from).map(({ transaction }) => transaction.raw),
      },
      blockNumber: hasBlockNumber ? attributes.number : undefined,
    }
    return {
      ...{ message, subblock: subblockOf(message), moments, changes, header },
      count: executed.length,
      ...{ executed: [...executed], sealed: [...executed] },
      state: this.#stateOf(changes, parent),
      hash: hashHeader(header),
    }
  }

  /** `newest`: of the blocks whose hashes can be asked for. */
  #stateOf(changes: Changes, newest: TrueBlock | undefined): StateReader {
    return plainState(changes, {
      genesis: this.#genesisState,
      codes: this.#codes,
      blockHash: (number) => newest && ancestorAt(newest, Number(number))?.hash,
    })
  }
}

/** What a flashblock says, whatever hashes and side data it has: a text. */
export function contentOf(message: Flashblock): string {
  const { base, diff } = flashblockJson(message)
  const { gas_used, receipts_root, logs_bloom, blob_gas_used, transactions, post_exec_tx } = diff
  const sums = [gas_used, receipts_root, logs_bloom, blob_gas_used]
  return JSON.stringify([base, ...sums, transactions, post_exec_tx])
}

/** The block of a height on the chain of `top`. */
export function ancestorAt(top: TrueBlock, number: number): TrueBlock | undefined {
  let at: TrueBlock | undefined = top
  while (at !== undefined && at.number > number) at = at.parent
  return at?.number === number ? at : undefined
}
export const isAncestor = (one: TrueBlock, of: TrueBlock): boolean =>
  ancestorAt(of, one.number) === one

/** As an upstream gives it, with its hash and the whole header. */
export function sealedOf(block: TrueBlock): SealedBlock {
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
  // What the random draw cannot pay for is in no block.
  if (result.status === 'stopped') throw new Error('a block without limits was stopped')
}

async function mustAdd(execution: BlockExecution, transaction: Transaction): Promise<void> {
  const result = await execution.execute(transaction)
  if (result.status !== 'executed')
    throw new Error(
      `not executed with refunds: ${JSON.stringify(result, (_, value) => String(value))}`,
    )
}

/** Of the accounts after what was executed, and after what was drawn since. */
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
