/** Times of unknown forks are refused by name, in a genesis.json and by --fork-time alike. */
import { describe, expect, test } from 'vitest'
import { differingForks } from '../../../engine/chainspec/fork-times.ts'
import { NEWEST_AT_0 } from '../../../engine/chainspec/networks.ts'
import { chainOfGenesis, chainSpec } from '../../../engine/chainspec/registry.ts'
import { COMMANDS } from '../../../workers/commands/index.ts'
import { readInvocation } from '../../../workers/config/config.ts'
import { forkTimesOf } from '../../../workers/config/fork-time.ts'

/** An OP chain with every fork up to Jovian. */
const CONFIG = {
  chainId: 901,
  homesteadBlock: 0,
  eip150Block: 0,
  eip155Block: 0,
  eip158Block: 0,
  byzantiumBlock: 0,
  constantinopleBlock: 0,
  petersburgBlock: 0,
  istanbulBlock: 0,
  berlinBlock: 0,
  londonBlock: 0,
  mergeNetsplitBlock: 0,
  terminalTotalDifficulty: 0,
  shanghaiTime: 0,
  cancunTime: 0,
  pragueTime: 0,
  bedrockBlock: 0,
  regolithTime: 0,
  canyonTime: 0,
  ecotoneTime: 0,
  fjordTime: 0,
  graniteTime: 0,
  holoceneTime: 0,
  isthmusTime: 0,
  jovianTime: 0,
  optimism: { eip1559Elasticity: 6, eip1559Denominator: 50 },
}
const genesis = (config: object) => ({
  config: { ...CONFIG, ...config },
  alloc: {},
  extraData: '0x01000000fa000000060000000000000000',
})
const rulesOf = (config: object, time = 100n) => chainOfGenesis(genesis(config)).rulesAt(1n, time)

describe('a genesis.json', () => {
  test('starts Karst at karstTime', () => {
    expect(rulesOf({ karstTime: 100 })).toMatchObject({ fork: 'karst', spec: 'osaka' })
    expect(rulesOf({ karstTime: 100 }, 99n)).toMatchObject({ fork: 'jovian', spec: 'prague' })
  })
  test.each(['osakaTime', 'bpo1Time'])('with %s changes nothing on an OP chain', (key) => {
    expect(rulesOf({ osakaTime: 0, [key]: 0 })).toEqual(rulesOf({}))
  })
  test('starts the Ethereum fork that belongs to an OP fork', () => {
    const without = { shanghaiTime: null, cancunTime: null, pragueTime: null, karstTime: 0 }
    expect(rulesOf(without)).toEqual(rulesOf({ karstTime: 0 }))
    const later = { pragueTime: null, isthmusTime: 50, jovianTime: 50 }
    expect(rulesOf(later, 49n)).toMatchObject({ spec: 'cancun', hasDelegations: false })
    expect(rulesOf(later, 50n)).toMatchObject({ spec: 'prague', hasDelegations: true })
  })
  test('has no time where it has null', () => {
    expect(
      rulesOf({ amsterdamTime: null, lagoonTime: null, karstTme: null, karstTime: null }),
    ).toEqual(rulesOf({}))
  })
  test.each([
    ['karsttime', 'is no fork of this version, which knows shanghaiTime, '],
    ['KarstTime', 'is no fork'],
    ['karst_time', 'is no fork'],
    ['karstsTime', 'is no fork'],
    ['jovian_time', 'is no fork'],
    ['osakTime', 'is no fork'],
    ['bpo6Time', 'is no fork'],
    ['verkleTime', 'is no fork'],
    ['cel2Time', 'is no fork'],
    ['denimTime', 'is no fork'],
    ['amsterdamTime', 'this version does not know Amsterdam, '],
  ])('with %s is refused', (key, expected) => {
    for (const time of [0, 1_799_683_201, '0x10']) {
      const read = () => chainOfGenesis(genesis({ [key]: time }))
      expect(read).toThrow(`genesis.config.${key}`)
      expect(read).toThrow(expected)
      expect(read).toThrow('null')
    }
  })
  test.each(['lagoonTime', 'interopTime'])('with %s starts Lagoon', (key) => {
    const config = { karstTime: 0, [key]: 100 }
    expect(rulesOf(config, 99n)).toEqual(rulesOf({ karstTime: 0 }))
    expect(rulesOf(config)).toEqual({
      ...rulesOf({ karstTime: 0 }),
      fork: 'lagoon',
      hasPostExec: true,
    })
    expect(() => chainOfGenesis(genesis({ [key]: 100 }))).toThrow('karstTime is not')
  })
  test('with Karst needs Jovian', () => {
    expect(() => chainOfGenesis(genesis({ jovianTime: null, karstTime: 5 }))).toThrow(
      'genesis.config: karstTime is set, jovianTime is not',
    )
  })
})

