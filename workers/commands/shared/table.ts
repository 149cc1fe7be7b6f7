/** Text for a terminal: columns that are aligned, nothing more. */

/** @param rows of one length; numbers stand to the right */
export function table(rows: readonly (readonly (string | number)[])[]): string {
  const texts = rows.map((row) => row.map((cell) => cellOf(cell)))
  const widths = (texts[0] ?? []).map((_, at) => Math.max(...texts.map((row) => row[at]!.length)))
  const isRight = (rows.at(-1) ?? []).map((cell) => typeof cell === 'number')
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

const cellOf = (cell: string | number): string =>
  typeof cell === 'number' ? cell.toLocaleString('en-US') : cell
