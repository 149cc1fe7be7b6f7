/**
 * The lists of rules, of slow paths and of crash points must keep up with the source. Every edit
 * must find its text, and its result must be a module.
 */
import { globSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { expect, test } from 'vitest'
import { applyEdits } from '../kit/edits.ts'
import { PLANTED } from '../outside/cost/planted.ts'
import {
  killAt,
  MIGRATION_POINTS,
  NODE_POINTS,
  PERSISTENCE_POINTS,
  START_POINTS,
  WITH_OLDER_SCHEMA,
} from '../outside/crash/points.ts'
import { FAST_MUTANTS } from '../outside/fuzz/fast-mutants.ts'
import { MUTANTS as REFERENCE_MUTANTS } from '../outside/fuzz/mutants.ts'
import { PLANTED_RESPONSES } from '../outside/records/planted.ts'
import { RULES } from '../outside/rules.ts'
import { MUTANTS } from '../outside/simulate/mutants.ts'
import { POISON } from '../torture/scenarios.ts'

test.each(RULES)('the rule $name can be switched off', ({ edits, race = [] }) => {
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

test.each(PLANTED_RESPONSES)('a wrong response can be planted: $name', ({ edits }) => {
  for (const { file } of edits) {
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

test.each([...NODE_POINTS, ...START_POINTS, ...PERSISTENCE_POINTS, ...MIGRATION_POINTS])(
  'a process can be killed at this point: $name',
  (point) => {
    const source = applyEdits(point.file, readFileSync(point.file, 'utf8'), [killAt(point, 1)])
    expect(stripTypeScriptTypes(source)).toContain('SIGKILL')
  },
)

test.each([...REFERENCE_MUTANTS, ...FAST_MUTANTS])(
  'a fault can be planted in an engine: $name',
  ({ edits }) => {
    for (const file of new Set(edits.map((edit) => edit.file))) {
      const source = readFileSync(file, 'utf8')
      expect(applyEdits(file, source, edits)).not.toBe(source)
    }
  },
)

/** The pattern finds edits in the source of a check, because their lists are not exported. */
const PLAIN = /\bfile: '([^']+)',\s*find:\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")/g
const own = globSync('test/**/*.ts', { exclude: ['**/node_modules/**'] }).flatMap((path) =>
  [...readFileSync(path, 'utf8').matchAll(PLAIN)].map(([, file, single, double]) => ({
    path,
    file: file!,
    find: (single ?? double)!.replace(/\\(.)/g, (_, sign) => (sign === 'n' ? '\n' : sign)),
  })),
)

test('this test finds the edits of the checks', () => expect(own.length).toBeGreaterThan(10))
test.each(own)('an edit of $path finds its text in $file', ({ file, find }) => {
  const source = readFileSync(file, 'utf8')
  expect(applyEdits(file, source, [{ file, find, replace: '' }])).not.toBe(source)
})

test('the edit that adds an older format of directories finds its text', () => {
  const { file } = WITH_OLDER_SCHEMA
  const source = readFileSync(file, 'utf8')
  expect(applyEdits(file, source, [WITH_OLDER_SCHEMA])).not.toBe(source)
})

test('the edit that overwrites freed pages finds its text', () => {
  const source = readFileSync(POISON.file, 'utf8')
  expect(applyEdits(POISON.file, source, [POISON])).not.toBe(source)
})

test('each rule has a name of its own', () => {
  expect(new Set(RULES.map(({ name }) => name)).size).toBe(RULES.length)
})
