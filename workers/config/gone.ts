/** Flags of earlier versions, with the reason why each is gone. A name that comes back leaves this list. */
const GONE: ReadonlyMap<string, string> = new Map([
  ['limit-near-turn-ms', 'every call runs in a worker'],
])

/** @param name as a flag, a variable or a key of the configuration file has it */
export const reasonGone = (name: string): string | undefined =>
  GONE.get(
    name
      .replace(/^(--|FLASHNODE_)/, '')
      .toLowerCase()
      .replaceAll('_', '-'),
  )
