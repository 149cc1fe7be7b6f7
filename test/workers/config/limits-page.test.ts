/**
 * This test compares the table of all limits in docs/operate/limits.md; `npx vitest run limits-page
 * -u` writes it.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { COMMANDS } from '../../../workers/commands/index.ts'
import { kebab } from '../../../workers/config/command.ts'
import {
  headingOf,
  isLimit,
  isListedLimit,
  LISTED_BOUNDS,
} from '../../../workers/config/help-groups.ts'

const PAGE = join(import.meta.dirname, '../../../docs/operate/limits.md')
const HEADING = '## All bounds\n'
const OTHERS = 'Not in the help'

const limits = new Map(
  COMMANDS.commands
    // The page has the default of `follow` where commands differ.
    .toSorted((a, b) => Number(a.name === 'follow') - Number(b.name === 'follow'))
    .flatMap(({ flags }) => Object.entries(flags))
    .filter(([name]) => isLimit(name)),
)
const groups = Map.groupBy(limits, ([name]) => (isListedLimit(name) ? headingOf(name) : OTHERS))

function tableOf(heading: string): string {
  const rows = groups
    .get(heading)!
    .map(
      ([name, { value, fallback, text }]) =>
        `| \`--${kebab(name)} ${value}\` | ${fallback} | ${text} |`,
    )
  return `### ${heading}\n\n| flag | default | bound |\n|---|---|---|\n${rows.sort().join('\n')}\n`
}

test('the page lists each limit with its default, under the headings of the help', async () => {
  const page = readFileSync(PAGE, 'utf8')
  const intro = page.slice(0, page.indexOf('### ', page.indexOf(HEADING)))
  expect(intro).toContain(HEADING)
  expect(limits.size).toBeGreaterThan(100)
  const headings = Object.keys(LISTED_BOUNDS)
  const tables = [...headings, OTHERS].map(tableOf)
  await expect(`${intro}${tables.join('\n')}`).toMatchFileSnapshot(PAGE)
})
