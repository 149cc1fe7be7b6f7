/**
 * The explorer finds known faults. The model, the test build and the decision record name the same
 * rules.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { explore, Fault, type Model } from '../model/explore.ts'
import { exploreScenario } from '../model/protocol/machine.ts'
import { ALL_ON, allBut, RULE_NAMES } from '../model/protocol/rules.ts'
import { PROOFS } from '../model/protocol/scenarios.ts'
import { RULES } from '../outside/rules.ts'

/** Threads that add one to a word, by a load and then a store, or by one atomic step. */
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

describe('the explorer', () => {
  test('finds a lost update by a shortest path', () => {
    const { fault } = explore(adders(2, false), 100)
    expect(fault?.why).toBe('the word is 1')
    expect(fault?.trace.toSorted()).toEqual(['0 loads', '0 stores', '1 loads', '1 stores'])
  })

  test('visits each state exactly once', () => {
    const { states, steps, fault, isCut } = explore(adders(10, true), 2000)
    // The set of finished threads is the whole state; from each state the others may go on.
    expect({ states, steps, fault, isCut }).toEqual({
      states: 2 ** 10,
      steps: 10 * 2 ** 9,
      fault: undefined,
      isCut: false,
    })
  })

  test('reports a search that did not reach all states', () => {
    expect(explore(adders(10, true), 100)).toMatchObject({ isCut: true, fault: undefined })
  })
})

describe('the protocol', () => {
  const small = PROOFS.find(({ scenario }) => scenario.name === 'one block')!
  test('gives only right responses with all rules on', () => {
    expect(exploreScenario(small.scenario, ALL_ON, 20_000)).toMatchObject({
      fault: undefined,
      isCut: false,
    })
  })
  test.each(small.needs)('fails without the rule %s', (rule) => {
    expect(exploreScenario(small.scenario, allBut(rule), 20_000).fault).toBeDefined()
  })
})

describe('the list of rules', () => {
  test('has each rule in the needs of exactly one scenario', () => {
    expect(PROOFS.flatMap(({ needs }) => needs).toSorted()).toEqual(RULE_NAMES.toSorted())
  })
  test('has in the model each rule that a test build can switch off', () => {
    const names: readonly string[] = RULE_NAMES
    expect(RULES.filter(({ name }) => !names.includes(name))).toEqual([])
  })
  const text = readFileSync('docs/adr/0010-each-rule-is-switched-off.md', 'utf8')
  const rows = [...text.matchAll(/^\| `(\w+)`: [^|]+ \| [^|]+ \| ([^|]+) \| ([^|]+) \|$/gm)]
  test('is in the decision record, with the scenario of each rule', () => {
    const listed = rows.map(([, rule, scenario]) => `${rule}: ${scenario}`)
    const proven = PROOFS.flatMap(({ scenario, needs }) =>
      needs.map((rule) => `${rule}: ${scenario.name}`),
    )
    expect(listed.toSorted()).toEqual(proven.toSorted())
  })
  test.each(rows)('names in the decision record the checks that find $1 switched off', (...row) => {
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
