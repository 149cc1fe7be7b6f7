/** The list of rules keeps up with the source: every edit finds its place, and what comes out is a module. */
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { expect, test } from 'vitest'
import { applyEdits } from './outside/edits.ts'
import { RULES } from './outside/rules.ts'
import { POISON } from './torture/scenarios.ts'

test.each(RULES)('$name can be switched off', ({ edits, race = [] }) => {
  const all = [...edits, ...race]
  for (const file of new Set(all.map((edit) => edit.file))) {
    const source = readFileSync(file, 'utf8')
    const plain = stripTypeScriptTypes(source)
    expect(stripTypeScriptTypes(applyEdits(file, source, race))).toBeTypeOf('string')
    expect(stripTypeScriptTypes(applyEdits(file, source, all))).not.toBe(plain)
  }
})

test('pages that are given back can be filled', () => {
  const source = readFileSync(POISON.file, 'utf8')
  expect(applyEdits(POISON.file, source, [POISON])).not.toBe(source)
})

test('no two rules have one name', () => {
  expect(new Set(RULES.map(({ name }) => name)).size).toBe(RULES.length)
})
