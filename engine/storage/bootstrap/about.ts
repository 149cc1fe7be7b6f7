/** Self-description of a source, as a new replica reads it. */
import { areForkTimes, type ForkTimes } from '../../chainspec/fork-times.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import type { StoredHead } from '../types.ts'
import { CHUNK_VERSION, ChunkError } from './chunk.ts'

export type About = {
  /** Version of the stored format. */
  readonly schema: number
  /** Whether the source has full state. */
  readonly isWhole: boolean
  readonly chainId: number
  readonly genesis: string
  /** Name of a network; undefined if the chain has a genesis.json. */
  readonly chain: string | undefined
  /** Fork times of its blocks, instead of the chain's own. */
  readonly forkTimes?: ForkTimes | undefined
  readonly first: number
  readonly oldestState: number
  readonly keepsDiffs: boolean
  readonly start: StoredHead
  readonly head: number
}

/**
 * Decodes the self-description.
 * @throws {ChunkError}
 */
export function readAbout(head: Readonly<Record<string, unknown>>): About {
  const number = (name: string, of = head): number => {
    const value = of[name]
    if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number
    throw new ChunkError(`its ${name} is no number`)
  }
  if (head['version'] !== CHUNK_VERSION)
    throw new ChunkError(
      `it speaks version ${String(head['version'])}, this flashnode ${CHUNK_VERSION}: run the same flashnode on both sides`,
    )
  const { genesis, chain, start, forkTimes } = head
  if (typeof genesis !== 'string' || !HASH.test(genesis))
    throw new ChunkError('its genesis is no hash')
  if (chain !== undefined && typeof chain !== 'string') throw new ChunkError('its chain is no name')
  const { hash } = (start ?? {}) as Readonly<Record<string, unknown>>
  if (typeof hash !== 'string' || !HASH.test(hash)) throw new ChunkError('its start is no block')
  return {
    schema: number('schema'),
    isWhole: head['isWhole'] === true,
    chainId: number('chainId'),
    genesis,
    chain,
    ...(areForkTimes(forkTimes) ? { forkTimes } : {}),
    first: number('first'),
    oldestState: number('oldestState'),
    keepsDiffs: head['keepsDiffs'] === true,
    start: { number: number('number', start as never), hash: hexToBytes(hash) },
    head: number('head'),
  }
}

const HASH = /^0x[0-9a-f]{64}$/
