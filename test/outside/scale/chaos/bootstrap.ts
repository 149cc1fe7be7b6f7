/** How a new replica comes to its directory. */

/** It begins with an empty one, and follows the chain from its first block on. */
export async function bootstrap(_from: string, _datadir: string): Promise<void> {}