describe('--fork-time', () => {
  const problem = (given: string, command = 'follow') => {
    const argv = [command, '--chain', 'op-mainnet', '--upstream', 'http://127.0.0.1:1', given]
    try {
      const { config } = readInvocation(argv, {}, COMMANDS) as unknown as {
        readonly config: { readonly forkTime: readonly string[] }
      }
      chainSpec({ name: 'op-mainnet', forkTimes: forkTimesOf(config.forkTime) })
    } catch (error) {
      return (error as Error).message
    }
    return 'taken'
  }
  test.each([
    ['--fork-time=karts=5', 'unknown fork "karts"; nearest: karst'],
    ['--fork-time=Karst=5', 'unknown fork "Karst"; nearest: karst'],
    ['--fork-time=karstTime=5', 'unknown fork "karstTime"'],
    ['--fork-time=london=5', 'unknown fork "london"'],
    ['--fork-time=zzzzzzzz=5', 'this version knows shanghai, '],
    ['--fork-time=lagoon=5', 'lagoon 5 is before karst 1783526401'],
    ['--fork-time=interop=5', 'unknown fork "interop"'],
    ['--fork-time=amsterdam=5', 'this version does not support Amsterdam'],
    ['--fork-time=karst', 'expected NAME=TIMESTAMP or NAME=off, such as karst=1783526401'],
    ['--fork-time=karst=5=6', 'expected NAME=TIMESTAMP or NAME=off'],
    ['--fork-time=karst=', 'karst: expected an integer from 0 to 253402300799, or "off"'],
    ['--fork-time=karst=-1', 'karst: expected an integer from 0'],
    ['--fork-time=karst=0x5', 'karst: expected an integer from 0'],
    ['--fork-time=karst=never', 'karst: expected an integer from 0'],
    ['--fork-time=karst=5,karst=6', '--fork-time names karst twice'],
    ['--fork-time=osaka=5', 'osaka has no effect of its own on an OP chain'],
    ['--fork-time=jovian=off', '--fork-time: karst is set, jovian is not'],
    ['--fork-time=karst=off', '--fork-time: lagoon is set, karst is not'],
    ['--fork-time=karst=1764691200', 'karst 1764691200 is before jovian 1764691201'],
    ['--fork-times=karst=5', 'unknown flag --fork-times; nearest: --fork-time'],
    ['--karst-time=5', 'unknown flag --karst-time; --help lists the flags'],
  ])('%s is refused', (given, expected) => {
    expect(problem(given)).toContain(expected)
  })
  test('of an OP fork is refused on a chain without OP forks', () => {
    const { optimism: _, ...ethereum } = { ...CONFIG, bedrockBlock: null, regolithTime: null }
    const none = Object.fromEntries(
      ['canyon', 'ecotone', 'fjord', 'granite', 'holocene', 'isthmus', 'jovian'].map((name) => [
        `${name}Time`,
        null,
      ]),
    )
    const file = { config: { ...ethereum, ...none }, alloc: {} }
    expect(chainOfGenesis(file, { osaka: 7 }).rulesAt(1n, 7n).spec).toBe('osaka')
    expect(() => chainOfGenesis(file, { karst: 7 })).toThrow(
      '--fork-time: karst is a fork of OP chains, and this chain is none',
    )
  })

  test.each([
    ['karst=5', 'xlayer', 'jovian', 5n],
    ['karst=1790000000', 'op-mainnet', 'jovian', 1_789_999_999n],
    ['karst=1790000000', 'op-mainnet', 'karst', 1_790_000_000n],
    ['karst=off,lagoon=off', 'op-mainnet', 'jovian', 1_900_000_000n],
    ['lagoon=1900000000', 'op-mainnet', 'karst', 1_899_999_999n],
    ['karst=1790000000', 'xlayer', 'karst', 1_790_000_000n],
    ['jovian=off,karst=off,lagoon=off', 'op-sepolia', 'isthmus', 1_900_000_000n],
    ['isthmus=1750000000', 'op-sepolia', 'holocene', 1_749_999_999n],
    ['isthmus=1750000000', 'op-sepolia', 'isthmus', 1_750_000_000n],
  ])('%s on %s gives %s', (given, name, fork, time) => {
    if (given === 'karst=5') {
      expect(() => chainSpec({ name, forkTimes: { karst: 5 } })).toThrow('is before jovian')
      return
    }
    const chain = chainSpec({ name, forkTimes: forkTimesOf(given.split(',')) })
    const rules = chain.rulesAt(160_000_000n, time)
    expect(rules.fork).toBe(fork)
    // Prague is active exactly with Isthmus.
    expect(rules.hasDelegations).toBe(fork !== 'holocene')
  })

  test('on a development chain moves only forks newer than its genesis', () => {
    const dev = { genesisTimestamp: 1_000 }
    const chain = chainSpec({ name: 'xlayer', dev, forkTimes: { karst: 2_000 } })
    expect(chain.rulesAt(5n, 1_999n).fork).toBe('jovian')
    expect(chain.rulesAt(5n, 2_000n).fork).toBe('karst')
    expect(() => chainSpec({ name: 'xlayer', dev, forkTimes: { jovian: 2_000 } })).toThrow(
      '--fork-time: a development chain has jovian from its genesis on; it moves karst',
    )
    const lagoon = chainSpec({ name: 'xlayer', dev, forkTimes: { karst: 2_000, lagoon: 3_000 } })
    expect(lagoon.rulesAt(5n, 3_000n).fork).toBe('lagoon')
  })
})

test('the differing forks of two schedules are named, with the time of the difference', () => {
  const karst = (at: bigint) => ({ ...NEWEST_AT_0, karst: at })
  expect(differingForks(karst(5n), karst(5n))).toEqual([])
  expect(differingForks(karst(5n), karst(9n))).toEqual([{ name: 'karst', from: 5n }])
  expect(differingForks(NEWEST_AT_0, karst(9n))).toEqual([{ name: 'karst', from: 9n }])
  expect(differingForks(karst(9n), NEWEST_AT_0)).toEqual([{ name: 'karst', from: 9n }])
})
