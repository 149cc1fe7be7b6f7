/** The front's views: requests of one moment read one view, opened once; what they find in it is kept as long as it is the newest. */
import type {
  Basis,
  Block,
  BlockSelector,
  BlockTag,
  ChainReader,
  Endpoint,
  LeasedView,
} from '../../engine/chain/types.ts'
import { type StateReader, ViewError } from '../../engine/state/reader.ts'
import { ForwardingView } from './forwarding-view.ts'

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
    newestOfAll: () => reader.newestOfAll(),
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
class SharedView extends ForwardingView {
  readonly #keys = new Map<Basis, string>()
  /** A read found it void or gone. */
  isStale = false
  readonly #lease: LeasedView
  readonly #byTag = new Map<BlockTag, Block | undefined>()
  readonly #states = new Map<Block, StateReader>()
  #readers = 1

  constructor(lease: LeasedView) {
    super(lease.view)
    this.#lease = lease
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

  override block(selector: BlockSelector): Block | undefined {
    if (!('tag' in selector)) return super.block(selector)
    const { tag } = selector
    const known = this.#byTag.get(tag)
    if (known !== undefined) return known
    const block = super.block(selector)
    this.#byTag.set(tag, block)
    return block
  }

  /** Kept for the blocks that tags name: few, and asked for again. */
  override state(block: Block): StateReader {
    const known = this.#states.get(block)
    if (known !== undefined) return known
    const state = super.state(block)
    for (const tagged of this.#byTag.values()) if (tagged === block) this.#states.set(block, state)
    return state
  }

  override cacheKey(basis: Basis): string {
    const known = this.#keys.get(basis)
    if (known !== undefined) return known
    const key = super.cacheKey(basis)
    this.#keys.set(basis, key)
    return key
  }

  override read<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      if (error instanceof ViewError && error.reason !== 'pruned') this.isStale = true
      throw error
    }
  }
}
