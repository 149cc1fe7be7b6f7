/** All rules on: no scenario fails. Each rule off: the scenario that needs it does, and the trace says how. */
import type { Explored } from '../explore.ts'
import type { Part } from '../part.ts'
import { exploreScenario } from './machine.ts'
import { ALL_ON, allBut } from './rules.ts'
import { PROOFS } from './scenarios.ts'

/** Each takes some 60 bytes. */
const MAX_STATES = 10_000_000
/** What the short form shows of a trace. */
const LAST_STEPS = 4

export const protocol: Part = {
  name: 'the shared views, in every order of their steps',
  async run({ isShort }, check) {
    for (const { scenario, needs, isWide } of PROOFS) {
      if (isWide && isShort) continue
      const { name } = scenario
      const all = exploreScenario(scenario, ALL_ON, MAX_STATES)
      check(
        `${name}: every answer is right`,
        !all.isCut && all.fault === undefined,
        said(all, false),
      )
      for (const rule of needs) {
        const off = exploreScenario(scenario, allBut(rule), MAX_STATES)
        check(`  without ${rule} it fails`, off.fault !== undefined, said(off, isShort))
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
