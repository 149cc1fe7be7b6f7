/**
 * Packages that few tests and benchmarks need are in folders of their own
 * (test/kit/own-packages.ts). No file outside such a folder imports them.
 */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'

type Manifest = {
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}
type Lock = { readonly packages: Readonly<Record<string, { readonly integrity?: string }>> }

const exclude = ['**/node_modules/**']
const read = (file: string) => JSON.parse(readFileSync(file, 'utf8'))
const everywhere: Manifest = read('package.json')
const installed = new Set(
  Object.keys({ ...everywhere.dependencies, ...everywhere.devDependencies }),
)
const own = new Map(
  globSync('{bench,engine,rpc,test,workers}/**/package.json', { exclude }).flatMap((file) => {
    const { dependencies }: Partial<Manifest> = read(file)
    return dependencies === undefined ? [] : [[dirname(file), dependencies] as const]
  }),
)

/** The programs in this file are strings, and they run where their packages are installed. */
const TEXTS = 'test/outside/package/programs.ts'

/** Lists the packages that a file imports and that `npm ci` in the root does not install. */
function faults(file: string, text: string): readonly string[] {
  const namesIn = (...patterns: readonly RegExp[]) =>
    patterns.flatMap((pattern) => [...text.matchAll(pattern)].map(([, name]) => packageOf(name!)))
  const types = namesIn(/^import type [^'";]*\bfrom '([^.'][^']*)'/gm)
  const values = namesIn(
    /^(?:import(?! type )|export) (?:[^'";]*\bfrom )?'([^.'][^']*)'/gm,
    // Only imports at the start of a line count: others are in strings for a browser or a table.
    /^\s*(?:const [^=`'"]*= \(?)?await import\('([^.'][^']*)'\)/gm,
  )
  // A check installs the folder's packages before it reads the types of the folder.
  const ownDependencies = own.get(dirname(file)) ?? {}
  return [...values, ...types.filter((name) => !(name in ownDependencies))].filter(
    (name) => !name.startsWith('node:') && !installed.has(name),
  )
}

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')

test('no file imports a package that `npm ci` does not install', () => {
  const files = globSync('{bench,test}/**/*.ts', { exclude }).filter((file) => file !== TEXTS)
  expect(files.length).toBeGreaterThan(500)
  const found = files.flatMap((file) =>
    faults(file, readFileSync(file, 'utf8')).map((name) => `${file} imports ${name}`),
  )
  expect(found).toEqual([])
})

test.each([
  ['test/x.ts', "import { Wallet } from 'ethers'", ['ethers']],
  ['test/x.ts', "import {\n  Wallet,\n  Signature,\n} from 'ethers'", ['ethers']],
  ['test/x.ts', "import type { Page } from 'playwright-core'", ['playwright-core']],
  ['test/clients/x.ts', "const { Web3 } = await import('web3')", ['web3']],
  [
    'test/operate/scale/x.ts',
    "import { a } from '@kubernetes-models/base/x.js'",
    ['@kubernetes-models/base'],
  ],
  ['test/outside/page/x.ts', "import type { Page } from 'playwright-core'", []],
  ['test/outside/page/x.ts', "import { chromium } from 'playwright-core'", ['playwright-core']],
  ['test/x.ts', "import { http } from 'viem'\nimport { x } from './x.ts'\nimport 'node:fs'", []],
])('imports without an installed package are found in %s: %s', (file, text, found) => {
  expect(faults(file, text)).toEqual(found)
})

test.each([...own])(
  'the folder %s has exact versions and a lock with checksums',
  (folder, dependencies) => {
    for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
    const { packages }: Lock = read(join(folder, 'package-lock.json'))
    const { '': root, ...others } = packages
    expect(root).toMatchObject({ dependencies })
    for (const [name, { integrity }] of Object.entries(others))
      expect([name, integrity]).toEqual([name, expect.stringMatching(/^sha512-/)])
  },
)
