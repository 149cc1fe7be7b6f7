/** Base class of views that wrap another view and override a few methods. */
import type { Block, BlockSelector, ChainView } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'

export class ForwardingView implements ChainView {
  readonly snapshot: number
  readonly endpoint: ChainView['endpoint']
  readonly canonical: ChainView['canonical']
  readonly latest: ChainView['latest']
  readonly pending: ChainView['pending']
  readonly earliest: bigint
  readonly oldestState: bigint
  readonly under: ChainView

  constructor(under: ChainView) {
    this.under = under
    this.snapshot = under.snapshot
    this.endpoint = under.endpoint
    this.canonical = under.canonical
    this.latest = under.latest
    this.pending = under.pending
    this.earliest = under.earliest
    this.oldestState = under.oldestState
  }

  /** Wraps every read that may find the snapshot void or gone. */
  read<T>(read: () => T): T {
    return read()
  }

  block(selector: BlockSelector): Block | undefined {
    return this.read(() => this.under.block(selector))
  }
  growth(...of: Parameters<ChainView['growth']>): ReturnType<ChainView['growth']> {
    return this.read(() => this.under.growth(...of))
  }
  logSpans(...of: Parameters<ChainView['logSpans']>): ReturnType<ChainView['logSpans']> {
    return this.read(() => this.under.logSpans(...of))
  }
  logRows(number: bigint): ReturnType<ChainView['logRows']> {
    return this.read(() => this.under.logRows(number))
  }
  findTransaction(hash: Bytes): ReturnType<ChainView['findTransaction']> {
    return this.read(() => this.under.findTransaction(hash))
  }
  persistedNumbers(hashes: readonly Bytes[]): ReturnType<ChainView['persistedNumbers']> {
    return this.read(() => this.under.persistedNumbers(hashes))
  }
  state(block: Block): ReturnType<ChainView['state']> {
    return this.read(() => this.under.state(block))
  }
  markOf(...of: Parameters<ChainView['markOf']>): ReturnType<ChainView['markOf']> {
    return this.under.markOf(...of)
  }
  changesSince(...of: Parameters<ChainView['changesSince']>): boolean {
    return this.read(() => this.under.changesSince(...of))
  }
  recordingReads(
    ...of: Parameters<ChainView['recordingReads']>
  ): ReturnType<ChainView['recordingReads']> {
    return this.under.recordingReads(...of)
  }
  trieAt(...of: Parameters<ChainView['trieAt']>): ReturnType<ChainView['trieAt']> {
    return this.read(() => this.under.trieAt(...of))
  }
  cacheKey(...of: Parameters<ChainView['cacheKey']>): string {
    return this.under.cacheKey(...of)
  }
  env(block: Block): ReturnType<ChainView['env']> {
    return this.under.env(block)
  }
}
