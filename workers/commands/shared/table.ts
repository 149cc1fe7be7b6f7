/** Formats text in aligned columns. */

/** @param rows rows of equal length; columns of numbers are aligned right */
export function table(rows: readonly (readonly (string | number)[])[]): string {
  const texts = rows.map((row) => row.map((value) => textOf(value)))
  const widths = (texts[0] ?? []).map((_, at) => Math.max(...texts.map((row) => row[at]!.length)))
  const isRight = (rows.at(-1) ?? []).map((value) => typeof value === 'number')
  return texts
    .map((row) =>
      row
        .map((text, at) => (isRight[at] ? text.padStart(widths[at]!) : text.padEnd(widths[at]!)))
        .join('  ')
        .trimEnd(),
    )
    .map((line) => `${line}\n`)
    .join('')
}

const textOf = (value: string | number): string =>
  typeof value === 'number' ? value.toLocaleString('en-US') : value
