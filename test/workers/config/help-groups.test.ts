/** The headings of the help and the flags of the commands are two lists with equal entries. */
import { expect, test } from 'vitest'
import { COMMANDS } from '../../../workers/commands/index.ts'
import {
  GROUPS,
  isLimit,
  isListedLimit,
  LISTED_BOUNDS,
  OTHER_BOUNDS,
} from '../../../workers/config/help-groups.ts'

const namesOf = (groups: Readonly<Record<string, string>>) =>
  Object.values(groups).flatMap((names) => names.split(/\s+/))
const named = namesOf(GROUPS)
const listed = namesOf(LISTED_BOUNDS)
const flags = new Set(COMMANDS.commands.flatMap((command) => Object.keys(command.flags)))

test('every name under a heading is a flag of a command', () => {
  const names = [...named, ...listed, ...OTHER_BOUNDS.split(/\s+/)]
  expect(names.filter((name) => !flags.has(name))).toEqual([])
})

test('every flag is under a heading, except for limits, which have a separate help', () => {
  expect([...flags].filter((flag) => isLimit(flag) === named.includes(flag))).toEqual([])
})

test('the help of limits lists only limits, at most 45', () => {
  expect(listed.filter((name) => !isLimit(name) || !isListedLimit(name))).toEqual([])
  expect(listed.length).toBeLessThanOrEqual(45)
})

test('no name is under two headings', () => {
  const all = [...named, ...listed]
  expect(all.filter((name, at) => all.indexOf(name) !== at)).toEqual([])
})
