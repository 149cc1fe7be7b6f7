/**
 * Makes a chain from the user's option: a known network or a genesis.json, as it is or as the base
 * of a development chain.
 */
import { readFileSync } from 'node:fs'
import { hashHeader } from '../primitives/header.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { equalBytes, ZERO_32 } from '../primitives/words.ts'
import { devChain } from './dev-genesis.ts'
import { ChainError } from './error.ts'
import { type ForkTimes, withForkTimes } from './fork-times.ts'
import { isOptimismChain, OPTIMISM_FORKS } from './forks.ts'
import { type Allocation, allocationRoots, type GenesisFields, genesisHeader } from './genesis.ts'
import { decodeAlloc, decodeGenesis } from './genesis-file.ts'
import type { Network } from './network.ts'
import { NETWORKS, NEWEST_AT_0, xlayerParameters } from './networks.ts'
import { rulesOf } from './rules.ts'
import type { ChainSpec } from './types.ts'

/** Plain data, so that every thread makes the same chain from it. */
export type ChainOption = {
  /** A known name or the path of a genesis.json. */
  readonly name: string
  /** Fork times instead of the chain's own. */
  readonly forkTimes?: ForkTimes | undefined
  /** Makes a development chain with the rules of the named one. */
  readonly dev?: {
    readonly chainId?: number | undefined
    /**
     * Path of a JSON file: an `alloc` with the contracts of the OP stack. Without it, the chain has
     * none of them.
     */
    readonly predeploysFile?: string | undefined
    /** Path of a JSON file: an `alloc` of further accounts. */
    readonly allocFile?: string | undefined
    /** Seconds. */
    readonly genesisTimestamp: number
    readonly gasLimit?: number | undefined
    /** Seconds. */
    readonly blockTime?: number | undefined
  }
}

/**
 * Makes the chain; reads the files that the option names.
 * @throws {ChainError} when a file cannot be read or is wrong
 */
export function chainSpec(option: ChainOption): ChainSpec {
  const network = NETWORKS.get(option.name)
  const { dev, forkTimes } = option
  if (dev !== undefined) return devSpec(dev, network ?? option.name, forkTimes)
  return network === undefined
    ? chainOfGenesis(readJson(option.name), forkTimes)
    : knownChain(network, forkTimes)
}

/**
 * Makes a chain from a genesis.json.
 * @param json the parsed file
 * @throws {ChainError} that names the wrong key
 */
export function chainOfGenesis(json: unknown, forkTimes?: ForkTimes): ChainSpec {
  const { parameters, fields, alloc, stateHash, blockTime } = decodeGenesis(json)
  const schedule = withForkTimes(parameters.schedule, forkTimes)
  const rulesAt = rulesOf({ ...parameters, schedule })
  const roots = allocationRoots(alloc)
  const header = genesisHeader(fields, rulesAt(fields.number, fields.timestamp), {
    ...roots,
    stateRoot: stateHash ?? roots.stateRoot,
  })
  return {
    name: `chain-${parameters.chainId}`,
    chainId: parameters.chainId,
    genesisNumber: fields.number,
    genesisHeader: header,
    genesisHash: hashHeader(header),
    alloc: stateHash === undefined ? alloc : undefined,
    eip1559: constantsOf(parameters),
    blockTime: blockTime ?? (isOptimismChain(schedule) ? 2 : 12),
    schedule,
    rulesAt,
  }
}

function knownChain(
  { name, parameters, genesis, blockTime, forkIdGenesis }: Network,
  forkTimes: ForkTimes | undefined,
): ChainSpec {
  const schedule = withForkTimes(parameters.schedule, forkTimes)
  const rulesAt = rulesOf({ ...parameters, schedule })
  const header = genesisHeader(genesis, rulesAt(genesis.number, genesis.timestamp), genesis)
  return {
    name,
    chainId: parameters.chainId,
    genesisNumber: genesis.number,
    genesisHeader: header,
    genesisHash: hashHeader(header),
    forkIdGenesis,
    alloc: undefined,
    eip1559: constantsOf(parameters),
    blockTime,
    schedule,
    rulesAt,
  }
}

function devSpec(
  dev: NonNullable<ChainOption['dev']>,
  base: Network | string,
  forkTimes: ForkTimes | undefined,
): ChainSpec {
  const { name, parameters, blockTime } = typeof base === 'string' ? baseOfFile(base) : base
  const chainId = dev.chainId === undefined ? parameters.chainId : BigInt(dev.chainId)
  const isXlayer = name.startsWith('xlayer')
  return devChain({
    name,
    // X Layer's gasless contract depends on the id.
    parameters: isXlayer ? xlayerParameters(chainId, parameters.schedule) : parameters,
    blockTime: dev.blockTime ?? blockTime,
    chainId,
    schedule: withForkTimes(NEWEST_AT_0, forkTimes, NEWEST_AT_0),
    timestamp: BigInt(dev.genesisTimestamp),
    ...(dev.gasLimit === undefined ? {} : { gasLimit: BigInt(dev.gasLimit) }),
    alloc: new Map([...allocOf(dev.predeploysFile), ...allocOf(dev.allocFile)]),
  })
}

const allocOf = (path: string | undefined): Allocation =>
  path === undefined ? new Map() : decodeAlloc(parse(path, readText(path)), path)

function baseOfFile(path: string): Pick<Network, 'name' | 'parameters' | 'blockTime'> {
  const { parameters, fields } = decodeGenesis(readJson(path))
  refuseLater(path, fields)
  if (!isOptimismChain(parameters.schedule))
    throw new ChainError(
      `${path} is no OP-stack genesis: config.${OPTIMISM_FORKS[0]!.config} expected`,
    )
  return { name: `chain-${parameters.chainId}`, parameters, blockTime: 1 }
}

/**
 * Refuses fields of a later block, because a development chain starts without a parent.
 * @throws {ChainError} that names the key
 */
function refuseLater(path: string, fields: GenesisFields): void {
  const { parentHash = ZERO_32 } = fields
  for (const key of ['number', 'gasUsed', 'blobGasUsed', 'excessBlobGas'] as const)
    if ((fields[key] ?? 0n) !== 0n) throw laterError(path, key, `${fields[key]}`)
  if (!equalBytes(parentHash, ZERO_32)) throw laterError(path, 'parentHash', bytesToHex(parentHash))
}

const laterError = (path: string, key: keyof GenesisFields, value: string) =>
  new ChainError(
    `${path}: genesis.${key} is ${value}, and a development chain begins at block 0 with nothing before it: give one where it is 0, or follow that chain (flashnode follow)`,
  )

const constantsOf = ({ denominator, laterDenominator, elasticity }: Network['parameters']) => ({
  denominator: laterDenominator ?? denominator,
  elasticity,
})

function readJson(path: string): unknown {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const names = [...NETWORKS.keys()].join(', ')
    throw new ChainError(`${path} is neither a known chain (${names}) nor a file: ${textOf(error)}`)
  }
  return parse(path, text)
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new ChainError(`${path} cannot be read: ${textOf(error)}`)
  }
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new ChainError(`${path} is not JSON: ${textOf(error).replaceAll('\n', ' ')}`)
  }
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
