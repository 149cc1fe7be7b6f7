/** A directory's blocks keep the rules that they were executed by, whatever `--fork-time` says later. */
import { isDeepStrictEqual } from 'node:util'
import { differingForks } from '../../engine/chainspec/fork-times.ts'
import { type ChainOption, chainSpec } from '../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { decodeHeader } from '../../engine/primitives/header-codec.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { META } from '../../engine/storage/database/meta.ts'
import type { Database } from '../../engine/storage/database/types.ts'
import { readMarker, writeMarker } from '../../engine/storage/directory/marker.ts'
import { StartError } from '../process/context.ts'

/**
 * Writes the option's times into the marker.
 * @throws {StartError} where blocks that are here would have other rules
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
  const held = chainSpec({ ...option, forkTimes: marker.forkTimes }).schedule
  const newest = newestTime(database)
  const changed = differingForks(held, chain.schedule).find(
    ({ from }) => newest !== undefined && from <= newest,
  )
  if (changed !== undefined) {
    const before = held[changed.name] ?? 'off'
    throw new StartError(
      `${path} has blocks up to time ${newest}, whose rules have ${changed.name} ${before}, not ${chain.schedule[changed.name] ?? 'off'}: say --fork-time ${changed.name}=${before}, or give --datadir another directory`,
    )
  }
  writeMarker(path, { ...marker, forkTimes: option.forkTimes })
}

/** Seconds; undefined: no block is here. */
function newestTime(database: Database): bigint | undefined {
  if (database.get('meta', META.durableHead) === undefined) return undefined
  const store = openStore(database)
  const header = store.header(store.durableHead().hash)
  return header && decodeHeader(header).timestamp
}
