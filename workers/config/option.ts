/** Defines options and the forms of their values. */
import { closestName } from './closest-name.ts'

export type Option<T> = {
  /** @throws {Error} saying what was expected */
  readonly decode: (text: string) => T
  readonly fallback: T
  /** Text of a computed default in the help. */
  readonly defaultText?: string
  /** Placeholder of the value; undefined for a switch. */
  readonly value: string | undefined
  readonly text: string
  /** The command requires this option. */
  readonly isNeeded?: true
  /**
   * The option belongs to this command alone, and the help lists it there, even if other commands
   * have the name.
   */
  readonly isOwn?: true
}

type Details<T> = {
  readonly fallback: NoInfer<T>
  readonly text: string
  readonly defaultText?: string
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

/** A required option; the empty text stands for a missing one. */
export function needed(value: string, what: string): Option<string> {
  return { decode: text, value, text: what, fallback: '', isNeeded: true }
}

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
  if (wire.trim() === '') throw new Error('expected a non-empty text')
  return wire
}

export function integer(min: number, max: number): (wire: string) => number {
  return (wire) => {
    const number = Number(wire)
    if (/^\d{1,16}$/.test(wire) && number >= min && number <= max) return number
    throw new Error(`expected an integer from ${min} to ${max}`)
  }
}

/** A decimal from 0 to 1. */
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
    const meant = closestName(wire, values)
    const suggested = meant === undefined ? '' : `; nearest: ${meant}`
    throw new Error(`expected ${values.join(', ')}${suggested}`)
  }
}

/** @param schemes schemes without their colon */
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
