/** Compares fork times of an upstream (eth_config, EIP-7910) with those of the named chain. */
import { forkTimes } from '../../../engine/chainspec/fork-id.ts'
import { ETHEREUM_FORKS, isOptimismChain, OPTIMISM_FORKS } from '../../../engine/chainspec/forks.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { error, type Line, ok, warning } from './line.ts'

/** A fork that starts at different times, or that only one side has; times are in seconds. */
type Difference = {
  /** Empty if no fork starts here at that time. */
  readonly names: readonly string[]
  readonly local: bigint | undefined
  readonly there: bigint | undefined
}
type Config = { readonly activationTime?: unknown }

/**
 * @param response the result of eth_config
 * @param headSeconds time of the upstream's newest block
 * @returns no line if the response has no configuration, as before Cancun
 */
export function forkLines(
  name: string,
  response: unknown,
  { chain, headSeconds }: { readonly chain: ChainSpec; readonly headSeconds: number },
): readonly Line[] {
  const about = `${name} forks`
  const { current, next, last } = (response ?? {}) as Readonly<Record<string, Config | null>>
  const theirs = [current, next, last].map((config) => timeOf(config, chain))
  const [started, coming, final] = theirs
  if (started === undefined) return []
  const ours = [...new Set(forkTimes(chain).map((time) => normal(time, chain)))]
  const given = theirs.filter((time) => time !== undefined)
  const isSeen = (time: bigint) =>
    time > started && !(coming !== undefined && time > coming && time < (final ?? coming))
  const local = ours.filter((time) => isSeen(time) && !given.includes(time))
  const there = [...new Set(given)].filter((time) => !ours.includes(time))
  const found: Difference[] = []
  for (let at = 0; at < Math.max(local.length, there.length); at++)
    found.push({ names: namesAt(chain, local[at]), local: local[at], there: there[at] })
  if (found.length === 0) return [ok(about, textOf(chain, given))]
  return found.map((difference) => lineOf(about, difference, { chain, headSeconds }))
}

function lineOf(
  about: string,
  { names, local, there }: Difference,
  { chain, headSeconds }: { readonly chain: ChainSpec; readonly headSeconds: number },
): Line {
  const fork = names.join(', ')
  const flag = (time: bigint | 'off') =>
    `--fork-time ${names.map((name) => `${name}=${time}`).join()}`
  const isOver = [local, there].some((time) => time !== undefined && time <= BigInt(headSeconds))
  const make = isOver ? error : warning
  if (there === undefined)
    return make(
      about,
      `${fork} starts at ${local} here, and never on the upstream`,
      `check whether the upstream runs a version from before the fork; if the chain has no such fork, start the node with ${flag('off')}`,
    )
  if (local !== undefined)
    return make(
      about,
      `${fork} starts at ${there} on the upstream, and at ${local} here`,
      `check which time is right; if it is that of the upstream, start the node with ${flag(there)}`,
    )
  // The times alone leave open if this is our newest fork at another time, or the fork after it.
  const newest = forkTimes(chain).findLast((time) => time <= BigInt(headSeconds))
  const known = [...namesAt(chain, newest).slice(-1), ...firstUnset(chain)]
  const flags = known.map(
    (one) => `if it is ${one}, start the node with --fork-time ${one}=${there}`,
  )
  return make(
    about,
    `a fork starts at ${there} on the upstream, and none here`,
    [...flags, 'if this version has no such fork, update the node'].join('; '),
  )
}

/** Forks of the genesis have its time, time 0 or a time before it; all of them mean the same. */
const normal = (time: bigint, { genesisHeader }: ChainSpec): bigint =>
  time <= genesisHeader.timestamp ? 0n : time

function timeOf(config: Config | null | undefined, chain: ChainSpec): bigint | undefined {
  const time = config?.activationTime
  return Number.isSafeInteger(time) ? normal(BigInt(time as number), chain) : undefined
}

/** On an OP chain, Ethereum's forks have the names of the OP forks that bring them. */
const layerOf = ({ schedule }: Pick<ChainSpec, 'schedule'>) =>
  isOptimismChain(schedule) ? OPTIMISM_FORKS : ETHEREUM_FORKS

const namesAt = (chain: ChainSpec, time: bigint | undefined): readonly string[] =>
  layerOf(chain)
    .filter(({ name, by }) => by === 'time' && time !== undefined && chain.schedule[name] === time)
    .map(({ name }) => name)

/** The oldest fork without a time on this chain, if there is one. */
const firstUnset = ({ schedule }: ChainSpec): readonly string[] =>
  layerOf({ schedule })
    .filter(({ name, isOptional }) => isOptional !== true && schedule[name] === undefined)
    .slice(0, 1)
    .map(({ name }) => name)

function textOf(chain: ChainSpec, times: readonly bigint[]): string {
  const texts = [...new Set(times)].map((time) =>
    time === 0n ? 'those of the genesis' : `${namesAt(chain, time).join(', ')} at ${time}`,
  )
  return `the same times: ${texts.join('; ')}`
}
