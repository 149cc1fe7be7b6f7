/** The explorer finds what is known to be wrong, and model, test build and decision speak of the same rules. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { explore, Fault, type Model } from '../model/explore.ts'
import { exploreScenario } from '../model/protocol/machine.ts'
import { ALL_ON, allBut, RULE_NAMES } from '../model/protocol/rules.ts'
import { PROOFS } from '../model/protocol/scenarios.ts'
import { RULES } from '../outside/rules.ts'

/** Threads that add one to a word: a load, then a store; or both at once. */
function adders(count: number, isAtomic: boolean): Model<{ word: number; threads: number[] }> {
  return {
    initial: { word: 0, threads: Array.from({ length: count }, () => -1) },
    steps: ({ word, threads }) =>
      threads.flatMap((loaded, at) => {
        if (loaded === DONE) return []
        const to = (value: number) => threads.with(at, value)
        if (loaded >= 0)
          return [{ label: `${at} stores`, run: () => ({ word: loaded + 1, threads: to(DONE) }) }]
        return isAtomic
          ? [{ label: `${at} adds`, run: () => ({ word: word + 1, threads: to(DONE) }) }]
          : [{ label: `${at} loads`, run: () => ({ word, threads: to(word) }) }]
      }),
    check({ word }, isLast) {
      if (isLast && word !== count) throw new Fault(`the word is ${word}`)
    },
  }
}
const DONE = -2
/** A search is slow where much else runs. */

describe('explorer', () => {
  test('finds a lost update, by a shortest way', () => {
    const { fault } = explore(adders(2, false), 100)
    expect(fault?.why).toBe('the word is 1')
    expect(fault?.trace.toSorted()).toEqual(['0 loads', '0 stores', '1 loads', '1 stores'])
  })

  test('visits each state once, and every one', () => {
    const { states, steps, fault, isCut } = explore(adders(10, true), 2000)
    // Which threads are done says all; from each state those that are not may go on.
    expect({ states, steps, fault, isCut }).toEqual({
      states: 2 ** 10,
      steps: 10 * 2 ** 9,
      fault: undefined,
      isCut: false,
    })
  })

  test('says when it has not seen all', () => {
    expect(explore(adders(10, true), 100)).toMatchObject({ isCut: true, fault: undefined })
  })
})

describe('protocol', () => {
  const small = PROOFS.find(({ scenario }) => scenario.name === 'one block')!
  test('all rules on: every answer is right', () => {
    expect(exploreScenario(small.scenario, ALL_ON, 20_000)).toMatchObject({
      fault: undefined,
      isCut: false,
    })
  })
  test.each(small.needs)('without %s it fails', (rule) => {
    expect(exploreScenario(small.scenario, allBut(rule), 20_000).fault).toBeDefined()
  })
})

describe('rules', () => {
  test('each is needed by one scenario', () => {
    expect(PROOFS.flatMap(({ needs }) => needs).toSorted()).toEqual(RULE_NAMES.toSorted())
  })
  test('the model has those that a test build can switch off', () => {
    const names: readonly string[] = RULE_NAMES
    expect(RULES.filter(({ name }) => !names.includes(name))).toEqual([])
  })
  const text = readFileSync('docs/adr/0010-each-rule-is-switched-off.md', 'utf8')
  const rows = [...text.matchAll(/^\| `(\w+)`: [^|]+ \| [^|]+ \| ([^|]+) \| ([^|]+) \|$/gm)]
  test('the decision lists each with its scenario', () => {
    const listed = rows.map(([, rule, scenario]) => `${rule}: ${scenario}`)
    const proven = PROOFS.flatMap(({ scenario, needs }) =>
      needs.map((rule) => `${rule}: ${scenario.name}`),
    )
    expect(listed.toSorted()).toEqual(proven.toSorted())
  })
  test.each(rows)('the decision names who finds on the product that $1 is off', (...row) => {
    const [, name, , finders] = row
    const named = finders!.split('; ')
    const { expect: all } = RULES.find((rule) => rule.name === name)!
    const commands = ['`torture`', '`histories`']
    expect(named.filter((each) => commands.includes(each))).toEqual(
      commands.filter((each) => all.some((finder) => each === `\`${finder}\``)),
    )
    for (const fixed of named.filter((each) => !commands.includes(each))) {
      const [file, title] = fixed.split(': ')
      const source = readFileSync(`test/${file!.replaceAll('`', '')}.test.ts`, 'utf8')
      expect(source).toContain(`'${title}`)
    }
  })
})
