/** Comments of the product and its tests are short, full sentences on lines that fit a screen. */
import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { identifiersIn } from './identifiers.ts'

const FILES = globSync('{engine,rpc,workers,bench,test}/**/*.ts', {
  exclude: (path) => path.includes('node_modules'),
})
const MAX_COLUMNS = 100
const FRAGMENT = /^\s*(?:\/\/|\/\*\*?|\*) ?(Of|The same|What|Who|As|Its|Those|Where|From here on)\b/
const COMMENT = /^\s*(?:\/\/|\/\*|\*)/
/** Biome reads a directive only where it stands on one line. */
const DIRECTIVE = /biome-ignore/

const MAX_WORDS = 20
/** A comment with no code before it; adjacent lines of `//` are one comment. */
const BLOCK = /^[ \t]*(?:\/\*[\s\S]*?\*\/|\/\/.*(?:\n[ \t]*\/\/.*)*)/gm
const DELIMITERS = /^[ \t]*(?:\/\/|\/\*\*?|\*(?!\/)) ?|[ \t]*\*\/$/gm
/** A usage line has no sentences, down to the next blank line. */
const USAGE = /^Usage: .*(?:\n.*\S.*)*/gm
/** A row of a table has bars, or columns that are aligned with spaces. */
const TABLE_ROW = /^\|.*|^.*\S {3,}\S.*/gm
/** A tag with its type or parameter ends a sentence, and so does the start of a list item. */
const TAG_OR_ITEM = /^\s*(?:@param \S+|@\w+(?: \{.*?\})?|(?:[-*]|\d+\.) )/gm
/** Code in backticks is one word. */
const CODE = /`[^`]*`/g
/** A blank line, a colon and a semicolon end a sentence too. */
const SENTENCE_END = /\n\s*\n|(?<=[.!?:;]['")]?)\s+/

function faults(text: string): string[] {
  const long = commentsIn(text).flatMap(sentencesIn).filter(isLong)
  return [
    ...lineFaults(text),
    ...long.map((sentence) => `more than ${MAX_WORDS} words: ${sentence}`),
  ]
}

/**
 * Finds the comments of a text. A name replaces each of them. The search for identifiers skips
 * strings and templates, so it finds only the names of real comments.
 */
function commentsIn(text: string): string[] {
  const blocks: string[] = []
  const named = text.replace(BLOCK, (block) => `COMMENT_${blocks.push(block) - 1};`)
  const names = new Set(identifiersIn(named))
  return blocks.filter((_, at) => names.has(`COMMENT_${at}`))
}

const sentencesIn = (comment: string): string[] =>
  comment
    .replace(DELIMITERS, '')
    .replace(USAGE, '')
    .replace(TABLE_ROW, '\n')
    .replace(TAG_OR_ITEM, '\n\n')
    .replace(CODE, 'code')
    .split(SENTENCE_END)
    .map((sentence) => sentence.replace(/\s+/g, ' ').trim())

const isLong = (sentence: string): boolean =>
  sentence.split(' ').filter((word) => /[\p{L}\p{N}]/u.test(word)).length > MAX_WORDS

function lineFaults(text: string): string[] {
  return text.split('\n').flatMap((line, at) => {
    if (!COMMENT.test(line) || DIRECTIVE.test(line)) return []
    const found: string[] = []
    if (FRAGMENT.test(line)) found.push(`line ${at + 1} begins as a fragment: ${line.trim()}`)
    if (line.length > MAX_COLUMNS) found.push(`line ${at + 1} has ${line.length} columns`)
    return found
  })
}

test.each(FILES)('the comments of %s are sentences that fit a screen', (file) => {
  expect(faults(readFileSync(file, 'utf8'))).toEqual([])
})

const words = (count: number): string => 'a '.repeat(count).trim()

test.each([
  ['a fragment', '/** Of the feed. */', 1],
  ['one in the middle of a block', ' * The same for a follower.', 1],
  ['a line that is too wide', `// ${'a'.repeat(MAX_COLUMNS)}`, 1],
  ['a long sentence', `/** ${words(21)}. */`, 1],
  ['one on two lines of a block', `/**\n * ${words(3)}. ${words(10)}\n * ${words(11)}.\n */`, 1],
  ['one in lines among code', `if (a) {\n  // ${words(10)}\n  // ${words(11)}\n}`, 1],
  ['one of a parameter', `/**\n * ${words(5)}.\n * @param a ${words(21)}\n */`, 1],
  ['one in a list', `/**\n * ${words(5)}:\n * - ${words(21)}\n * - ${words(5)}\n */`, 1],
  ['one around code', `/** ${words(10)} \`${words(5)}\` ${words(10)}. */`, 1],
  ['one between templates', `const b = \`\${b}\`\n// ${words(21)}\nconst c = \`\``, 1],
  ['nothing in a sentence', '/** Counts the frames of a feed. */', 0],
  ['nothing in code', `const wide = '${'a'.repeat(MAX_COLUMNS)}'`, 0],
  [
    'nothing in short sentences',
    `/**\n * ${words(20)}.\n * ${words(20)}: ${words(9)}\n * ${words(11)}; ${words(20)}\n */`,
    0,
  ],
  ['nothing in code in backticks', `/** ${words(19)} \`${words(20)}\`. */`, 0],
  ['nothing in two paragraphs', `/**\n * ${words(11)}\n *\n * ${words(11)}\n */`, 0],
  [
    'nothing in tags',
    `/**\n * ${words(11)}\n * @returns ${words(11)}\n * @throws ${words(11)}\n */`,
    0,
  ],
  ['nothing in a list', `/**\n * ${words(11)}\n * - ${words(11)}\n * 1. ${words(11)}\n */`, 0],
  ['nothing in a table', `/**\n * | a | b |\n * | ${words(21)} | ${words(21)} |\n */`, 0],
  ['nothing in columns', `/**\n * ${words(11)}   ${words(11)}\n * a   ${words(21)}\n */`, 0],
  [
    'nothing in a usage line',
    `/**\n * ${words(5)}.\n * Usage: a ${words(11)}\n * ${words(11)}\n */`,
    0,
  ],
  [
    'nothing in comments of their own',
    `/** ${words(11)} */\n// ${words(11)}\nb()\n// ${words(11)}`,
    0,
  ],
  ['nothing in a template', `const b = \`\n// ${words(21)}\n/* ${words(21)} */\``, 0],
])('the search finds %s', (_, text, count) => {
  expect(faults(text)).toHaveLength(count)
})
