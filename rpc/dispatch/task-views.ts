/**
 * Views that the calls of a task share. Each block of a view has one reader, one block environment
 * and one session.
 */
import type {
  Block,
  ChainReader,
  ChainView,
  Endpoint,
  LeasedView,
} from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import {
  type CachedSession,
  createCachedSession,
} from '../../engine/execution/call/cached-session.ts'
import type { CallState } from '../method/method.ts'

/** A view, and the shared states of its blocks. */
export type TaskView = Omit<LeasedView, 'release'> & { readonly states: CallStates }
/** Identifies a view. `snapshot` undefined: the newest at the first use. */
type TaskViewId = { readonly endpoint: Endpoint; readonly snapshot: number | undefined }
type Parts = {
  readonly engine: Engine
  readonly chain: Pick<ChainSpec, 'rulesAt'>
  /** undefined: views and sessions are not wrapped. */
  readonly cached?: TaskCaches | undefined
}
/** Wrappers of a task's views and sessions for its calls. */
export type TaskCaches = {
  readonly view: (view: ChainView) => ChainView
  readonly session: (session: CachedSession) => CachedSession
}

export function taskViews(parts: Parts & { readonly reader: ChainReader }) {
  const { reader, cached } = parts
  const views = new Map<string, TaskView & { readonly release: () => void }>()
  const keyOf = ({ endpoint, snapshot }: TaskViewId) => `${endpoint} ${snapshot}`

  function endOne(key: string): void {
    const view = views.get(key)
    if (view === undefined) return
    views.delete(key)
    // Sessions are closed first, because they read through the lease.
    view.states.close()
    view.release()
  }
  return {
    known: (id: TaskViewId): TaskView | undefined => views.get(keyOf(id)),
    /** Leases a view once per task. undefined: the snapshot is gone. */
    lease(id: TaskViewId): TaskView | undefined {
      const key = keyOf(id)
      const known = views.get(key)
      if (known !== undefined) return known
      const { endpoint, snapshot } = id
      const leased =
        snapshot === undefined ? reader.lease(endpoint) : reader.adopt(snapshot, endpoint)
      if (leased === undefined) return undefined
      try {
        const view = cached?.view(leased.view) ?? leased.view
        const fresh = {
          view,
          snapshot: leased.snapshot,
          states: callStates(view, parts),
          release: () => leased.release(),
        }
        views.set(key, fresh)
        return fresh
      } catch (error) {
        leased.release()
        throw error
      }
    },
    /** Releases a view; the next lease reads a newer one. */
    drop: (id: TaskViewId) => endOne(keyOf(id)),
    /** Releases all views. */
    end() {
      for (const key of [...views.keys()]) endOne(key)
    },
  }
}

type CallStates = {
  /**
   * Returns the state after a block.
   * @throws {ViewError} if the state is gone
   */
  readonly of: (block: Block) => CallState
  /** Closes the sessions; the object must not be used afterwards. */
  readonly close: () => void
}

/** Maximum number of open states. Nearly all calls use the latest or the pending block. */
const MAX_STATES = 4

function callStates(view: ChainView, { engine, chain, cached }: Parts): CallStates {
  /** States, oldest first. */
  const states = new Map<Block, CallState>()

  function open(block: Block): CallState {
    const reader = view.state(block)
    const env = view.env(block)
    const { evm } = chain.rulesAt(env.number, env.timestamp)
    const session = createCachedSession(reader, (counting) =>
      engine.openSession(counting, env, evm),
    )
    return { env, reader, cached: cached?.session(session) ?? session }
  }
  return {
    of(block) {
      const known = states.get(block)
      if (known !== undefined) return known
      if (states.size === MAX_STATES) {
        const [oldest, state] = states.entries().next().value!
        states.delete(oldest)
        state.cached.close()
      }
      const state = open(block)
      states.set(block, state)
      return state
    },
    close() {
      for (const { cached } of states.values()) cached.close()
      states.clear()
    },
  }
}
