/** The headings of the help and the flags of the commands are two lists: each has what the other has. */
import { expect, test } from 'vitest'
import { COMMANDS } from '../../../workers/commands/index.ts'
import { GROUPS, isLimit } from '../../../workers/config/help-groups.ts'

const named = Object.values(GROUPS).flatMap((names) => names.split(/\s+/))
const flags = new Set(COMMANDS.commands.flatMap((command) => Object.keys(command.flags)))

test('every name under a heading is a flag of a command', () => {
  expect(named.filter((name) => !flags.has(name))).toEqual([])
})

test('every flag that is no limit is named, and limits are not: they have a help of their own', () => {
  expect([...flags].filter((flag) => isLimit(flag) === named.includes(flag))).toEqual([])
})

test('no name is under two headings', () => {
  expect(named.filter((name, at) => named.indexOf(name) !== at)).toEqual([])
})
