/** Fork configuration of a chain on this node (EIP-7910), in reth's form for OP chains. */
import { forkHash, forkTimes } from '../../../engine/chainspec/fork-id.ts'
import { BEACON_ROOTS, BLOCK_HASHES } from '../../../engine/chainspec/genesis.ts'
import type { BlobSchedule, ChainSpec, Rules } from '../../../engine/chainspec/types.ts'
import type { Engine } from '../../../engine/evm/engine.ts'
import { REQUEST_QUEUES } from '../../../engine/execution/block/requests.ts'
import type { Header } from '../../../engine/primitives/header.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { bytesToBigint } from '../../../engine/primitives/words.ts'

type Latest = Pick<Header, 'number' | 'timestamp'>

/**
 * Builds the response of eth_config at this latest block, from numbers and strings alone.
 * @returns undefined before Cancun, where EIP-7910 defines no configuration
 */
export function forkConfigs(chain: ChainSpec, engine: Engine, latest: Latest) {
  const times = forkTimes(chain)
  // A chain with forks by time has passed all its forks by number.
  const rulesOf = (timestamp: bigint) => chain.rulesAt(latest.number, timestamp)
  const configOf = (timestamp: bigint | undefined) =>
    timestamp === undefined
      ? null
      : configAt({ chain, engine, rules: rulesOf(timestamp) }, timestamp)
  const current = times.findLast((time) => time <= latest.timestamp)
  if (current === undefined || !rulesOf(current).header.beaconRoot) return undefined
  const next = times.find((time) => time > latest.timestamp)
  // Without a next fork there is no last one either (EIP-7910).
  const last = next === undefined ? undefined : times.at(-1)
  return { current: configOf(current), next: configOf(next), last: configOf(last) }
}

function configAt(
  {
    chain,
    engine,
    rules,
  }: { readonly chain: ChainSpec; readonly engine: Engine; readonly rules: Rules },
  timestamp: bigint,
) {
  const { target, max, updateFraction } = rules.blobs ?? CANCUN_BLOBS
  const precompiles = engine
    .precompiles(rules.evm)
    .map((address) => [NAMES.get(bytesToBigint(address)) ?? '', bytesToHex(address)] as const)
  return {
    activationTime: Number(timestamp),
    blobSchedule: {
      target: Number(target),
      max: Number(max),
      baseFeeUpdateFraction: Number(updateFraction),
    },
    chainId: `0x${chain.chainId.toString(16)}`,
    forkId: bytesToHex(forkHash(chain, timestamp)),
    precompiles: sorted(precompiles),
    systemContracts: sorted(systemContracts(rules)),
  }
}

/** An OP chain has no blobs, and op-reth returns Cancun's schedule there. */
const CANCUN_BLOBS: BlobSchedule = { target: 3n, max: 6n, updateFraction: 3_338_477n }

function systemContracts(rules: Rules): (readonly [string, string])[] {
  const { systemCalls, header, depositContract } = rules
  return [
    ...(systemCalls.beaconRoot ? [['BEACON_ROOTS_ADDRESS', BEACON_ROOTS] as const] : []),
    ...(systemCalls.blockHashes ? [['HISTORY_STORAGE_ADDRESS', BLOCK_HASHES] as const] : []),
    ...(header.requests
      ? REQUEST_QUEUES.map(({ name, contract }) => [name, bytesToHex(contract)] as const)
      : []),
    ...(depositContract === undefined
      ? []
      : [['DEPOSIT_CONTRACT_ADDRESS', bytesToHex(depositContract)] as const]),
  ]
}

const sorted = (entries: readonly (readonly [string, string])[]) =>
  Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))

/** Names of the EIPs for precompiles, by the address as a number. */
const NAMES: ReadonlyMap<bigint, string> = new Map([
  [1n, 'ECREC'],
  [2n, 'SHA256'],
  [3n, 'RIPEMD160'],
  [4n, 'ID'],
  [5n, 'MODEXP'],
  [6n, 'BN254_ADD'],
  [7n, 'BN254_MUL'],
  [8n, 'BN254_PAIRING'],
  [9n, 'BLAKE2F'],
  [10n, 'KZG_POINT_EVALUATION'],
  [11n, 'BLS12_G1ADD'],
  [12n, 'BLS12_G1MSM'],
  [13n, 'BLS12_G2ADD'],
  [14n, 'BLS12_G2MSM'],
  [15n, 'BLS12_PAIRING_CHECK'],
  [16n, 'BLS12_MAP_FP_TO_G1'],
  [17n, 'BLS12_MAP_FP2_TO_G2'],
  [0x100n, 'P256VERIFY'],
])
