/**
 * The README is the first thing that a stranger reads, so it stays short and shows what the node
 * does.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'

const MAX_LINES = 150
const MAX_WORDS = 1_200
const MAX_LINE_CHARACTERS = 400
/** A reader who wants to try the node must not need a decision record for it. */
const LINES_WITHOUT_DECISIONS = 60

/** Describes everything that is wrong with a README. */
function problemsOf(text: string): readonly string[] {
  const lines = text.trimEnd().split('\n')
  const words = text.split(/\s+/).filter((word) => word !== '')
  const long = lines.findIndex((line) => line.length > MAX_LINE_CHARACTERS)
  const decision = lines
    .slice(0, LINES_WITHOUT_DECISIONS)
    .findIndex((line) => /\]\(docs\/adr\b/.test(line))
  return [
    ...(lines.length > MAX_LINES ? [`${lines.length} lines, at most ${MAX_LINES}`] : []),
    ...(words.length > MAX_WORDS ? [`${words.length} words, at most ${MAX_WORDS}`] : []),
    ...(long < 0 ? [] : [`line ${long + 1} is longer than ${MAX_LINE_CHARACTERS} characters`]),
    ...(decision < 0 ? [] : [`line ${decision + 1} sends a new reader to a decision record`]),
    ...(/!\[[^\]]+\]\([^)]+\.(png|svg)\)/.test(text) ? [] : ['no picture']),
  ]
}

const PICTURE = '![a page](docs/images/page.png)'

test('the README is short and has a picture', () =>
  expect(problemsOf(readFileSync('README.md', 'utf8'))).toEqual([]))

describe('the search for problems', () => {
  const cases: [name: string, text: string, problem: string][] = [
    ['too many lines', `${PICTURE}\n${'a\n'.repeat(150)}`, '151 lines, at most 150'],
    [
      'too many words',
      `${PICTURE}\n${'a b c d e f g h i j\n'.repeat(120)}`,
      '1202 words, at most 1200',
    ],
    ['a long line', `${PICTURE}\n${'a'.repeat(401)}`, 'line 2 is longer than 400 characters'],
    [
      'a decision record near the top',
      `${PICTURE}\n[why](docs/adr/0001-a.md)`,
      'line 2 sends a new reader to a decision record',
    ],
    ['no picture', 'words', 'no picture'],
  ]
  test.each(cases)('finds %s', (_name, text, problem) =>
    expect(problemsOf(text)).toEqual([problem]),
  )
})
