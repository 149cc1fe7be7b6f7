/** What the sequencer is given and what it does to the world: everything that is not a pure step. */
import type { SealedBlock } from '../../chain/types.ts'
import type { ChainSpec } from '../../chainspec/types.ts'
import type { Engine } from '../../evm/engine.ts'
import type { WireForm } from '../../flashblocks/codec.ts'
import type { FeedMessage } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import type { SignedEnvelope } from '../../primitives/transaction.ts'
import type { StateDiff } from '../../state/diff.ts'
import type { StateReader } from '../../state/reader.ts'
import type { L1Figures } from './attributes.ts'
import type { ControlPort } from './controls.ts'
import type { DepositPort } from './user-deposits.ts'

/** The newest block whose final hash is known, its state held until `release`. */
export type ParentBlock = {
  readonly hash: Bytes
  readonly header: Header
  readonly reader: StateReader
  /** Height up to which blocks are durable: what the journal may forget. */
  readonly canonical: bigint
  release(): void
}

export type FlashblockPlace = { readonly number: number; readonly index: number }

export type Wanted = {
  /** The flashblock they are for. */
  readonly number: bigint
  readonly index: number
  /** Bound of the sum of gas limits. */
  readonly gas: bigint
  /** Gas that the whole block has left. */
  readonly blockGas: bigint
  readonly count: number
  readonly baseFee: bigint
  /** Hashes of those that were stopped and are not wanted now. */
  readonly excluded: readonly Bytes[]
  /** False: gasless transactions wait for the next block. */
  readonly isGaslessWanted: boolean
}
export type Offered = {
  /** Best first. */
  readonly transactions: readonly SignedEnvelope[]
  /** Others wait that did not fit the gas or the count. */
  readonly hasMore: boolean
  /** The best-paying one that waits for a later flashblock of this block; undefined: none does. */
  readonly reserved?: Reserved | undefined
}
/** A transaction whose gas others leave to it. */
export type Reserved = { readonly hash: Bytes; readonly gasLimit: bigint }
export type Rejected = {
  readonly hash: Bytes
  readonly reason: string
  /** It was tried as often as it may be. */
  readonly isFinal?: boolean
  /** It leaves the txpool although it was executed: it is taken back. */
  readonly isUnwanted?: boolean
}
export type Roots = { readonly stateRoot: Bytes; readonly withdrawalsRoot: Bytes }

/** Packets that outlive the process; both are safe against its end when they return. @throws {JournalError} */
export interface PacketJournal {
  append(packet: Bytes): void
  /** Replaces the whole content. */
  rewrite(packets: Iterable<Bytes>): void
}

export type SequencerPorts = {
  /** Milliseconds since 1970. May jump. */
  now(): number
  /** Milliseconds of processor time that this thread has had. */
  cpuMs(): number
  leaseParent(): ParentBlock
  /** Whether readers see this flashblock, or a later one; of this payload, where it is given. */
  isShown(place: FlashblockPlace, payloadId?: string): boolean
  /**
   * Asks for the txpool's best. Without an answer in time there is nothing; a patient caller waits
   * longer. The txpool does not offer a transaction again until `giveBack` returns it.
   */
  transactions(wanted: Wanted, isPatient?: boolean): Promise<Offered>
  /** The txpool may have something that it had not when it was asked last. */
  hasNews(): boolean
  /** Hashes of transactions that were not executed, and may be later. */
  giveBack(transactions: readonly Bytes[]): void
  /** Roots of a diff over a block; undefined: not at hand in time. */
  roots(parentStateRoot: Bytes, diff: StateDiff): Promise<Roots | undefined>
  readonly journal: PacketJournal
  /** To the feed. Journalled already. */
  send(packet: Bytes, message: FeedMessage): void
  /** A flashblock was sent so many milliseconds after it was due. */
  late(ms: number): void
  seal(block: SealedBlock): void
  /** These leave the txpool. */
  reject(transactions: readonly Rejected[]): void
  /** Something worth counting happened: `what` is a name in snake case. */
  count(what: SequencerCount, message: string): void
  /** undefined: nobody deposits. */
  readonly deposits?: DepositPort
  /** undefined: the chain does what is due and nothing else. */
  readonly control?: ControlPort
}
export type SequencerCount =
  /** A root was not at hand: index 0 went out with a zero state root, or an index with its predecessor's withdrawals root. */
  | 'root_missing'
  /** Packets of the journal do not fit the chain or do not execute as they say: a promise could not be kept. */
  | 'journal_mismatch'
  /** A block was begun again on its own packets because the view of its parent was gone. */
  | 'view_gone'
  /** Transactions ran out of a flashblock's time. */
  | 'time_quota'
  /** One had more time than a flashblock has, which was late for it. */
  | 'long_transaction'

export type SequencerOptions = {
  readonly chain: ChainSpec
  readonly engine: Engine
  /** Whole seconds. */
  readonly blockTimeMs: number
  readonly flashblockTimeMs: number
  readonly form: WireForm
  /** Gas that gasless transactions may use of a block; undefined: no bound. */
  readonly gaslessGas?: bigint | undefined
  /** Of the made-up L1. */
  readonly l1: L1Figures
}
