/** What the calls of a task share: views, and for each block of a view one reader, one block environment, one session. */
import type {
  Block,
  ChainReader,
  ChainView,
  Endpoint,
  LeasedView,
} from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import { type KeptSession, keptSession } from '../../engine/execution/call/kept-session.ts'
import type { CallState } from '../method/method.ts'

/** A view, and what the calls of the task share of its states. */
export type TaskView = Omit<LeasedView, 'release'> & { readonly states: CallStates }
/** Which one: `record` undefined, the newest when it is first asked for. */
type Place = { readonly endpoint: Endpoint; readonly record: number | undefined }
type Parts = {
  readonly engine: Engine
  readonly chain: Pick<ChainSpec, 'rulesAt'>
  /** undefined: both are what they are. */
  readonly kept?: Kept | undefined
}
/** What a task keeps for its calls, as they see it. */
export type Kept = {
  readonly view: (view: ChainView) => ChainView
  readonly session: (session: KeptSession) => KeptSession
}

export function taskViews(parts: Parts & { readonly reader: ChainReader }) {
  const { reader, kept } = parts
  const views = new Map<string, TaskView & { readonly release: () => void }>()
  const keyOf = ({ endpoint, record }: Place) => `${endpoint} ${record}`

  function endOne(key: string): void {
    const view = views.get(key)
    if (view === undefined) return
    views.delete(key)
    // Sessions first: they read by the lease.
    view.states.close()
    view.release()
  }
  return {
    known: (place: Place): TaskView | undefined => views.get(keyOf(place)),
    /** undefined: the record is gone. */
    lease(place: Place): TaskView | undefined {
      const key = keyOf(place)
      const known = views.get(key)
      if (known !== undefined) return known
      const { endpoint, record } = place
      const leased = record === undefined ? reader.lease(endpoint) : reader.adopt(record, endpoint)
      if (leased === undefined) return undefined
      try {
        const view = kept?.view(leased.view) ?? leased.view
        const fresh = {
          ...{ view, record: leased.record, states: callStates(view, parts) },
          release: () => leased.release(),
        }
        views.set(key, fresh)
        return fresh
      } catch (error) {
        leased.release()
        throw error
      }
    },
    /** Gives it back: who asks again gets a newer one. */
    drop: (place: Place) => endOne(keyOf(place)),
    /** Gives all back. */
    end() {
      for (const key of [...views.keys()]) endOne(key)
    },
  }
}

type CallStates = {
  /** @throws {ViewError} when the block's state is gone */
  readonly of: (block: Block) => CallState
  /** Ends the sessions; nothing may be asked afterwards. */
  readonly close: () => void
}

/** Nearly all calls are about the latest block or the pending one. */
const MAX_STATES = 4

function callStates(view: ChainView, { engine, chain, kept }: Parts): CallStates {
  /** The oldest stands first. */
  const states = new Map<Block, CallState>()

  function open(block: Block): CallState {
    const reader = view.state(block)
    const env = view.env(block)
    const { evm } = chain.rulesAt(env.number, env.timestamp)
    const session = keptSession(reader, (counting) => engine.openSession(counting, env, evm))
    return { env, reader, kept: kept?.session(session) ?? session }
  }
  return {
    of(block) {
      const known = states.get(block)
      if (known !== undefined) return known
      if (states.size === MAX_STATES) {
        const [oldest, state] = states.entries().next().value!
        states.delete(oldest)
        state.kept.close()
      }
      const state = open(block)
      states.set(block, state)
      return state
    },
    close() {
      for (const { kept } of states.values()) kept.close()
      states.clear()
    },
  }
}
