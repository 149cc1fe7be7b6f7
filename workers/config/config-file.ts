/** Reads the configuration file: a JSON object whose keys are flags without dashes. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { core } from 'zod'
import { hint } from './closest-name.ts'

/** Zod is loaded on demand, because most starts have no file, and loading takes 60 ms (2026-11). */
function openSchema() {
  const { z }: typeof import('zod') = createRequire(import.meta.url)('zod')
  const scalar = z.union([z.string(), z.number(), z.boolean()])
  return z.record(z.string(), z.union([scalar, z.array(scalar)]))
}

export type FileSettings = {
  /** Values as text, as flags have them. */
  readonly values: ReadonlyMap<string, string>
  readonly problems: readonly string[]
}

/** Reads the file and returns its problems; never throws. */
export function readConfigFile(path: string, keys: Iterable<string>): FileSettings {
  const nothing: ReadonlyMap<string, string> = new Map()
  let json: unknown
  try {
    json = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    const why = (error as Error).message.replaceAll('\n', ' ')
    return { values: nothing, problems: [`configuration file ${path}: ${why}`] }
  }
  const parsed = openSchema().safeParse(json)
  if (!parsed.success)
    return { values: nothing, problems: parsed.error.issues.map((issue) => explain(issue, path)) }
  const known = new Set(keys)
  const values = new Map<string, string>()
  const problems: string[] = []
  for (const [key, value] of Object.entries(parsed.data))
    if (known.has(key)) values.set(key, Array.isArray(value) ? value.join(',') : String(value))
    else
      problems.push(
        `unknown key "${key}" in ${path}${hint(key, known, 'each flag of --help is one')}`,
      )
  return { values, problems }
}

function explain(issue: core.$ZodIssue, path: string): string {
  const where = issue.path.length === 0 ? '' : `, key "${issue.path.join('.')}"`
  const expected =
    issue.path.length === 0 ? 'an object' : 'a text, a number, true or false, or a list of them'
  return `${path}${where}: expected ${expected}`
}
