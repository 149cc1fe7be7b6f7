/**
 * Walks the table of a block's states: every state is reached and every path ends. Only the
 * response of the persistence thread ends the wait for it.
 */
import {
  BLOCK_TRANSITIONS,
  type BlockEvent,
  type BlockState,
  nextState,
} from '../../engine/chain/block-state.ts'
import { explore, Fault } from './explore.ts'
import type { Part } from './part.ts'

type Path = { readonly state: BlockState; readonly past: readonly BlockState[] }

export const blockStates: Part = {
  name: 'the states of a block',
  async run(_options, check) {
    const seen = new Set<BlockState>()
    const walked = explore<Path>(
      {
        initial: { state: 'none', past: [] },
        steps: ({ state, past }) =>
          eventsOf(state).map((event) => ({
            label: event,
            run: () => ({
              state: nextState(state, event),
              // One flashblock stands for any number of flashblocks.
              past: state === 'open' && event === 'extend' ? past : [...past, state],
            }),
          })),
        check({ state, past }, isLast) {
          seen.add(state)
          const before = past.at(-1)
          if (past.includes(state)) throw new Fault(`a block is ${state} twice`)
          if (isLast && state !== 'dropped' && state !== 'forgotten')
            throw new Fault(`a block stays ${state} for ever`)
          if (before === 'submitted' && state !== 'canonical')
            throw new Fault(`a block that the persistence thread holds becomes ${state}`)
          if (state === 'canonical' && before !== 'submitted' && before !== 'none')
            throw new Fault('a block is canonical that the persistence thread was not given')
          if (state === 'persisted' && before !== 'canonical' && before !== 'none')
            throw new Fault('a block is persisted that was not canonical')
        },
      },
      1000,
    )
    const { states, fault } = walked
    const isComplete = seen.size === Object.keys(BLOCK_TRANSITIONS).length
    check(
      'the walk reaches every block state, and every path ends in dropped or forgotten',
      fault === undefined && isComplete,
      fault === undefined ? `${states} lives` : `${fault.why}: ${fault.trace.join(', ')}`,
    )
  },
}

const eventsOf = (state: BlockState) => Object.keys(BLOCK_TRANSITIONS[state]) as BlockEvent[]
