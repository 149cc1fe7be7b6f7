/** Lines of text in a stream too long for one string. */

export class LineError extends Error {
  override name = 'LineError'
}

/**
 * Yields each line of UTF-8 text without its end (LF or CR LF). An empty last line is left out.
 * @param maxBytes maximum size of one line
 * @throws {LineError} for a longer line
 */
export async function* textLines(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<string> {
  let parts: Uint8Array[] = []
  let length = 0
  let number = 1
  const add = (part: Uint8Array) => {
    length += part.length
    if (length > maxBytes)
      throw new LineError(
        `line ${number} is longer than the ${maxBytes} bytes that are expected at most`,
      )
    parts.push(part)
  }
  const take = (): string => {
    const text = Buffer.concat(parts, length).toString()
    parts = []
    length = 0
    number++
    return text.endsWith('\r') ? text.slice(0, -1) : text
  }
  for await (const chunk of chunks) {
    let from = 0
    for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, from)) {
      add(chunk.subarray(from, end))
      yield take()
      from = end + 1
    }
    add(chunk.subarray(from))
  }
  if (length > 0) yield take()
}

const LF = 0x0a
