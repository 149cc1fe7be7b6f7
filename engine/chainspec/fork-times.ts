/** Fork times that a user sets instead of a chain's own, and the required order of all times. */
import { ChainError } from './error.ts'
import {
  ETHEREUM_FORKS,
  FORKS,
  type ForkName,
  type ForkRow,
  isOptimismChain,
  OPTIMISM_FORKS,
  type Schedule,
} from './forks.ts'
import type { ChainSpec } from './types.ts'

/** Fork → seconds, or 'off' for never. Plain data, as in flags and in a directory's marker. */
export type ForkTimes = Readonly<Record<string, number | 'off'>>

export const areForkTimes = (value: unknown): value is ForkTimes =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).every((time) => time === 'off' || Number.isSafeInteger(time))

const ROWS: readonly ForkRow[] = FORKS
export const TIMED_FORKS: readonly string[] = ROWS.filter(({ by }) => by === 'time').map(
  ({ name }) => name,
)

/**
 * Returns the schedule with changed fork times.
 * @param fixed forks that cannot be moved
 * @throws {ChainError} when a fork cannot be moved or the order is wrong
 */
export function withForkTimes(
  schedule: Schedule,
  times: ForkTimes | undefined,
  fixed: Schedule = {},
): Schedule {
  if (times === undefined) return schedule
  const moved: { [Name in ForkName]?: bigint } = { ...schedule }
  for (const [name, time] of Object.entries(times)) {
    checkMovable(name, schedule, fixed)
    if (time === 'off') delete moved[name as ForkName]
    else moved[name as ForkName] = BigInt(time)
    const { brings } = ROWS.find((row) => row.name === name)!
    if (brings !== undefined) delete moved[brings as ForkName]
  }
  fillBrought(moved)
  checkOrder(moved, { where: '--fork-time', nameOf: ({ name }) => name })
  return moved
}

/** Adds the Ethereum forks that OP forks bring, unless the schedule has them. */
export function fillBrought(schedule: { [Name in ForkName]?: bigint }): void {
  for (const { name, brings } of OPTIMISM_FORKS) {
    const at = schedule[name as ForkName]
    if (brings !== undefined && at !== undefined) schedule[brings as ForkName] ??= at
  }
}

/**
 * Checks that each fork has all earlier forks of its layer at the same time or before.
 * @throws {ChainError} starting with `where`, with names from `nameOf`
 */
export function checkOrder(
  schedule: Schedule,
  { where, nameOf }: { readonly where: string; readonly nameOf: (row: ForkRow) => string },
): void {
  for (const layer of [ETHEREUM_FORKS, OPTIMISM_FORKS]) {
    let before: ForkRow | undefined
    let missing: ForkRow | undefined
    for (const fork of layer) {
      const at = schedule[fork.name as ForkName]
      if (at === undefined) {
        if (fork.isOptional !== true) missing ??= fork
        continue
      }
      if (missing !== undefined)
        throw new ChainError(`${where}: ${nameOf(fork)} is set, ${nameOf(missing)} is not`)
      const earlier = before && schedule[before.name as ForkName]
      if (before?.by === fork.by && earlier !== undefined && earlier > at)
        throw new ChainError(
          `${where}: ${nameOf(fork)} ${at} is before ${nameOf(before)} ${earlier}`,
        )
      before = fork
    }
  }
}

/**
 * Returns the forks with different times in two schedules, and the earliest time of a difference.
 */
export function differingForks(
  a: ChainSpec['schedule'],
  b: ChainSpec['schedule'],
): readonly { readonly name: string; readonly from: bigint }[] {
  return TIMED_FORKS.flatMap((name) => {
    const [one, other] = [a[name], b[name]]
    if (one === other) return []
    return [{ name, from: one === undefined || (other ?? one) < one ? other! : one }]
  })
}

function checkMovable(name: string, schedule: Schedule, fixed: Schedule): void {
  const row = ROWS.find((one) => one.name === name && one.by === 'time')
  if (row === undefined)
    throw new ChainError(`--fork-time: no fork of this version is called ${name}`)
  if (fixed[name as ForkName] !== undefined)
    throw new ChainError(
      `--fork-time: a development chain has ${name} from its genesis on; it moves ${TIMED_FORKS.filter((one) => isLater(one, fixed)).join(', ')}`,
    )
  const isOptimism = isOptimismChain(schedule)
  if (isOptimism === OPTIMISM_FORKS.includes(row)) return
  throw new ChainError(
    isOptimism
      ? `--fork-time: ${name} has no effect of its own on an OP chain, whose forks bring it`
      : `--fork-time: ${name} is a fork of OP chains, and this chain is none`,
  )
}

/** Returns whether this is an OP fork that `fixed` lacks. */
const isLater = (name: string, fixed: Schedule): boolean =>
  fixed[name as ForkName] === undefined && OPTIMISM_FORKS.some((row) => row.name === name)
