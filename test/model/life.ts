/** The table of a block's life, walked: every state is reached, every road ends, and nothing but its answer ends the keeper's wait. */
import { type BlockEvent, type BlockState, LIFE, nextState } from '../../engine/chain/life.ts'
import { explore, Fault } from './explore.ts'
import type { Part } from './part.ts'

type Life = { readonly state: BlockState; readonly past: readonly BlockState[] }

export const life: Part = {
  name: 'the life of a block',
  async run(_options, check) {
    const seen = new Set<BlockState>()
    const walked = explore<Life>(
      {
        initial: { state: 'none', past: [] },
        steps: ({ state, past }) =>
          eventsOf(state).map((event) => ({
            label: event,
            run: () => ({
              state: nextState(state, event),
              // Any number of flashblocks is one.
              past: state === 'open' && event === 'extend' ? past : [...past, state],
            }),
          })),
        check({ state, past }, isLast) {
          seen.add(state)
          const before = past.at(-1)
          if (past.includes(state)) throw new Fault(`a block is ${state} twice`)
          if (isLast && state !== 'dropped' && state !== 'forgotten')
            throw new Fault(`a block stays ${state} for ever`)
          if (before === 'handed' && state !== 'canonical')
            throw new Fault(`a block that the keeper holds becomes ${state}`)
          if (state === 'canonical' && before !== 'handed' && before !== 'none')
            throw new Fault('a block is canonical that the keeper was not given')
          if (state === 'folded' && before !== 'canonical' && before !== 'none')
            throw new Fault('a block is folded that was not canonical')
        },
      },
      1000,
    )
    const { states, fault } = walked
    const isWhole = seen.size === Object.keys(LIFE).length
    check(
      'every state of a block is reached and left',
      fault === undefined && isWhole,
      fault === undefined ? `${states} lives` : `${fault.why}: ${fault.trace.join(', ')}`,
    )
  },
}

const eventsOf = (state: BlockState) => Object.keys(LIFE[state]) as BlockEvent[]
