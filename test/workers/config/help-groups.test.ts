/** The headings of the help and the flags of the commands are two lists: each has what the other has. */
import { expect, test } from 'vitest'
import { COMMANDS } from '../../../workers/commands/index.ts'
import {
  GROUPS,
  isLimit,
  isShownLimit,
  OTHER_BOUNDS,
  SHOWN_BOUNDS,
} from '../../../workers/config/help-groups.ts'

const namesOf = (groups: Readonly<Record<string, string>>) =>
  Object.values(groups).flatMap((names) => names.split(/\s+/))
const named = namesOf(GROUPS)
const shown = namesOf(SHOWN_BOUNDS)
const flags = new Set(COMMANDS.commands.flatMap((command) => Object.keys(command.flags)))

test('every name under a heading is a flag of a command', () => {
  const names = [...named, ...shown, ...OTHER_BOUNDS.split(/\s+/)]
  expect(names.filter((name) => !flags.has(name))).toEqual([])
})

test('every flag that is no limit is named, and limits are not: they have a help of their own', () => {
  expect([...flags].filter((flag) => isLimit(flag) === named.includes(flag))).toEqual([])
})

test('the help of limits shows limits alone, as many as can be read', () => {
  expect(shown.filter((name) => !isLimit(name) || !isShownLimit(name))).toEqual([])
  expect(shown.length).toBeLessThanOrEqual(45)
})

test('no name is under two headings', () => {
  const all = [...named, ...shown]
  expect(all.filter((name, at) => all.indexOf(name) !== at)).toEqual([])
})
