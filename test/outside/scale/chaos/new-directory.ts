import { temporary } from '../../follow/nodes.ts'

/** The directory of a new replica: empty, so that it follows the chain from its first block on. */
export const newDirectory = (): string => temporary('chaos-new')
