/**
 * Lines of functions, their heads included, read from the layout that the formatter gives them: a function ends on the first line as far
 * in as the one that it begins on. Biome counts neither blank lines nor all others.
 */

export type FunctionLines = {
  readonly name: string
  readonly lines: number
  /** The line above it. */
  readonly before: string
}

/** What opens a block of statements, or another thing that is no function; `name: while` is a loop with a label. */
const NO_FUNCTION =
  /^(\w+: )?(\} )?(if|else|for|while|do|switch|try|catch|finally|class|interface|type|case|default|return(?! (async )?(function|\(|\w+ =>))|export (abstract )?(class|interface|type|default class)|abstract class|declare)\b/
const NAME = /^(?:function\*? (\w+)|const (\w+)|(?:(?:static|get|set|override) )*\*?(#?\w+))/
/** Before what says which function it is. */
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

/** An arrow, the end of a list of parameters, or of the type behind it. */
const isBody = (line: string): boolean =>
  /=> \{$/.test(line) ||
  (/\)(: [^=]+)? \{$/.test(line) && !/^\s*(\} )?(if|for|while|switch|catch)\b/.test(line))

/** Where the list of parameters begins that ends on this line. */
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
