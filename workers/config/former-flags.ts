/** Flags of earlier versions: removed ones with the reason, and renamed ones. */
const EXECUTES = 'a follower executes every flashblock itself'
const GONE: ReadonlyMap<string, string> = new Map([
  ['limit-near-turn-ms', 'every call runs in a worker'],
  ['apply', EXECUTES],
  ['apply-token-file', EXECUTES],
  ['apply-ms', EXECUTES],
  ['verify-share', EXECUTES],
  ['apply-message-bytes', EXECUTES],
  ['apply-held-diffs', EXECUTES],
  ['apply-held-bytes', EXECUTES],
])
const RENAMED: ReadonlyMap<string, string> = new Map([['behind', '--flashblock-lag']])

/**
 * Says why a former flag is gone, or its new name; undefined if no earlier version had this name.
 * @param name name of a flag, a variable, or a key of the configuration file
 */
export function formerFlag(name: string): string | undefined {
  const flag = name
    .replace(/^(--|FLASHNODE_)/, '')
    .toLowerCase()
    .replaceAll('_', '-')
  const [reason, current] = [GONE.get(flag), RENAMED.get(flag)]
  if (reason !== undefined) return `it was removed: ${reason}`
  return current && `its new name is ${current}`
}
