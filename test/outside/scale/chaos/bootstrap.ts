import { runToEnd } from '../../../kit/node.ts'

/**
 * Starts a new replica from a copy of a running one's directory.
 * @throws when the command does not end with 0
 */
export const bootstrap = (from: string, datadir: string, tokenFile: string): Promise<void> =>
  runToEnd(['bootstrap', '--from', from, '--datadir', datadir, '--token-file', tokenFile])
