/** Texts about failed fetches for those who requested them. */
import type { FetchFor } from '../../engine/sources/lazy/budget.ts'
import { FetchError, type Fetcher } from '../../engine/sources/lazy/fetcher.ts'
import type { MissingKey } from '../../engine/state/reader.ts'

/** Fetches the keys. @returns the reason for a failure; undefined after a success */
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
  if (fetcher === undefined) return 'this node has all of the state, so it fetches nothing'
  try {
    await fetcher.fetch(keys, { what, client, signal })
    return undefined
  } catch (error) {
    if (error instanceof FetchError) return isOfClient(what) ? error.outside : error.message
    throw error
  }
}

/** Failures of blocks and flashblocks go to the log, where the host is useful. */
const isOfClient = (what: FetchFor): boolean => what === 'call' || what === 'send'
