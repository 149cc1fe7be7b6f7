/** Every file that a page links to must exist. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'

const pages = globSync(['*.md', '{bench,docs}/**/*.md'], { exclude: ['**/node_modules/**'] })
const LINK = /\]\(([^)#\s]+)/g
const brokenIn = (page: string, text: string): string[] =>
  [...text.matchAll(LINK)]
    .map(([, link]) => link!)
    .filter((link) => !/^[a-z]+:/.test(link) && !existsSync(join(dirname(page), link)))

test.each(pages)('every link of %s leads to a file', (page) =>
  expect(brokenIn(page, readFileSync(page, 'utf8'))).toEqual([]),
)

test('a link to a missing file is found', () => {
  expect(
    brokenIn('docs/a.md', '[it](adr/0000-nothing.md#x), [on](https://a.b), [up](../README.md)'),
  ).toEqual(['adr/0000-nothing.md'])
})
