/**
 * Scans the text of a request before JSON.parse. One pass checks the depth, number and length of
 * its tokens. Memory grows only with the depth and the number of batch items.
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
   * Maximum of opening brackets and commas together, which approximates the number of values.
   * JSON.parse takes as long for a short value as for a long one, and several times that for a
   * list.
   */
  readonly values: number
  /** Maximum items of a batch. */
  readonly items: number
  /**
   * Maximum characters of each kind of token. Characters are UTF-16 units as written, without the
   * quotes. A key must also fit the limits of a string.
   */
  readonly keyCharacters: number
  readonly numberCharacters: number
  /** Limit of a string that starts with 0x. */
  readonly hexCharacters: number
  /** Limit of any other string. */
  readonly textCharacters: number
  readonly idCharacters: number
  readonly methodCharacters: number
}
/** Result of a scan. If there is a fault, the other fields cover only the text before it. */
export type Scan = {
  readonly isBatch: boolean
  /** Number of items of a batch, otherwise 1. An empty batch also counts as 1. */
  readonly items: number
  /** Number of values, counted as for `ScanLimits.values`. */
  readonly values: number
  /** Reason to refuse the body without parsing. '': it is not JSON. undefined: no reason. */
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
/** Fault of a text that is not JSON. */
const NO_JSON = ''
/** Maximum length of `true`, `false` and `null`. */
const LITERAL_CHARACTERS = 5

/**
 * Scans the text without recursion, because JSON.parse takes a second for a megabyte of "[". The
 * scan stops at the first fault. It accepts some texts that JSON.parse refuses, such as a trailing
 * comma. The result has numeric ids as written, because parsing rounds numbers above 2^53. The
 * texts of params serve as cache keys, and go to workers.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a loop over every character, whose state is its locals
export function scan(text: string, limits: ScanLimits): Scan {
  const ids: (string | undefined)[] = []
  const params: (string | undefined)[] = []
  // These lists have an entry for each depth, from 1 on.
  const brackets: number[] = []
  const keys: number[] = []
  const hexKeys: number[] = []
  let depth = 0
  /** Depth of a request's fields: 2 in a batch, otherwise 1. */
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
  /**
   * The last key, if it is one whose string value has a limit of its own. The next string, opening
   * bracket or comma resets it.
   */
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
     * The labels are numbers, because V8 builds no jump table for named constants. Named labels
     * are five times as slow (2026-11).
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
        bound = undefined
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
     * The scan does not decode escaped keys, and one may repeat "id" or "params". The caller then
     * uses the parsed values.
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
 * Tells whether a character is whitespace or a control character. JSON.parse refuses the latter.
 * One comparison is twice as fast as four.
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

/** Tells whether a character is a digit, a sign or a point. */
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

/**
 * Returns the end of a word in lower case. For a word that is too long, the result lies beyond the
 * limit.
 */
function endOfLiteral(text: string, from: number): number {
  let to = from
  for (; to - from <= LITERAL_CHARACTERS; to++) {
    const code = text.charCodeAt(to)
    if (!(code >= 97 && code <= 122)) return to
  }
  return to
}

/** Returns the number at `at` as written, or undefined. JSON.parse checks its form. */
function numberAt(text: string, at: number, max: number): string | undefined {
  if (!isOfNumber(text.charCodeAt(at))) return undefined
  return text.slice(at, endOfNumber(text, at, max))
}
