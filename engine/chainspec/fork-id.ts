/**
 * The fork id of a chain: the checksum of its active forks (EIP-6122), and the times of all forks
 * (EIP-7910).
 */
import { crc32 } from 'node:zlib'
import type { Bytes } from '../primitives/bytes.ts'
import { bigintToBytes } from '../primitives/words.ts'
import { FORKS, type ForkRow } from './forks.ts'
import type { ChainSpec } from './types.ts'

type Scheduled = Pick<ChainSpec, 'schedule' | 'genesisHeader' | 'genesisHash' | 'forkIdGenesis'>

/**
 * Returns 4 bytes: CRC-32 of the genesis hash and of each active fork's block or time, each number
 * once.
 */
export function forkHash(chain: Scheduled, timestamp: bigint): Bytes {
  const { timestamp: start } = chain.genesisHeader
  /*
   * A mined genesis that reaches the merge has the merge at block 1, which is not part of a
   * configuration.
   */
  const blocks = numbersOf(chain, 'block').filter((number) => number > 1n)
  const times = numbersOf(chain, 'time').filter((time) => time > start && time <= timestamp)
  let sum = crc32(chain.forkIdGenesis ?? chain.genesisHash)
  for (const number of [...blocks, ...times]) sum = crc32(bigintToBytes(number, 8), sum)
  return bigintToBytes(BigInt(sum), 4)
}

/**
 * Returns the start times of forks in seconds. Forks of the genesis have 0 or their configured
 * time.
 */
export const forkTimes = (chain: Pick<ChainSpec, 'schedule'>): readonly bigint[] =>
  numbersOf(chain, 'time')

function numbersOf({ schedule }: Pick<ChainSpec, 'schedule'>, by: ForkRow['by']): bigint[] {
  const numbers = FORKS.flatMap((fork) => (fork.by === by ? (schedule[fork.name] ?? []) : []))
  return [...new Set(numbers)].toSorted((a, b) => (a < b ? -1 : 1))
}
