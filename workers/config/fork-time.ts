/** The flag `--fork-time`, which replaces fork times of the chain. */
import { type ForkTimes, TIMED_FORKS } from '../../engine/chainspec/fork-times.ts'
import { UNKNOWN_FORKS } from '../../engine/chainspec/forks.ts'
import { hint } from './closest-name.ts'
import { integer, list, option, orWord } from './option.ts'

const seconds = orWord('off', integer(0, 253_402_300_799))

function forkTime(wire: string): string {
  const [name = '', time, ...more] = wire.split('=')
  if (time === undefined || more.length > 0)
    throw new Error('expected NAME=TIMESTAMP or NAME=off, such as karst=1783526401')
  if (!TIMED_FORKS.includes(name)) {
    const later = UNKNOWN_FORKS.find(({ config }) => config === `${name}Time`)
    throw new Error(
      later === undefined
        ? `unknown fork "${name}"${hint(name, TIMED_FORKS, `this version knows ${TIMED_FORKS.join(', ')}`)}`
        : `this version does not support ${later.title}: use a version that does`,
    )
  }
  try {
    seconds(time)
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`)
  }
  return wire
}

/** Option for commands that choose the chain themselves. */
export const FORK_TIME = option('NAME=TIME|off,…', list(forkTime), {
  fallback: [],
  text: 'timestamp in seconds at which a fork starts, instead of the time of the chain',
  defaultText: 'the times of the chain',
})

export function forkTimesOf(given: readonly string[]): ForkTimes | undefined {
  if (given.length === 0) return undefined
  return Object.fromEntries(
    given.map((one) => {
      const [name = '', time = ''] = one.split('=')
      return [name, seconds(time)] as const
    }),
  )
}

/** Finds problems that concern several entries. */
export function forkTimeProblems(given: readonly string[]): readonly string[] {
  const names = given.map((one) => one.split('=', 1)[0]!)
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  return twice === undefined ? [] : [`--fork-time names ${twice} twice: leave one out`]
}
