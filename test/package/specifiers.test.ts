/**
 * The build rewrites module names that its compiler leaves alone, and the command starts a node.
 */
import { describe, expect, test } from 'vitest'
import { launch, NODE_FLAGS, VARIABLES } from '../../workers/package/launch.ts'
import { argvOf } from '../../workers/package/options.ts'
import { isEnough } from '../../workers/process/node-version.ts'
import { readStartScript } from '../kit/start-script.ts'
import { leftovers, namedScripts, rewritten } from './specifiers.ts'

describe('the build', () => {
  test.each([
    [
      "new URL('../persistence/persistence.ts', import.meta.url)",
      ['../persistence/persistence.js'],
    ],
    ["createRequire(import.meta.url)('./near.ts')", ['./near.js']],
    ['load(`./near.ts`)', ['./near.js']],
    ["extname(name) === '.ts'", []],
  ])('rewrites the module names in %s', (text, names) => {
    const made = rewritten(text)
    expect(namedScripts(made)).toEqual(names)
    expect(leftovers(made)).toEqual([])
  })

  test.each([
    ["new URL('strip-types.ts', import.meta.url)", ['strip-types.ts']],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a module.
    ['load(`${name}.ts`)', ['${name}.ts']],
    ["import('flashnode/workers/main.ts')", ['flashnode/workers/main.ts']],
  ])('reports a name that it cannot rewrite in %s', (text, names) => {
    expect(leftovers(rewritten(text))).toEqual(names)
  })
})

describe('the command of the package', () => {
  test('starts a node as the scripts of package.json do', () => {
    const { execArgv, env } = readStartScript()
    expect(execArgv).toEqual(NODE_FLAGS)
    expect(env).toEqual({ ...VARIABLES, NODE_COMPILE_CACHE: 'node_modules/.cache/compile' })
  })

  test('does not change variables of its environment', () => {
    const { file, args, env } = launch(['dev', '--port', '0'], { MALLOC_ARENA_MAX: '1', A: 'b' })
    expect(file).toBe(process.execPath)
    expect(args.slice(-3)).toEqual(['dev', '--port', '0'])
    expect(env).toMatchObject({ MALLOC_ARENA_MAX: '1', MALLOC_TRIM_THRESHOLD_: '131072', A: 'b' })
  })

  test.each([
    ['20.20.2', false],
    ['22.21.0', false],
    ['24.11.9', false],
    ['24.12.0', true],
    ['24.21.0', true],
    ['26.0.0', true],
  ])('accepts Node %s: %s', (version, isIt) => {
    expect(isEnough(version)).toBe(isIt)
  })
})

test.each([
  [{}, ['--port=0', '--admin-port=0', '--rate-limit=off', '--log-level=warn', '--ephemeral']],
  [
    { port: 'none', feed: 'scripted', cors: ['a', 'b'], hosts: [], chainId: undefined },
    [
      ...['--port=0', '--admin-port=0', '--rate-limit=off', '--log-level=warn', '--ephemeral'],
      '--cors=a,b',
    ],
  ],
  [
    { port: 9_000, datadir: 'd', allowInsecureUnlock: false, slowCallParams: true },
    [
      ...['--port=9000', '--admin-port=0', '--rate-limit=off', '--log-level=warn'],
      ...['--datadir=d', '--slow-call-params'],
    ],
  ],
] as const)('the options %j become flags of the command', (options, argv) => {
  expect(argvOf(options)).toEqual(argv)
})
