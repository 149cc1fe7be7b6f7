/**
 * The times of forks that an upstream says it has (eth_config, EIP-7910), beside those of the chain
 * that is named.
 */
import { forkTimes } from '../../../engine/chainspec/fork-id.ts'
import { ETHEREUM_FORKS, isOptimismChain, OPTIMISM_FORKS } from '../../../engine/chainspec/forks.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { error, type Line, ok, warning } from './line.ts'

/** A fork that starts at other times, or on one side alone. Seconds. */
type Difference = {
  /** Empty: no fork starts here at that time. */
  readonly names: readonly string[]
  readonly here: bigint | undefined
  readonly there: bigint | undefined
}
type Config = { readonly activationTime?: unknown }

/**
 * @param answer the result of eth_config
 * @param headSeconds time of the upstream's newest block
 * @returns no line where the answer has no configuration, as before Cancun
 */
export function forkLines(
  name: string,
  answer: unknown,
  { chain, headSeconds }: { readonly chain: ChainSpec; readonly headSeconds: number },
): readonly Line[] {
  const about = `${name} forks`
  const { current, next, last } = (answer ?? {}) as Readonly<Record<string, Config | null>>
  const theirs = [current, next, last].map((config) => timeOf(config, chain))
  const [started, coming, final] = theirs
  if (started === undefined) return []
  const ours = [...new Set(forkTimes(chain).map((time) => normal(time, chain)))]
  const given = theirs.filter((time) => time !== undefined)
  const isSeen = (time: bigint) =>
    time > started && !(coming !== undefined && time > coming && time < (final ?? coming))
  const here = ours.filter((time) => isSeen(time) && !given.includes(time))
  const there = [...new Set(given)].filter((time) => !ours.includes(time))
  const found: Difference[] = []
  for (let at = 0; at < Math.max(here.length, there.length); at++)
    found.push({ names: namesAt(chain, here[at]), here: here[at], there: there[at] })
  if (found.length === 0) return [ok(about, textOf(chain, given))]
  return found.map((difference) => lineOf(about, difference, { chain, headSeconds }))
}

function lineOf(
  about: string,
  { names, here, there }: Difference,
  { chain, headSeconds }: { readonly chain: ChainSpec; readonly headSeconds: number },
): Line {
  const fork = names.join(', ')
  const flag = (time: bigint | 'off') =>
    `--fork-time ${names.map((name) => `${name}=${time}`).join()}`
  const isOver = [here, there].some((time) => time !== undefined && time <= BigInt(headSeconds))
  const make = isOver ? error : warning
  if (there === undefined)
    return make(
      about,
      `${fork} starts at ${here} here, and not there`,
      `look whether that node is older than the fork; where the chain has none give the node ${flag('off')}`,
    )
  if (here !== undefined)
    return make(
      about,
      `${fork} starts at ${there} there, at ${here} here`,
      `look which is right; where it is that node give this one ${flag(there)}`,
    )
  // Times alone do not say whether it is our newest fork at another time, or the one after it.
  const newest = forkTimes(chain).findLast((time) => time <= BigInt(headSeconds))
  const known = [...namesAt(chain, newest).slice(-1), ...firstUnset(chain)]
  const flags = known.map((one) => `if it is ${one} give the node --fork-time ${one}=${there}`)
  return make(
    about,
    `a fork starts at ${there} there, and none here`,
    [...flags, 'if this version has no such fork update the node'].join('; '),
  )
}

/** Forks of the genesis have its time, 0 or one before it: all say the same. */
const normal = (time: bigint, { genesisHeader }: ChainSpec): bigint =>
  time <= genesisHeader.timestamp ? 0n : time

function timeOf(config: Config | null | undefined, chain: ChainSpec): bigint | undefined {
  const time = config?.activationTime
  return Number.isSafeInteger(time) ? normal(BigInt(time as number), chain) : undefined
}

/** Forks of Ethereum go by the names of the OP forks that bring them. */
const layerOf = ({ schedule }: Pick<ChainSpec, 'schedule'>) =>
  isOptimismChain(schedule) ? OPTIMISM_FORKS : ETHEREUM_FORKS

const namesAt = (chain: ChainSpec, time: bigint | undefined): readonly string[] =>
  layerOf(chain)
    .filter(({ name, by }) => by === 'time' && time !== undefined && chain.schedule[name] === time)
    .map(({ name }) => name)

/** The oldest fork that the chain has no time for, if there is one. */
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
