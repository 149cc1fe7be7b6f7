/**
 * With all rules on, no scenario fails. With a rule off, the scenario that needs it fails, and its
 * trace shows the steps.
 */
import type { Explored } from '../explore.ts'
import type { Part } from '../part.ts'
import { exploreScenario } from './machine.ts'
import { ALL_ON, allBut } from './rules.ts'
import { PROOFS } from './scenarios.ts'

/** Each state takes some 60 bytes, which limits their number. */
const MAX_STATES = 10_000_000
/** Number of steps of a trace that the short form prints. */
const LAST_STEPS = 4

export const protocol: Part = {
  name: 'the shared views, in every order of their steps',
  async run({ isShort }, check) {
    for (const { scenario, needs, isWide } of PROOFS) {
      if (isWide && isShort) continue
      const { name } = scenario
      const all = exploreScenario(scenario, ALL_ON, MAX_STATES)
      check(
        `${name}: every response is right`,
        !all.isCut && all.fault === undefined,
        said(all, false),
      )
      for (const rule of needs) {
        const off = exploreScenario(scenario, allBut(rule), MAX_STATES)
        check(`  without ${rule} the scenario fails`, off.fault !== undefined, said(off, isShort))
      }
    }
  },
}

function said({ states, fault, isCut }: Explored, isShort: boolean): string {
  const count = `${states.toLocaleString('en')} states${isCut ? ', and not all' : ''}`
  if (fault === undefined) return count
  const { why, trace } = fault
  if (isShort) return `${why} (${count}; … ${trace.slice(-LAST_STEPS).join(', ')})`
  return [`${why} (${count})`, ...trace].join('\n       ')
}
