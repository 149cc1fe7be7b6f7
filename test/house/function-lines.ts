/**
 * This module counts the lines of functions, including their heads, from the formatter's layout. A
 * function ends on the first line with the indentation of its opening line. Biome does not count
 * blank lines and some others.
 */

export type FunctionLines = {
  readonly name: string
  readonly lines: number
  /** The line above the function. */
  readonly before: string
}

/**
 * These words open a block of statements or another construct that is no function; `name: while` is
 * a labelled loop.
 */
const NO_FUNCTION =
  /^(\w+: )?(\} )?(if|else|for|while|do|switch|try|catch|finally|class|interface|type|case|default|return(?! (async )?(function|\(|\w+ =>))|export (abstract )?(class|interface|type|default class)|abstract class|declare)\b/
const NAME = /^(?:function\*? (\w+)|const (\w+)|(?:(?:static|get|set|override) )*\*?(#?\w+))/
/** These modifiers precede the word that says which function follows. */
const MODIFIERS = /^(export )?(default )?(async )?/

export function functionLines(text: string): FunctionLines[] {
  const lines = text.split('\n')
  return lines.flatMap((opening, at) => {
    if (!opening.endsWith('{') || !isBody(opening)) return []
    const head = headOf(lines, at)
    const first = lines[head]!.trim()
    if (NO_FUNCTION.test(first)) return []
    const end = lines.findIndex((line, index) => index > at && depth(line) === depth(opening))
    const name =
      NAME.exec(first.replace(MODIFIERS, ''))
        ?.slice(1)
        .find((one) => one !== undefined) ?? first
    return [{ name, lines: end - head + 1, before: lines[head - 1] ?? '' }]
  })
}

/**
 * A function's body opens after an arrow, a list of parameters, or the return type behind the list.
 */
const isBody = (line: string): boolean =>
  /=> \{$/.test(line) ||
  (/\)(: [^=]+)? \{$/.test(line) && !/^\s*(\} )?(if|for|while|switch|catch)\b/.test(line))

/** Finds the line on which the list of parameters starts that ends on this line. */
function headOf(lines: readonly string[], at: number): number {
  let head = at
  while (/^\s*[)}\]]/.test(lines[head]!)) {
    const inside = depth(lines[head]!)
    do head--
    while (lines[head]!.trim() === '' || depth(lines[head]!) > inside)
  }
  return head
}

const depth = (line: string): number =>
  line.trim() === '' ? Number.POSITIVE_INFINITY : line.search(/\S/)
