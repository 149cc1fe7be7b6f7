/**
 * Slow paths that once existed, or are easily written. The search must distinguish these test
 * builds from the product within a minute.
 */
import type { Edit } from '../../kit/edits.ts'

export type Planted = { readonly name: string; readonly edits: readonly Edit[] }

const SCAN = 'rpc/json/scan.ts'
const BODY = 'rpc/http/body.ts'

/** Below the outermost bracket anything may follow anything. */
const looseColon: Edit = {
  file: SCAN,
  find: 'if (!isAfterValue || brackets[depth] !== OPEN_OBJECT) {',
  replace: 'if (depth > 0 && (!isAfterValue || brackets[depth] !== OPEN_OBJECT)) {',
}
const COUNT = 'if (++counts[depth]! > max) {'
const COUNTED = `counts[depth] = (counts[depth] ?? 0) + 1
        if (counts[depth]! > max) {`

export const PLANTED: readonly Planted[] = [
  {
    name: 'a brace that closes nothing, and a count of keys for each depth below',
    edits: [
      {
        file: SCAN,
        find: 'if (depth === 0 || brackets[depth] !== OPEN_OBJECT) {',
        replace: 'if (depth > 0 && brackets[depth] !== OPEN_OBJECT) {',
      },
      looseColon,
      { file: SCAN, find: COUNT, replace: COUNTED },
    ],
  },
  {
    name: 'a bracket that closes nothing, and a count of hex keys for each depth below',
    edits: [
      {
        file: SCAN,
        find: 'if (depth === 0 || brackets[depth] !== OPEN_ARRAY) {',
        replace: 'if (depth > 0 && brackets[depth] !== OPEN_ARRAY) {',
      },
      {
        file: SCAN,
        find: `// "
        if (isAfterValue) {`,
        replace: 'if (isAfterValue && depth > 0) {',
      },
      looseColon,
      {
        file: SCAN,
        find: COUNT,
        replace: `if (depth <= 0 && !isHex) {
          fault = NO_JSON
          break scanning
        }
        ${COUNTED}`,
      },
    ],
  },
  {
    name: 'an id of any length, of which each letter beyond ASCII is a call',
    edits: [
      {
        file: SCAN,
        find: "const max = bound === 'id' ? limits.idCharacters : limits.methodCharacters",
        replace: "const max = bound === 'id' ? Number.POSITIVE_INFINITY : limits.methodCharacters",
      },
      {
        file: 'rpc/json/envelope.ts',
        find: 'return id.length > cut.idCharacters ? undefined : asciiJson(id)',
        replace: 'return asciiJson(id)',
      },
    ],
  },
  {
    name: 'a list of the pieces of a body, as many as there are',
    edits: [
      {
        file: 'rpc/http/floods.ts',
        find: 'const piecesPerTurn = 2 * limits.bodyPieces',
        replace: 'const piecesPerTurn = Number.POSITIVE_INFINITY',
      },
      {
        file: BODY,
        find: 'const isShattered = this.#pieces > bodyPieces + this.#size / PIECE_BYTES',
        replace: 'const isShattered = false',
      },
      {
        file: BODY,
        find: 'Math.max(Math.ceil(bytes / POINT_BYTES), Math.ceil(this.#pieces / POINT_PIECES)) - 1',
        replace: 'Math.ceil(bytes / POINT_BYTES) - 1',
      },
      { file: BODY, find: '  #isOver = false\n', replace: '  #isOver = false\n  #list = []\n' },
      {
        file: BODY,
        find: 'else if (this.#hasCapacity(piece.length)) this.#buffer?.set(piece, this.#size - piece.length)',
        replace: 'else if (this.#list.push(piece) > 0) return undefined',
      },
      {
        file: BODY,
        find: 'this.#buffer?.subarray(0, this.#size)',
        replace: 'Buffer.concat(this.#list)',
      },
    ],
  },
  {
    name: 'the text of a whole batch, made again for each of its items',
    edits: [
      {
        file: 'rpc/dispatch/dispatch.ts',
        find: 'return value.map((one: unknown, at) => itemOf(one, at, scanned, reading))',
        replace: `return value.map((one: unknown, at) => {
    const text = JSON.stringify(value)
    const cut = { ...scanned, params: scanned.params.map((params) => params ?? text) }
    return itemOf(one, at, cut, reading)
  })`,
      },
    ],
  },
]
