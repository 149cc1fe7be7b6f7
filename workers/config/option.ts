/** What an option is, and the forms that values have. */
import { nearest } from './nearest.ts'

export type Option<T> = {
  /** @throws {Error} saying what was expected. */
  readonly decode: (text: string) => T
  readonly fallback: T
  /** How the default is shown in the help where it is computed. */
  readonly shown?: string
  /** Placeholder of the value; undefined: a switch. */
  readonly value: string | undefined
  readonly text: string
  /** The command does not run without it. */
  readonly isNeeded?: true
  /** Of this command alone: it stands with what the command is for, whatever its name means elsewhere. */
  readonly isOwn?: true
}

type Details<T> = {
  readonly fallback: NoInfer<T>
  readonly text: string
  readonly shown?: string
  readonly isOwn?: true
}

/** @param value placeholder of the value in the help */
export function option<T>(
  value: string,
  decode: (text: string) => T,
  details: Details<T>,
): Option<T> {
  return { ...details, decode, value }
}

/** An option that has to be given; the empty text stands for none. */
export function needed(value: string, what: string): Option<string> {
  return { decode: text, value, text: what, fallback: '', shown: 'needed', isNeeded: true }
}

/** An option that may be left out altogether. */
export function optional<T>(decode: (text: string) => T): (text: string) => T | undefined {
  return decode
}

export function flag(what: string): Option<boolean> {
  const decode = choice('true', 'false', '1', '0')
  return {
    decode: (wire) => ['true', '1'].includes(decode(wire)),
    fallback: false,
    value: undefined,
    text: what,
  }
}

export function text(wire: string): string {
  if (wire.trim() === '') throw new Error('expected a text that is not empty')
  return wire
}

export function integer(min: number, max: number): (wire: string) => number {
  return (wire) => {
    const number = Number(wire)
    if (/^\d{1,16}$/.test(wire) && number >= min && number <= max) return number
    throw new Error(`expected an integer from ${min} to ${max}`)
  }
}

/** 0 to 1, as a decimal. */
export function share(wire: string): number {
  const number = Number(wire)
  if (/^\d(\.\d{1,9})?$/.test(wire) && number <= 1) return number
  throw new Error('expected a number from 0 to 1')
}

export function orWord<W extends string, T>(
  word: W,
  decode: (wire: string) => T,
): (wire: string) => T | W {
  return (wire) => {
    if (wire === word) return word
    try {
      return decode(wire)
    } catch (error) {
      throw new Error(`${(error as Error).message}, or "${word}"`)
    }
  }
}

export function choice<const T extends string>(...values: readonly T[]): (wire: string) => T {
  return (wire) => {
    const found = values.find((value) => value === wire)
    if (found !== undefined) return found
    const meant = nearest(wire, values)
    const suggested = meant === undefined ? '' : `; nearest: ${meant}`
    throw new Error(`expected ${values.join(', ')}${suggested}`)
  }
}

/** @param schemes without their colon */
export function url(...schemes: readonly [string, ...string[]]): (wire: string) => string {
  return (wire) => {
    const scheme = URL.canParse(wire) ? new URL(wire).protocol.slice(0, -1) : ''
    if (schemes.includes(scheme)) return wire
    throw new Error(`expected a URL such as ${schemes.at(-1)}://host/path`)
  }
}

export function list<T>(item: (wire: string) => T): (wire: string) => readonly T[] {
  return (wire) => wire.split(',').map((part) => item(part.trim()))
}
