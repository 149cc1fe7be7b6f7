/** A look at the text of a request before JSON.parse: how deep, how many and how long its tokens are, in one pass and in constant memory. */

export type ScanLimits = {
  readonly depth: number
  /** Keys of one object. Keys that begin with 0x (addresses, slots) are counted apart: they are data, bounded by `hexKeys`. */
  readonly keys: number
  readonly hexKeys: number
  /** Lists, objects, and what stands in them: a small value costs JSON.parse as much as a long one, a list several times that. */
  readonly values: number
  /** Scanning stops beyond so many items of a batch. */
  readonly items: number
  /** Characters, as they are written, of each kind of token. */
  readonly keyCharacters: number
  readonly numberCharacters: number
  /** A string that begins with 0x, and any other. */
  readonly hexCharacters: number
  readonly textCharacters: number
  readonly idCharacters: number
  readonly methodCharacters: number
}
export type Scan = {
  readonly isBatch: boolean
  /** Items of a batch, 1 otherwise. */
  readonly items: number
  /** Counted as `ScanLimits.values` is. */
  readonly values: number
  /** Why the body is refused without being parsed; '': it is no JSON. */
  readonly fault: string | undefined
  /** Text of an id that is a number, by item. */
  readonly ids: readonly (string | undefined)[]
  /** Text of the params array, by item. */
  readonly params: readonly (string | undefined)[]
}

const QUOTE = 34
const BACKSLASH = 92
const OPEN_OBJECT = 123
const OPEN_ARRAY = 91
const NO_JSON = ''
/** Of `true`, `false` and `null`. */
const LITERAL_CHARACTERS = 5

/**
 * One pass over the text, without a stack of its own to overflow: JSON.parse takes a second for a megabyte of "[". What cannot be JSON ends
 * it at once, so that nothing grows with a text that no parser would take. It also cuts out number ids (12345678901234567890 would come
 * back as …567000) and params texts (cache keys, and what a worker gets).
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a loop over every character, whose state is its locals
export function scan(text: string, limits: ScanLimits): Scan {
  const ids: (string | undefined)[] = []
  const params: (string | undefined)[] = []
  // By depth, from 1 on.
  const brackets: number[] = []
  const keys: number[] = []
  const hexKeys: number[] = []
  let depth = 0
  let envelope = 1
  let items = 1
  let values = 0
  let paramsFrom = -1
  let keyFrom = 0
  let keyTo = 0
  let hasEscapedKey = false
  /** A value, or a key, stands before: only a bracket that closes, a comma or a colon may follow. */
  let isAfterValue = false
  /** The key before this value, where its value has a bound of its own. */
  let bound: 'id' | 'method' | undefined

  let fault: string | undefined

  // A closure that made the result would keep these variables out of registers.
  scanning: for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (isSpace(code)) {
      // Native code finds the end of long ones: a megabyte of them takes this loop 15 ms before V8 has compiled it.
      if (isSpace(text.charCodeAt(at + LONG_SPACE))) at = skipSpace(text, at) - 1
      continue
    }
    // Literal labels: with named ones V8 makes no jump table, which is five times as slow (2026-11).
    switch (code) {
      case 34: {
        // "
        if (isAfterValue) {
          fault = NO_JSON
          break scanning
        }
        isAfterValue = true
        keyFrom = at + 1
        at = endOfString(text, keyFrom)
        if (at < 0) {
          fault = 'unterminated string'
          break scanning
        }
        keyTo = at
        if (bound === undefined) {
          const most = isHexAt(text, keyFrom) ? limits.hexCharacters : limits.textCharacters
          if (keyTo - keyFrom > most) {
            fault = `string longer than ${most} characters`
            break scanning
          }
          break
        }
        const most = bound === 'id' ? limits.idCharacters : limits.methodCharacters
        if (keyTo - keyFrom > most) {
          fault = `${bound} longer than ${most} characters`
          break scanning
        }
        bound = undefined
        break
      }
      case 91: // [
      case 123: // {
        if (isAfterValue) {
          fault = NO_JSON
          break scanning
        }
        if (values === 0 && code === OPEN_ARRAY) envelope = 2
        if (++depth > limits.depth) {
          fault = `nested deeper than ${limits.depth}`
          break scanning
        }
        if (++values > limits.values) {
          fault = `more than ${limits.values} values`
          break scanning
        }
        brackets[depth] = code
        keys[depth] = 0
        hexKeys[depth] = 0
        bound = undefined
        break
      case 93: // ]
        if (depth === 0 || brackets[depth] !== OPEN_ARRAY) {
          fault = NO_JSON
          break scanning
        }
        depth--
        if (depth === envelope && paramsFrom >= 0) {
          params[items - 1] = text.slice(paramsFrom, at + 1)
          paramsFrom = -1
        }
        isAfterValue = true
        break
      case 125: // }
        if (depth === 0 || brackets[depth] !== OPEN_OBJECT) {
          fault = NO_JSON
          break scanning
        }
        depth--
        isAfterValue = true
        break
      case 44: // ,
        if (!isAfterValue || depth === 0) {
          fault = NO_JSON
          break scanning
        }
        isAfterValue = false
        if (++values > limits.values) {
          fault = `more than ${limits.values} values`
          break scanning
        }
        if (depth === 1 && envelope === 2 && ++items > limits.items) {
          fault = `more than ${limits.items} items`
          break scanning
        }
        break
      case 58: {
        // :
        if (!isAfterValue || brackets[depth] !== OPEN_OBJECT) {
          fault = NO_JSON
          break scanning
        }
        isAfterValue = false
        if (keyTo - keyFrom > limits.keyCharacters) {
          fault = `key longer than ${limits.keyCharacters} characters`
          break scanning
        }
        const isHex = isHexAt(text, keyFrom)
        const counts = isHex ? hexKeys : keys
        const most = isHex ? limits.hexKeys : limits.keys
        if (++counts[depth]! > most) {
          fault = `object with more than ${most} keys`
          break scanning
        }
        if (depth !== envelope) break
        const part = partAt(text, keyFrom, keyTo)
        if (part === 'id') {
          bound = part
          ids[items - 1] = numberAt(text, skipSpace(text, at + 1), limits.numberCharacters)
        } else if (part === 'params') {
          const from = skipSpace(text, at + 1)
          params[items - 1] = undefined
          paramsFrom = text.charCodeAt(from) === OPEN_ARRAY ? from : -1
        } else if (part === 'method') bound = part
        else if (part === 'escaped') hasEscapedKey = true
        break
      }
      default: {
        if (isAfterValue) {
          fault = NO_JSON
          break scanning
        }
        isAfterValue = true
        const isNumber = isOfNumber(code)
        const most = isNumber ? limits.numberCharacters : LITERAL_CHARACTERS
        const to = isNumber ? endOfNumber(text, at, most) : endOfLiteral(text, at)
        if (to - at > most) {
          fault = isNumber ? `number longer than ${most} characters` : NO_JSON
          break scanning
        }
        if (to === at) {
          fault = NO_JSON
          break scanning
        }
        at = to - 1
      }
    }
  }
  if (fault === undefined && (depth > 0 || !isAfterValue)) fault = NO_JSON
  return {
    isBatch: envelope === 2,
    items,
    values,
    fault,
    // An escaped key may spell "id" or "params" a second time, unseen here: the parsed values count then.
    ids: hasEscapedKey ? [] : ids,
    params: hasEscapedKey ? [] : params,
  }
}

