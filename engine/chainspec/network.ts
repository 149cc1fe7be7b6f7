/**
 * Types of networks that are known by name, and constants that the first blocks of OP chains share.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import type { Schedule } from './forks.ts'
import type { GenesisFields, GenesisRoots } from './genesis.ts'
import type { ChainParameters } from './rules.ts'

export type Network = {
  readonly name: string
  readonly parameters: ChainParameters
  readonly genesis: GenesisFields & GenesisRoots
  /** Seconds. */
  readonly blockTime: number
  /** Genesis hash from which fork ids start, if it is an older genesis. */
  readonly forkIdGenesis?: Bytes
}

export const SEQUENCER_VAULT = hexToBytes('0x4200000000000000000000000000000000000011')
export const ETHEREUM_AT_0 = {
  homestead: 0n,
  tangerineWhistle: 0n,
  spuriousDragon: 0n,
  byzantium: 0n,
  constantinople: 0n,
  petersburg: 0n,
  istanbul: 0n,
  muirGlacier: 0n,
  berlin: 0n,
  london: 0n,
  arrowGlacier: 0n,
  grayGlacier: 0n,
  paris: 0n,
} satisfies Schedule

/** Storage root of the L2ToL1MessagePasser at most first blocks: the two slots of its proxy. */
export const PROXIED_PASSER_ROOT = hexToBytes(
  '0x8ed4baae3a927be3dea54996b4d5899f8c01e7594bf50b17dc1e741388ce3d12',
)
