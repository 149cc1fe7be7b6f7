/** Finds the fields in which two responses differ, and classifies each difference. */

/**
 * `missing`: only one side has a field, an element or a response. `order`: the same elements in
 * another order.
 * `wrong`: two values of one field. `known`: a difference on the list of accepted ones.
 */
export type DifferenceKind = 'missing' | 'order' | 'wrong' | 'known'
export type Difference = {
  /** A path such as `transactions[3].gas`; `error` if one side returns an error. */
  readonly path: string
  readonly kind: DifferenceKind
  /** undefined if the value is missing. */
  readonly a: unknown
  readonly b: unknown
  /** Present for `known` only. */
  readonly why?: string
}

export type CallOutcome =
  | { readonly result: unknown }
  | {
      readonly error: { readonly code: number; readonly message: string; readonly data?: unknown }
    }

/** Maximum for one response; further differences are ignored. */
export const MAX_DIFFERENCES = 100

export function differencesOf(a: CallOutcome, b: CallOutcome): readonly Difference[] {
  const found: Difference[] = []
  if ('result' in a && 'result' in b) compareValues(a.result, b.result, '', found)
  else if ('error' in a && 'error' in b) compareValues(a.error, b.error, 'error', found)
  else found.push({ path: 'error', kind: 'missing', a: errorOf(a), b: errorOf(b) })
  return found
}

const errorOf = (response: CallOutcome): unknown =>
  'error' in response ? response.error : undefined

function compareValues(a: unknown, b: unknown, path: string, found: Difference[]): void {
  if (found.length >= MAX_DIFFERENCES) return
  if (Array.isArray(a) && Array.isArray(b)) compareLists(a, b, path, found)
  else if (isRecord(a) && isRecord(b)) compareRecords(a, b, path, found)
  else if (a !== b)
    found.push({ path, kind: isNothing(a) || isNothing(b) ? 'missing' : 'wrong', a, b })
}

function compareRecords(a: Fields, b: Fields, path: string, found: Difference[]): void {
  for (const name of new Set([...Object.keys(a), ...Object.keys(b)]))
    compareValues(a[name], b[name], path === '' ? name : `${path}.${name}`, found)
}

function compareLists(
  a: readonly unknown[],
  b: readonly unknown[],
  path: string,
  found: Difference[],
): void {
  const [ours, theirs] = [a, b].map((items) => items.map((item) => JSON.stringify(item)))
  if (ours!.every((text, at) => text === theirs![at]) && a.length === b.length) return
  const sorted = (texts: readonly string[]) =>
    texts.toSorted((x, y) => (x < y ? -1 : x > y ? 1 : 0)).join()
  if (a.length === b.length && sorted(ours!) === sorted(theirs!)) {
    found.push({ path, kind: 'order', a, b })
    return
  }
  for (let at = 0; at < Math.max(a.length, b.length); at++)
    compareValues(a[at], b[at], `${path}[${at}]`, found)
}

type Fields = Readonly<Record<string, unknown>>
const isRecord = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isNothing = (value: unknown): boolean => value === undefined || value === null