/**
 * Which part of a request a key names; 'escaped': perhaps one of them, spelled otherwise. By its letters, because a slice of each key took
 * a fifth of the scan (2026-11).
 */
function partAt(
  text: string,
  from: number,
  to: number,
): 'id' | 'method' | 'params' | 'escaped' | undefined {
  switch (text.charCodeAt(from)) {
    case 105: // i
      if (isWord(text, 'id', from, to)) return 'id'
      break
    case 109: // m
      if (isWord(text, 'method', from, to)) return 'method'
      break
    case 112: // p
      if (isWord(text, 'params', from, to)) return 'params'
      break
    case 92: // \
      break
    default:
      return undefined
  }
  return text.slice(from, to).includes('\\') ? 'escaped' : undefined
}

function isWord(text: string, word: string, from: number, to: number): boolean {
  if (to - from !== word.length) return false
  for (let at = 0; at < word.length; at++)
    if (text.charCodeAt(from + at) !== word.charCodeAt(at)) return false
  return true
}

/** Index of the closing quote; -1: there is none. */
function endOfString(text: string, from: number): number {
  const end = text.indexOf('"', from)
  if (end <= from || text.charCodeAt(end - 1) !== BACKSLASH) return end
  // A search for each of a million escaped quotes would take ten times as long as a look at each character.
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    if (code === BACKSLASH) at++
  }
  return -1
}

const isHexAt = (text: string, at: number): boolean =>
  text.charCodeAt(at) === 48 && (text.charCodeAt(at + 1) | 32) === 120

/** Or another control character, which the parser refuses: one comparison is twice as fast as four. */
const isSpace = (code: number): boolean => code <= 32

const NO_SPACE = /[!-\uffff]/g
/** From as many on, looking for their end by an expression is quicker. */
const LONG_SPACE = 16

/** Where the next character stands that is none, or the text ends. */
function skipSpace(text: string, at: number): number {
  if (!isSpace(text.charCodeAt(at))) return at
  NO_SPACE.lastIndex = at
  return NO_SPACE.test(text) ? NO_SPACE.lastIndex - 1 : text.length
}

/** A digit, a sign, a point or an e. */
const isOfNumber = (code: number): boolean =>
  (code >= 48 && code <= 57) || code === 45 || code === 43 || code === 46

/** Of one that is longer than it may be: beyond that. */
function endOfNumber(text: string, from: number, most: number): number {
  let to = from
  for (; to - from <= most; to++) {
    const code = text.charCodeAt(to)
    if (!isOfNumber(code) && (code | 32) !== 101) return to
  }
  return to
}

function endOfLiteral(text: string, from: number): number {
  let to = from
  for (; to - from <= LITERAL_CHARACTERS; to++) {
    const code = text.charCodeAt(to)
    if (!(code >= 97 && code <= 122)) return to
  }
  return to
}

/** The number that begins at `at`, as written; JSON.parse has the last word on its form. */
function numberAt(text: string, at: number, most: number): string | undefined {
  if (!isOfNumber(text.charCodeAt(at))) return undefined
  return text.slice(at, endOfNumber(text, at, most))
}
