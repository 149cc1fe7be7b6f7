/**
 * Views of the front: concurrent requests share one view, and its lookups are cached while it is
 * the newest.
 */
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
 * Wraps a reader so that leases of the newest snapshot are shared. The newest view stays leased
 * between requests. The next publish releases it, so it blocks nothing for longer than a request
 * does.
 */
export function shareViews(
  reader: ChainReader,
  onPublish: (listener: () => void) => () => void,
): ChainReader {
  const newest: Record<Endpoint, SharedView | undefined> = {
    standard: undefined,
    flashblocks: undefined,
  }
  /** Returns the view of the newest snapshot, and releases an older or stale one. */
  function current(endpoint: Endpoint): SharedView | undefined {
    const shared = newest[endpoint]
    if (shared === undefined) return undefined
    if (shared.snapshot === reader.newestSnapshot() && !shared.isStale) return shared
    newest[endpoint] = undefined
    shared.leave()
    return undefined
  }
  onPublish(() => {
    current('standard')
    current('flashblocks')
  })

  return {
    newestSnapshot: () => reader.newestSnapshot(),
    newestOfAll: () => reader.newestOfAll(),
    adopt: (snapshot, endpoint) => reader.adopt(snapshot, endpoint),
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

/** A view with a count of its readers; the cache is one of them. */
class SharedView extends ForwardingView {
  readonly #keys = new Map<Basis, string>()
  /** A read found the snapshot void or gone. */
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
    let isLeased = true
    return {
      view: this,
      snapshot: this.snapshot,
      release: () => {
        if (!isLeased)
          throw new Error(`rpc: view of snapshot ${this.snapshot} was given back already`)
        isLeased = false
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

  /** Caches the states of blocks that tags name, because they are few and requested again. */
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
