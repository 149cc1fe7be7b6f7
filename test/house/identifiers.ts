/**
 * This module finds the identifiers of a TypeScript text, without comments, strings and regular
 * expressions.
 */

/**
 * The pattern matches a comment, a string, a word, a number or whitespace as a whole, and otherwise
 * one character.
 */
const PIECE =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|[A-Za-z_$][\w$]*|\d[\w.]*|[^\s]|\s+/y
const PATTERN = /\/(?![*/])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y
/** A slash after one of these starts a regular expression; after anything else it divides. */
const BEFORE_PATTERN = /(?:^|[=([{,;:!&|?+\-*<>~^}]|\b(?:return|typeof|case|in|of))$/

/** Yields each identifier as often as the text has it, without the `#` of a private field. */
export function* identifiersIn(text: string): Generator<string> {
  let at = 0
  let before = ''
  /** Each entry counts the open braces inside one template expression. */
  const templates: number[] = []
  const inTemplate = (from: number): number => {
    for (let index = from; index < text.length; index++) {
      if (text[index] === '\\') index++
      else if (text[index] === '`') return index + 1
      else if (text[index] === '$' && text[index + 1] === '{') {
        templates.push(0)
        return index + 2
      }
    }
    return text.length
  }
  while (at < text.length) {
    const pattern = text[at] === '/' && BEFORE_PATTERN.test(before) ? PATTERN : PIECE
    pattern.lastIndex = at
    let piece = pattern.exec(text)?.[0]
    if (piece === undefined) {
      PIECE.lastIndex = at
      piece = PIECE.exec(text)?.[0] ?? text[at]!
    }
    at += piece.length
    if (piece === '`') at = inTemplate(at)
    else if (piece === '{' && templates.length > 0) templates[templates.length - 1]!++
    else if (piece === '}' && templates.length > 0 && templates[templates.length - 1]!-- === 0) {
      templates.pop()
      at = inTemplate(at)
    } else if (/^[A-Za-z_$]/.test(piece)) yield piece
    if (!/^(\s|\/\/|\/\*)/.test(piece)) before = piece
  }
}

/** Splits a name into words in small letters: `newestHead` and `NEWEST_HEAD` have two. */
export const wordsIn = (name: string): readonly string[] =>
  (name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g) ?? []).map((word) => word.toLowerCase())
