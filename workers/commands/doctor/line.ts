/** The result of one check. */
export type Line = {
  readonly about: string
  readonly status: 'ok' | 'warning' | 'error'
  readonly says: string
  /** Present unless the status is `ok`. */
  readonly advice?: string
}

export const ok = (about: string, says: string): Line => ({ about, status: 'ok', says })
export const warning = (about: string, says: string, advice: string): Line => ({
  about,
  status: 'warning',
  says,
  advice,
})
export const error = (about: string, says: string, advice: string): Line => ({
  about,
  status: 'error',
  says,
  advice,
})

/** Compares a value with two bounds: a warning below `wanted`, an error below `needed`. */
export function checkMinimum(
  about: string,
  {
    value,
    wanted,
    needed,
  }: { readonly value: number; readonly wanted: number; readonly needed: number },
  { says, advice }: { readonly says: string; readonly advice: string },
): Line {
  if (value >= wanted) return ok(about, says)
  return value >= needed ? warning(about, says, advice) : error(about, says, advice)
}
