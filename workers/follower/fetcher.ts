/** What is said of a fetch, to whoever asked for it. */
import type { FetchFor } from '../../engine/sources/lazy/budget.ts'
import { FetchError, type Fetcher } from '../../engine/sources/lazy/fetcher.ts'
import type { MissingKey } from '../../engine/state/reader.ts'

/** What became of it: the line that says why not; undefined: it is there. */
export async function failureOf(
  fetcher: Fetcher | undefined,
  keys: readonly MissingKey[],
  {
    what,
    client,
    signal,
  }: {
    readonly what: FetchFor
    readonly client: string
    readonly signal?: AbortSignal | undefined
  },
): Promise<string | undefined> {
  if (fetcher === undefined) return 'this node has all of the state: nothing is fetched'
  try {
    await fetcher.fetch(keys, { what, client, signal })
    return undefined
  } catch (error) {
    if (error instanceof FetchError) return isOfClient(what) ? error.outside : error.message
    throw error
  }
}

/** Blocks and flashblocks fail into the log, where the host is wanted. */
const isOfClient = (what: FetchFor): boolean => what === 'call' || what === 'send'
