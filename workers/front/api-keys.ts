/** API keys of callers: read at the start, and again on SIGHUP. */
import { ApiKeys } from '../../rpc/core/api-keys.ts'
import { readApiKeys } from '../config/api-keys-file.ts'
import type { Report } from '../observe/reporter.ts'
import { StartError } from '../process/context.ts'

export type OpenedKeys = {
  readonly keys: ApiKeys
  /** Reads the file again; a file with a problem changes nothing. */
  reload(): ReloadedKeys | undefined
}

export type ReloadedKeys = {
  /** Number of keys after the reload. */
  readonly count: number
  /** Names of the callers whose key is no longer valid. */
  readonly gone: ReadonlySet<string>
}

/**
 * Reads the API keys.
 * @throws {StartError} the problem of the file
 */
export function openApiKeys(path: string, report: Report): OpenedKeys {
  const { entries, problems } = readApiKeys(path)
  if (problems[0] !== undefined) throw new StartError(problems[0])
  const keys = new ApiKeys(entries)
  return {
    keys,
    reload() {
      const read = readApiKeys(path)
      if (read.problems[0] !== undefined) {
        report('keys_not_read', { reason: read.problems[0] })
        return undefined
      }
      return { count: read.entries.length, gone: keys.replace(read.entries) }
    },
  }
}
