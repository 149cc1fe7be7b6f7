/**
 * Scans the text of a request before JSON.parse: depth, number and length of its tokens, in one
 * pass and constant memory.
 */

export type ScanLimits = {
  readonly depth: number
  /**
   * Maximum keys of one object. Keys that start with 0x (addresses, slots) are data and are counted
   * separately, for `hexKeys`.
   */
  readonly keys: number
  readonly hexKeys: number
  /**
   * Maximum number of values, lists and objects included. A small value takes JSON.parse as long as
   * a long one, and a list several times that.
   */
  readonly values: number
  /** Maximum items of a batch, after which the scan stops. */
  readonly items: number
  /** Maximum characters of each kind of token, as written. */
  readonly keyCharacters: number
  readonly numberCharacters: number
  /** Limits of a string that starts with 0x, and of any other string. */
  readonly hexCharacters: number
  readonly textCharacters: number
  readonly idCharacters: number
  readonly methodCharacters: number
}
export type Scan = {
  readonly isBatch: boolean
  /** Number of items of a batch, otherwise 1. */
  readonly items: number
  /** Number of values, counted as for `ScanLimits.values`. */
  readonly values: number
  /** Reason to refuse the body without parsing; '' means that it is not JSON. */
  readonly fault: string | undefined
  /** Text of each numeric id, by item. */
  readonly ids: readonly (string | undefined)[]
  /** Text of each params array, by item. */
  readonly params: readonly (string | undefined)[]
}

const QUOTE = 34
const BACKSLASH = 92
const OPEN_OBJECT = 123
const OPEN_ARRAY = 91
const NO_JSON = ''
/** Maximum length of `true`, `false` and `null`. */
const LITERAL_CHARACTERS = 5

/**
 * Scans the text without recursion, because JSON.parse takes a second for a megabyte of "[". It
 * stops at the first text that cannot be JSON, so that nothing grows with invalid input. It also
 * cuts out numeric ids, which parsing would round (12345678901234567890 would become …567000). The
 * texts of params serve as cache keys, and go to workers.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a loop over every character, whose state is its locals
export function scan(text: string, limits: ScanLimits): Scan {
  const ids: (string | undefined)[] = []
  const params: (string | undefined)[] = []
  // Entries by depth, from 1 on.
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
  /**
   * The previous token is a value or a key, so a closing bracket, a comma or a colon must follow.
   */
  let isAfterValue = false
  /** The key before this value, where its value has its own limit. */
  let bound: 'id' | 'method' | undefined

  let fault: string | undefined

  // No closure builds the result, because captured variables would not stay in registers.
  scanning: for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (isSpace(code)) {
      /*
       * Native code skips long whitespace. A megabyte takes this loop 15 ms before V8 has compiled
       * the loop.
       */
      if (isSpace(text.charCodeAt(at + LONG_SPACE))) at = skipSpace(text, at) - 1
      continue
    }
    /*
     * The labels are literals, because V8 builds no jump table for named ones, which is five times
     * as slow (2026-11).
     */
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
          const max = isHexAt(text, keyFrom) ? limits.hexCharacters : limits.textCharacters
          if (keyTo - keyFrom > max) {
            fault = `string longer than ${max} characters`
            break scanning
          }
          break
        }
        const max = bound === 'id' ? limits.idCharacters : limits.methodCharacters
        if (keyTo - keyFrom > max) {
          fault = `${bound} longer than ${max} characters`
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
        const max = isHex ? limits.hexKeys : limits.keys
        if (++counts[depth]! > max) {
          fault = `object with more than ${max} keys`
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
        const max = isNumber ? limits.numberCharacters : LITERAL_CHARACTERS
        const to = isNumber ? endOfNumber(text, at, max) : endOfLiteral(text, at)
        if (to - at > max) {
          fault = isNumber ? `number longer than ${max} characters` : NO_JSON
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
    /*
     * An escaped key may spell "id" or "params" a second time, which the scan cannot see. The
     * parsed values count then.
     */
    ids: hasEscapedKey ? [] : ids,
    params: hasEscapedKey ? [] : params,
  }
}

/**
 * Returns the part of a request that a key names; 'escaped' means that an escaped key may name one.
 * Letters are compared directly, because slices of all keys took a fifth of the scan (2026-11).
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

/** Returns the index of the closing quote, or -1. */
function endOfString(text: string, from: number): number {
  const end = text.indexOf('"', from)
  if (end <= from || text.charCodeAt(end - 1) !== BACKSLASH) return end
  /*
   * The loop reads each character, because searches for a million escaped quotes would take ten
   * times as long.
   */
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    if (code === BACKSLASH) at++
  }
  return -1
}

const isHexAt = (text: string, at: number): boolean =>
  text.charCodeAt(at) === 48 && (text.charCodeAt(at + 1) | 32) === 120

/**
 * Includes other control characters, which the parser refuses. One comparison is twice as fast as
 * four.
 */
const isSpace = (code: number): boolean => code <= 32

const NO_SPACE = /[!-\uffff]/g
/** Length from which a regular expression finds the end of whitespace faster. */
const LONG_SPACE = 16

/** Returns the index of the next character that is no whitespace, or the text's length. */
function skipSpace(text: string, at: number): number {
  if (!isSpace(text.charCodeAt(at))) return at
  NO_SPACE.lastIndex = at
  return NO_SPACE.test(text) ? NO_SPACE.lastIndex - 1 : text.length
}

/** A digit, a sign or a point. */
const isOfNumber = (code: number): boolean =>
  (code >= 48 && code <= 57) || code === 45 || code === 43 || code === 46

/** Returns the end of a number. For a number that is too long, the result lies beyond the limit. */
function endOfNumber(text: string, from: number, max: number): number {
  let to = from
  for (; to - from <= max; to++) {
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

/** Returns the number at `at` as written; JSON.parse checks its form. */
function numberAt(text: string, at: number, max: number): string | undefined {
  if (!isOfNumber(text.charCodeAt(at))) return undefined
  return text.slice(at, endOfNumber(text, at, max))
}
