/**
 * The blocks of an eth_simulateV1 request in order, with numbers, times and empty blocks filled in
 * (go-ethereum: sanitizeChain).
 */
import type { Withdrawal } from '../../primitives/block-codec.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import type { CallRequest } from './call.ts'
import type { RefusedCall } from './message.ts'
import type { AccountOverride, BlockOverrides } from './overrides.ts'

export type SimulatedCall = CallRequest & { readonly nonce?: bigint }
export type BlockToSimulate = {
  readonly blockOverrides?: BlockOverrides & {
    readonly beaconRoot?: Bytes
    readonly withdrawals?: readonly Withdrawal[]
  }
  readonly stateOverrides?: readonly AccountOverride[]
  readonly calls: readonly SimulatedCall[]
}
export type NumberedBlock = BlockToSimulate & {
  readonly number: bigint
  readonly timestamp: bigint
}

/** Reasons against a request or one of its calls; eth_simulateV1 has an error code for each. */
export type SimulationReason =
  | RefusedCall['why']
  | 'input'
  | 'block numbers'
  | 'block times'
  | 'block gas'
  | 'too many'

/** A request that cannot be simulated. */
export class SimulationError extends Error {
  override name = 'SimulationError'
  readonly why: SimulationReason
  constructor(why: SimulationReason, message: string) {
    super(message)
    this.why = why
  }
}

/** Maximum number of blocks above the base. */
export const MAX_SIMULATED_BLOCKS = 256

/**
 * Fills in numbers, times and gaps.
 * @throws {SimulationError}
 */
export function numberBlocks(
  base: Header,
  blocks: readonly BlockToSimulate[],
  blockTime: bigint,
): readonly NumberedBlock[] {
  const numbered: NumberedBlock[] = []
  let { number: last, timestamp: lastTime } = base
  for (const block of blocks) {
    const { number = last + 1n, time } = block.blockOverrides ?? {}
    if (number <= last)
      throw new SimulationError(
        'block numbers',
        `block numbers must be in order: ${number} <= ${last}`,
      )
    if (number - base.number > BigInt(MAX_SIMULATED_BLOCKS))
      throw new SimulationError('too many', 'too many blocks')
    for (let gap = last + 1n; gap < number; gap++) {
      lastTime += blockTime
      numbered.push({ number: gap, timestamp: lastTime, calls: [] })
    }
    const timestamp = time ?? lastTime + blockTime
    if (timestamp <= lastTime)
      throw new SimulationError(
        'block times',
        `block timestamps must be in order: ${timestamp} <= ${lastTime}`,
      )
    numbered.push({ ...block, number, timestamp })
    last = number
    lastTime = timestamp
  }
  return numbered
}
