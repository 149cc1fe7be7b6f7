/** The lists of rules, of slow paths and of places to die keep up with the source: every edit finds its place, and what comes out is a module. */
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { expect, test } from 'vitest'
import { PLANTED } from '../outside/cost/planted.ts'
import {
  KEEPER_POINTS,
  killAt,
  MIGRATION_POINTS,
  NODE_POINTS,
  START_POINTS,
  WITH_OLDER_SCHEMA,
} from '../outside/crash/points.ts'
import { applyEdits } from '../outside/edits.ts'
import { RULES } from '../outside/rules.ts'
import { MUTANTS } from '../outside/simulate/mutants.ts'
import { POISON } from '../torture/scenarios.ts'

test.each(RULES)('$name can be switched off', ({ edits, race = [] }) => {
  const all = [...edits, ...race]
  for (const file of new Set(all.map((edit) => edit.file))) {
    const source = readFileSync(file, 'utf8')
    const plain = stripTypeScriptTypes(source)
    expect(stripTypeScriptTypes(applyEdits(file, source, race))).toBeTypeOf('string')
    expect(stripTypeScriptTypes(applyEdits(file, source, all))).not.toBe(plain)
  }
})

test.each(MUTANTS)('a rule of simulated histories can be switched off: $name', ({ edits }) => {
  for (const file of new Set(edits.map((edit) => edit.file))) {
    const source = readFileSync(file, 'utf8')
    const edited = stripTypeScriptTypes(applyEdits(file, source, edits))
    expect(edited).not.toBe(stripTypeScriptTypes(source))
  }
})

test.each(PLANTED)('a slow path can be planted: $name', ({ edits }) => {
  for (const file of new Set(edits.map((edit) => edit.file))) {
    const source = readFileSync(file, 'utf8')
    const planted = applyEdits(file, source, edits)
    expect(stripTypeScriptTypes(planted)).not.toBe(stripTypeScriptTypes(source))
  }
})

test.each([...NODE_POINTS, ...START_POINTS, ...KEEPER_POINTS, ...MIGRATION_POINTS])(
  'a process can be killed at: $name',
  (point) => {
    const source = applyEdits(point.file, readFileSync(point.file, 'utf8'), [killAt(point, 1)])
    expect(stripTypeScriptTypes(source)).toContain('SIGKILL')
  },
)

test('a directory can be older than this build', () => {
  const { file } = WITH_OLDER_SCHEMA
  const source = readFileSync(file, 'utf8')
  expect(applyEdits(file, source, [WITH_OLDER_SCHEMA])).not.toBe(source)
})

test('pages that are given back can be filled', () => {
  const source = readFileSync(POISON.file, 'utf8')
  expect(applyEdits(POISON.file, source, [POISON])).not.toBe(source)
})

test('no two rules have one name', () => {
  expect(new Set(RULES.map(({ name }) => name)).size).toBe(RULES.length)
})
