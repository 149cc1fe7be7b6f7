/**
 * Packages of one test or benchmark are installed once. A failed installation ends the command with
 * one line.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test, vi } from 'vitest'
import { temporaryDirectory } from '../fixtures/databases.ts'
import { requireFrom } from '../kit/own-packages.ts'

const HELPER = new URL('../kit/own-packages.ts', import.meta.url).href

/** @param packages entries of the lock beside the folder itself */
function folderWith(dependencies: Readonly<Record<string, string>>, packages: object): string {
  const folder = join(temporaryDirectory(), 'needs')
  mkdirSync(join(folder, 'near'), { recursive: true })
  const write = (name: string, json: object) =>
    writeFileSync(join(folder, name), JSON.stringify(json))
  write('near/package.json', { name: 'near', version: '1.0.0' })
  write('package.json', { name: 'needs', dependencies })
  const all = { '': { name: 'needs', dependencies }, ...packages }
  write('package-lock.json', { name: 'needs', lockfileVersion: 3, requires: true, packages: all })
  return folder
}

/** @param env additional variables for the process */
function request(folder: string, env: Readonly<Record<string, string>> = {}) {
  const source = `
    import { requireFrom } from '${HELPER}'
    console.log(typeof requireFrom(new URL('${pathToFileURL(folder).href}/')).resolve)`
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', source],
    { encoding: 'utf8', env: { ...process.env, ...env }, cwd: join(folder, '..') },
  )
  return { status, stdout, stderr }
}
const DONE = { status: 0, stdout: 'function\n', stderr: '' }

test('installed packages are not installed again until the lock changes', () => {
  const folder = folderWith(
    { near: 'file:near' },
    { near: { version: '1.0.0' }, 'node_modules/near': { resolved: 'near', link: true } },
  )
  expect(request(folder)).toEqual(DONE)
  const withoutNpm = { PATH: '' }
  expect(request(folder, withoutNpm)).toEqual(DONE)
  writeFileSync(join(folder, 'package-lock.json'), '{}')
  expect(request(folder, withoutNpm)).toEqual({
    status: 1,
    stdout: '',
    stderr:
      'npm cannot install what needs/ needs (spawnSync npm ENOENT): run "npm ci --prefix needs/" where its registry can be reached\n',
  })
})

test('a missing registry ends a command with one line, and throws in a test', () => {
  const folder = folderWith(
    { 'is-number': '7.0.0' },
    { 'node_modules/is-number': { version: '7.0.0' } },
  )
  const offline = {
    npm_config_registry: 'http://127.0.0.1:9/',
    npm_config_cache: join(temporaryDirectory(), 'cache'),
  }
  expect(request(folder, offline)).toEqual({
    status: 1,
    stdout: '',
    stderr:
      'npm cannot install what needs/ needs (connect ECONNREFUSED 127.0.0.1:9): run "npm ci --prefix needs/" where its registry can be reached\n',
  })
  for (const [name, value] of Object.entries(offline)) vi.stubEnv(name, value)
  expect(() => requireFrom(pathToFileURL(`${folder}/`))).toThrow(
    /^npm cannot install what .*needs\/ needs/,
  )
  vi.unstubAllEnvs()
})
