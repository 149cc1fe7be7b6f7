/**
 * Ensures that a directory's blocks retain the rules under which they were executed, whatever
 * `--fork-time` says later.
 */
import { isDeepStrictEqual } from 'node:util'
import { differingForks } from '../../engine/chainspec/fork-times.ts'
import { type ChainOption, chainSpec } from '../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { decodeHeader } from '../../engine/primitives/header.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { META } from '../../engine/storage/database/meta.ts'
import type { Database } from '../../engine/storage/database/types.ts'
import { readMarker, writeMarker } from '../../engine/storage/directory/marker.ts'
import { StartError } from '../process/context.ts'

/**
 * Writes the option's fork times into the marker.
 * @throws {StartError} if rules of stored blocks would change
 */
export function settleForkTimes(
  database: Database,
  {
    path,
    option,
    chain,
  }: { readonly path: string; readonly option: ChainOption; readonly chain: ChainSpec },
): void {
  const marker = readMarker(path)
  if (marker === undefined || isDeepStrictEqual(marker.forkTimes, option.forkTimes)) return
  const stored = chainSpec({ ...option, forkTimes: marker.forkTimes }).schedule
  const newest = newestTime(database)
  const changed = differingForks(stored, chain.schedule).find(
    ({ from }) => newest !== undefined && from <= newest,
  )
  if (changed !== undefined) {
    const before = stored[changed.name] ?? 'off'
    throw new StartError(
      `${path} has blocks up to time ${newest}, which were executed with ${changed.name}=${before}, not ${changed.name}=${chain.schedule[changed.name] ?? 'off'}: give --fork-time ${changed.name}=${before}, or give --datadir another directory`,
    )
  }
  writeMarker(path, { ...marker, forkTimes: option.forkTimes })
}

/** Returns the newest block's time in seconds; undefined if there is no block. */
function newestTime(database: Database): bigint | undefined {
  if (database.get('meta', META.durableHead) === undefined) return undefined
  const store = openStore(database)
  const header = store.header(store.durableHead().hash)
  return header && decodeHeader(header).timestamp
}
