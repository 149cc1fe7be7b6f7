/** Flags of earlier versions, with the reason for each. A name that comes back leaves this list. */
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

/** @param name as a flag, a variable or a key of the configuration file has it */
export const reasonGone = (name: string): string | undefined =>
  GONE.get(
    name
      .replace(/^(--|FLASHNODE_)/, '')
      .toLowerCase()
      .replaceAll('_', '-'),
  )
