/** The front's views: requests of one moment read one view, opened once; what they find in it is kept as long as it is the newest. */
import type {
  Basis,
  Block,
  BlockSelector,
  BlockTag,
  ChainReader,
  ChainView,
  Endpoint,
  LeasedView,
} from '../../engine/chain/types.ts'
import type { BlockEnv } from '../../engine/evm/engine.ts'
import { type StateReader, ViewError } from '../../engine/state/reader.ts'

/**
 * The same reader, but leases of the newest record are shared, and the newest is kept leased between requests. It is given back with the
 * next publish, so it holds nothing up for longer than a request does.
 */
export function shareViews(
  reader: ChainReader,
  onPublish: (listener: () => void) => () => void,
): ChainReader {
  const newest: Record<Endpoint, SharedView | undefined> = {
    standard: undefined,
    flashblocks: undefined,
  }
  /** The view of the newest record; one that is older, or that failed, is let go. */
  function current(endpoint: Endpoint): SharedView | undefined {
    const shared = newest[endpoint]
    if (shared === undefined) return undefined
    if (shared.record === reader.newestRecord() && !shared.isStale) return shared
    newest[endpoint] = undefined
    shared.leave()
    return undefined
  }
  onPublish(() => {
    current('standard')
    current('flashblocks')
  })

  return {
    newestRecord: () => reader.newestRecord(),
    adopt: (record, endpoint) => reader.adopt(record, endpoint),
    lease(endpoint) {
      let shared = current(endpoint)
      if (shared === undefined) {
        shared = new SharedView(reader.lease(endpoint))
        newest[endpoint] = shared
      }
      return shared.enter()
    },
  }
}

/** Counts who reads it: the cache that keeps it is one of them. */
class SharedView implements ChainView {
  readonly record: number
  readonly endpoint: Endpoint
  readonly canonical: ChainView['canonical']
  readonly latest: ChainView['latest']
  readonly pending: ChainView['pending']
  readonly earliest: bigint
  readonly oldestState: bigint
  readonly #keys = new Map<Basis, string>()
  /** A read found it void or gone. */
  isStale = false
  readonly #lease: LeasedView
  readonly #view: ChainView
  readonly #byTag = new Map<BlockTag, Block | undefined>()
  readonly #states = new Map<Block, StateReader>()
  #readers = 1

  constructor(lease: LeasedView) {
    this.#lease = lease
    const { view } = lease
    this.#view = view
    this.record = lease.record
    this.endpoint = view.endpoint
    this.canonical = view.canonical
    this.latest = view.latest
    this.pending = view.pending
    this.earliest = view.earliest
    this.oldestState = view.oldestState
  }

  enter(): LeasedView {
    this.#readers++
    let isHeld = true
    return {
      view: this,
      record: this.record,
      release: () => {
        if (!isHeld) throw new Error(`rpc: view of record ${this.record} was given back already`)
        isHeld = false
        this.leave()
      },
    }
  }

  leave(): void {
    if (--this.#readers === 0) this.#lease.release()
  }

  block(selector: BlockSelector): Block | undefined {
    if (!('tag' in selector)) return this.#read(() => this.#view.block(selector))
    const { tag } = selector
    const known = this.#byTag.get(tag)
    if (known !== undefined) return known
    const block = this.#read(() => this.#view.block(selector))
    this.#byTag.set(tag, block)
    return block
  }

  growth(...of: Parameters<ChainView['growth']>): ReturnType<ChainView['growth']> {
    return this.#read(() => this.#view.growth(...of))
  }

  logSpans(...of: Parameters<ChainView['logSpans']>): ReturnType<ChainView['logSpans']> {
    return this.#read(() => this.#view.logSpans(...of))
  }

  logRows(number: bigint): ReturnType<ChainView['logRows']> {
    return this.#read(() => this.#view.logRows(number))
  }

  findTransaction(hash: Uint8Array): ReturnType<ChainView['findTransaction']> {
    return this.#read(() => this.#view.findTransaction(hash))
  }

  foldedNumbers(hashes: readonly Uint8Array[]): ReturnType<ChainView['foldedNumbers']> {
    return this.#read(() => this.#view.foldedNumbers(hashes))
  }

  /** Kept for the blocks that tags name: few, and asked for again. */
  state(block: Block): StateReader {
    const known = this.#states.get(block)
    if (known !== undefined) return known
    const state = this.#read(() => this.#view.state(block))
    for (const tagged of this.#byTag.values()) if (tagged === block) this.#states.set(block, state)
    return state
  }

  cacheKey(basis: Basis): string {
    const known = this.#keys.get(basis)
    if (known !== undefined) return known
    const key = this.#view.cacheKey(basis)
    this.#keys.set(basis, key)
    return key
  }

  trieAt(...of: Parameters<ChainView['trieAt']>): ReturnType<ChainView['trieAt']> {
    return this.#read(() => this.#view.trieAt(...of))
  }

  env(block: Block): BlockEnv {
    return this.#view.env(block)
  }

  #read<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      if (error instanceof ViewError && error.reason !== 'pruned') this.isStale = true
      throw error
    }
  }
}
