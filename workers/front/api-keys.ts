/** The keys of callers while the node runs: read at the start, and again when the process is told to (SIGHUP). */
import { ApiKeys } from '../../rpc/seam/api-keys.ts'
import { readApiKeys } from '../config/api-keys-file.ts'
import type { Report } from '../observe/reporter.ts'
import { StartError } from '../process/context.ts'

export type OpenedKeys = {
  readonly keys: ApiKeys
  /** Reads the file again; one with a problem changes nothing. */
  reload(): ReloadedKeys | undefined
}

export type ReloadedKeys = {
  /** Keys that there are now. */
  readonly count: number
  /** Whose key is not theirs any more. */
  readonly gone: ReadonlySet<string>
}

/** @throws {StartError} what is wrong with the file */
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
