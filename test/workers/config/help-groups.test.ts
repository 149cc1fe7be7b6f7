/** The headings of the help and the flags of the commands are two lists: each has what the other has. */
import { expect, test } from 'vitest'
import { COMMANDS } from '../../../workers/commands/index.ts'
import { BOUNDS, GROUPS, isLimit } from '../../../workers/config/help-groups.ts'

const namesOf = (groups: Readonly<Record<string, string>>) =>
  Object.values(groups).flatMap((names) => names.split(/\s+/))
const named = namesOf(GROUPS)
const bounds = namesOf(BOUNDS)
const flags = new Set(COMMANDS.commands.flatMap((command) => Object.keys(command.flags)))

test('every name under a heading is a flag of a command', () => {
  expect([...named, ...bounds].filter((name) => !flags.has(name))).toEqual([])
})

test('every flag that is no limit is named, and limits are not: they have a help of their own', () => {
  expect([...flags].filter((flag) => isLimit(flag) === named.includes(flag))).toEqual([])
})

test('no name is under two headings', () => {
  const all = [...named, ...bounds]
  expect(all.filter((name, at) => all.indexOf(name) !== at)).toEqual([])
})
