/** Ports and options of the sequencer: everything that is not a pure step. */
import type { UpstreamBlock } from '../../chain/types.ts'
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine } from '../../evm/engine.ts'
import type { WireForm } from '../../flashblocks/codec.ts'
import type { FeedMessage } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import type { SignedEnvelope } from '../../primitives/transaction.ts'
import type { StateDiff } from '../../state/diff.ts'
import type { StateReader } from '../../state/reader.ts'
import type { L1FeeInputs } from './attributes.ts'
import type { ControlPort } from './controls.ts'
import type { DepositPort } from './first-transactions.ts'

/** The newest block whose final hash is known, with a lease on its state until `release`. */
export type ParentBlock = {
  readonly hash: Bytes
  readonly header: Header
  readonly reader: StateReader
  /** Height up to which blocks are durable, so that the journal may forget them. */
  readonly canonical: bigint
  release(): void
}

export type FlashblockPosition = { readonly number: number; readonly index: number }

export type Wanted = {
  /** The flashblock that will have the transactions. */
  readonly number: bigint
  readonly index: number
  /** Limit of the sum of gas limits. */
  readonly gas: bigint
  /** Gas that the whole block has left. */
  readonly blockGas: bigint
  readonly count: number
  readonly baseFee: bigint
  /** Hashes of stopped transactions that are not wanted now. */
  readonly excluded: readonly Bytes[]
  /** False: gasless transactions wait for the next block. */
  readonly isGaslessWanted: boolean
}
export type Offered = {
  /** Transactions, the best first. */
  readonly transactions: readonly SignedEnvelope[]
  /** Other transactions wait that exceeded the gas or the count. */
  readonly hasMore: boolean
  /**
   * The best-paying transaction that waits for a later flashblock of this block; undefined: there
   * is none.
   */
  readonly reserved?: Reserved | undefined
}
/** A transaction for which gas is reserved. */
export type Reserved = { readonly hash: Bytes; readonly gasLimit: bigint }
export type Rejected = {
  readonly hash: Bytes
  readonly reason: string
  /** The transaction has used all its tries. */
  readonly isFinal?: boolean
  /**
   * The transaction leaves the txpool although it was executed, because its block was taken back.
   */
  readonly isUnwanted?: boolean
}
export type Roots = { readonly stateRoot: Bytes; readonly withdrawalsRoot: Bytes }

/**
 * Journal of packets, which are safe against the end of the process once a method has returned.
 * @throws {JournalError}
 */
export interface PacketJournal {
  append(packet: Bytes): void
  /** Replaces the whole content. */
  rewrite(packets: Iterable<Bytes>): void
}

export type SequencerPorts = {
  /** Returns milliseconds since 1970, which may jump. */
  now(): number
  /** Returns milliseconds of processor time of this thread. */
  cpuMs(): number
  leaseParent(): ParentBlock
  /** Whether readers see this flashblock or a later one, of the given payload. */
  isVisible(position: FlashblockPosition, payloadId?: string): boolean
  /**
   * Asks for the txpool's best. Without a response in time there is nothing; a patient caller waits
   * longer. The txpool does not offer a transaction again until `giveBack` returns it.
   */
  transactions(wanted: Wanted, isPatient?: boolean): Promise<Offered>
  /** Whether the txpool may have transactions that came after the last request. */
  hasNews(): boolean
  /** Returns transactions, by hash, that were not executed and may be later. */
  giveBack(transactions: readonly Bytes[]): void
  /** Computes the roots of a diff over a block; undefined: they were not ready in time. */
  roots(parentStateRoot: Bytes, diff: StateDiff): Promise<Roots | undefined>
  readonly journal: PacketJournal
  /** Sends a packet, which is in the journal, to the feed. */
  send(packet: Bytes, message: FeedMessage): void
  /** Reports by how many milliseconds a flashblock was late. */
  late(ms: number): void
  seal(block: UpstreamBlock): void
  /** Removes transactions from the txpool. */
  reject(transactions: readonly Rejected[]): void
  /** Counts an incident. */
  count(what: SequencerCount, message: string): void
  /** undefined: there are no deposits of users. */
  readonly deposits?: DepositPort
  /** undefined: there are no controls. */
  readonly control?: ControlPort
}
export type SequencerCount =
  /**
   * A root was not ready. Index 0 has a zero state root, or a later index its predecessor's
   * withdrawals root.
   */
  | 'root_missing'
  /**
   * Packets of the journal do not fit the chain, or execute with another result: a promise is
   * broken.
   */
  | 'journal_mismatch'
  /** A block started again with its own packets because the view of its parent was gone. */
  | 'view_gone'
  /** Transactions exceeded a flashblock's time. */
  | 'time_quota'
  /** A transaction ran longer than a flashblock's time and delayed the flashblock. */
  | 'long_transaction'

export type SequencerOptions = {
  readonly chain: ChainSpec
  readonly engine: Engine
  /** A multiple of 1000. */
  readonly blockTimeMs: number
  readonly flashblockTimeMs: number
  readonly form: WireForm
  /** Limit of gas for gasless transactions in a block; undefined: no limit. */
  readonly gaslessGas?: bigint | undefined
  /** Fee inputs of the simulated L1. */
  readonly l1: L1FeeInputs
}
