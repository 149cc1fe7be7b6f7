/** `--fork-time`: when forks start, in place of what the chain says. */
import { type ForkTimes, TIMED_FORKS } from '../../engine/chainspec/fork-times.ts'
import { UNKNOWN_FORKS } from '../../engine/chainspec/forks.ts'
import { hint } from './nearest.ts'
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
        ? `no fork of this version is called "${name}"${hint(name, TIMED_FORKS, `it knows ${TIMED_FORKS.join(', ')}`)}`
        : `this version does not know ${later.title}: take one that does`,
    )
  }
  try {
    seconds(time)
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`)
  }
  return wire
}

/** For commands that choose the chain themselves. */
export const FORK_TIME = option('NAME=TIME|off,…', list(forkTime), {
  fallback: [],
  text: 'second at which a fork starts, in place of what the chain says',
  shown: 'as the chain says',
})

/** undefined: no time is given. */
export function forkTimesOf(given: readonly string[]): ForkTimes | undefined {
  if (given.length === 0) return undefined
  return Object.fromEntries(
    given.map((one) => {
      const [name = '', time = ''] = one.split('=')
      return [name, seconds(time)] as const
    }),
  )
}

/** What no single entry can say. */
export function forkTimeProblems(given: readonly string[]): readonly string[] {
  const names = given.map((one) => one.split('=', 1)[0]!)
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  return twice === undefined ? [] : [`--fork-time names ${twice} twice: leave one out`]
}
