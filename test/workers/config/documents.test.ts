/** Each command line in a document must be valid, and each script that it names must exist. */
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { LIMITS } from '../../../rpc/core/limits.ts'
import { COMMANDS } from '../../../workers/commands/index.ts'
import { readApiKeys } from '../../../workers/config/api-keys-file.ts'
import { kebab } from '../../../workers/config/command.ts'
import { readInvocation } from '../../../workers/config/config.ts'

const directory = mkdtempSync(join(tmpdir(), 'flashnode-documents-'))
afterAll(() => rmSync(directory, { recursive: true }))
const token = join(directory, 'token')
writeFileSync(token, `${'t'.repeat(32)}\n`, { mode: 0o600 })

const pages = globSync(['*.md', 'docs/**/*.md', 'bench/*.md'], {
  exclude: ['**/node_modules/**', 'docs/adr/**', 'CHANGELOG.md'],
})
const textOf = (page: string) => readFileSync(page, 'utf8')
const blocksOf = (page: string, language: string) =>
  [...textOf(page).matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(
    ([, code]) => code!,
  )

/** A node is started from a checkout, or by the package's command. */
const STARTED = /(?:npm run -s flashnode --|(?:^|&& )(?:npx )?flashnode) (.*?)(?= &&|$)/gm
const linesOf = (page: string) =>
  blocksOf(page, 'sh').flatMap((code) =>
    [...code.matchAll(STARTED)].map(([, line]) => ({ page, line: line! })),
  )

/** Makes the arguments; A, B and URL stand for addresses, three dots for further flags. */
function argvOf(line: string): string[] {
  const words = line.split(' ').filter((word) => word !== '…')
  return words.map((word, at) => {
    if (words[at - 1]?.endsWith('-token-file')) return token
    return word.replace(/\b(?:URL|A|B)\b/g, words[at - 1] === '--feed' ? 'wss://a' : 'http://a')
  })
}
const actionOf = (argv: readonly string[]) => readInvocation(argv, {}, COMMANDS).action

describe('the command lines in documents', () => {
  const lines = pages.flatMap(linesOf)
  test('are found', () => expect(lines.length).toBeGreaterThan(20))
  test.each(lines)('are valid: $page: $line', ({ line }) =>
    expect(actionOf(argvOf(line))).toBe('run'),
  )

  test('are refused if they are wrong', () => {
    for (const line of ['verify --datdir DIR', 'compare A', 'doctor --feed http://a'])
      expect(() => actionOf(argvOf(line)), line).toThrow()
  })

  test('of the container and of the service are valid', () => {
    const [, cmd] = /^CMD (\[.*\])$/m.exec(textOf('Dockerfile'))!
    expect(actionOf(JSON.parse(cmd!) as string[])).toBe('run')
    const [, started] = /^ExecStart=\S+ \S+bin\.js (.*)$/m.exec(
      textOf('docs/operate/flashnode.service'),
    )!
    expect(actionOf(started!.split(' '))).toBe('run')
  })
})

/** These flags belong to other programs. */
const FOREIGN = /^--(help$|rpc\.)/
test('flags in the pages for operators exist', () => {
  const known = new Set(
    COMMANDS.commands.flatMap(({ flags }) => Object.keys(flags).map((name) => `--${kebab(name)}`)),
  )
  const named = globSync('docs/operate/**/*.md').flatMap((page) =>
    [...textOf(page).matchAll(/`(--[a-z][a-z.-]*)(?=[` ])/g)].map(([, flag]) => flag!),
  )
  expect(named.length).toBeGreaterThan(60)
  const strange = named.filter((flag) => !known.has(flag) && !FOREIGN.test(flag))
  expect(strange).toEqual([])
})

test('the page of limits has the right sum of memory that clients can fill', () => {
  const [, said, text] = /adds up to (\d) GB: (.*?) It is\n/s.exec(
    textOf('docs/operate/limits.md'),
  )!
  const names = [...text!.matchAll(/`--limit-([a-z-]+)`/g)].map(([, name]) => name!)
  const bytes = Object.entries(LIMITS)
    .filter(([name]) => names.includes(kebab(name)))
    .map(([, { value }]) => value)
  expect(bytes).toHaveLength(names.length)
  expect(bytes.reduce((sum, value) => sum + value) / 2 ** 30).toBeCloseTo(Number(said), 1)
})

test('npm scripts in documents exist', () => {
  const own = scriptsOf('package.json')
  // `npm run package` runs the scripts of the examples.
  const missing = pages
    .filter((page) => !page.startsWith('docs/examples/'))
    .flatMap((page) =>
      [...textOf(page).matchAll(/npm run (?:-s )?([a-z][a-z:-]*)/g)].map(([, name]) => name!),
    )
    .filter((name) => !own.has(name))
  expect(missing).toEqual([])
})
const scriptsOf = (file: string): ReadonlySet<string> =>
  new Set(Object.keys((JSON.parse(textOf(file)) as { readonly scripts: object }).scripts))

const JSONS = pages.flatMap((page) => blocksOf(page, 'json').map((code) => ({ page, code })))
test.each(JSONS)('JSON in $page is valid, as a whole or line by line', ({ code }) => {
  const parse = (text: string) => JSON.parse(text) as unknown
  const isComplete = !code.trim().split('\n').every(isObject)
  expect(() => (isComplete ? parse(code) : code.trim().split('\n').map(parse))).not.toThrow()
})
const isObject = (line: string): boolean => /^\{.*\}$/.test(line)

test('the API keys in docs/operate/limits.md are a valid key file', () => {
  const path = join(directory, 'keys.json')
  writeFileSync(path, blocksOf('docs/operate/limits.md', 'json')[0]!)
  const { entries, problems } = readApiKeys(path)
  expect(problems).toEqual([])
  expect(entries).toHaveLength(3)
})
