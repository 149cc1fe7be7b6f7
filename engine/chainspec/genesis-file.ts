/** Reads a chain from a genesis.json in the form of geth and op-geth. */
import { type Bytes, type Hex, NO_BYTES } from '../primitives/bytes.ts'
import {
  isGiven,
  type JsonObject,
  readHex,
  readObject,
  readUint,
  readWord,
} from '../primitives/json-fields.ts'
import { bigintToBytes } from '../primitives/words.ts'
import { ChainError, readingChain } from './error.ts'
import { checkOrder, fillBrought } from './fork-times.ts'
import {
  FIRST_AFTER_MERGE,
  FORKS,
  type ForkName,
  MERGE,
  OPTIMISM_FORKS,
  UNKNOWN_FORKS,
} from './forks.ts'
import type { Allocation, GenesisFields } from './genesis.ts'
import type { ChainParameters } from './rules.ts'
import type { BlobSchedule, GenesisAccount } from './types.ts'

export type GenesisFile = {
  readonly parameters: ChainParameters
  readonly fields: GenesisFields
  readonly alloc: Allocation
  /** State root for a file without the allocation (op-geth). */
  readonly stateHash: Bytes | undefined
  /** Seconds; undefined when the file has no block time. */
  readonly blockTime: number | undefined
}

/**
 * Decodes a genesis.json.
 * @param json the parsed file
 * @throws {ChainError} that names the wrong key
 */
export function decodeGenesis(json: unknown): GenesisFile {
  return readingChain(() => readGenesis(json))
}

function readGenesis(json: unknown): GenesisFile {
  const file = readObject<FileKey>(json, 'genesis')
  const config = readObject<ConfigKey>(file.config, 'genesis.config')
  const fields = fieldsOf(file)
  const own = ownOf(config)
  return {
    parameters: { ...parametersOf(config, fields.difficulty ?? 0n), ...own.parameters },
    fields,
    alloc: readAlloc(file.alloc ?? {}, 'genesis.alloc'),
    stateHash: isGiven(file.stateHash)
      ? readHex(file.stateHash, 'genesis.stateHash', 32)
      : undefined,
    blockTime: own.blockTime,
  }
}

/**
 * Decodes accounts by address as in a genesis.json's `alloc`. Numbers are hex or decimal; keys may
 * lack the 0x.
 * @param where name of the object in messages
 * @throws {ChainError} that names the wrong key
 */
export function decodeAlloc(json: unknown, where: string): Allocation {
  return readingChain(() => readAlloc(json, where))
}

function readAlloc(json: unknown, where: string): Allocation {
  const alloc = new Map<Hex, GenesisAccount>()
  for (const [key, value] of Object.entries(readObject(json, where))) {
    const address = `0x${key.replace(/^0x/i, '')}`.toLowerCase() as Hex
    readHex(address, `${where}: address ${key}`, 20)
    if (alloc.has(address)) throw new ChainError(`${where}: ${address} stands there twice`)
    alloc.set(
      address,
      accountOf(readObject<AccountKey>(value, `${where}.${key}`), `${where}.${key}`),
    )
  }
  return alloc
}

type FileKey =
  | 'config'
  | 'alloc'
  | 'stateHash'
  | 'number'
  | 'timestamp'
  | 'gasLimit'
  | 'gasUsed'
  | 'difficulty'
  | 'extraData'
  | 'nonce'
  | 'mixHash'
  | 'coinbase'
  | 'parentHash'
  | 'baseFeePerGas'
  | 'blobGasUsed'
  | 'excessBlobGas'
export type AccountKey = 'balance' | 'nonce' | 'code' | 'storage'
type ConfigKey =
  | (typeof FORKS)[number]['config']
  | 'chainId'
  | 'blobSchedule'
  | 'optimism'
  | 'flashnode'
  | 'terminalTotalDifficulty'
  | 'depositContractAddress'

/**
 * Decodes one account.
 * @param where name of the account in messages
 * @throws {Refusal} that names the wrong key
 */
export function accountOf(json: JsonObject<AccountKey>, where: string): GenesisAccount {
  const code = isGiven(json.code) ? readHex(json.code, `${where}.code`) : undefined
  const slots = Object.entries(readObject(json.storage ?? {}, `${where}.storage`))
  const storage = slots.map(([key, value]) => ({
    key: readWord(key, `${where}.storage`),
    value: readWord(value, `${where}.storage.${key}`),
  }))
  return {
    balance: readUint(json.balance ?? 0, `${where}.balance`, 256),
    ...(isGiven(json.nonce) ? { nonce: readUint(json.nonce, `${where}.nonce`) } : {}),
    ...(code !== undefined && code.length > 0 ? { code } : {}),
    ...(storage.length > 0 ? { storage } : {}),
  }
}

function fieldsOf(file: JsonObject<FileKey>): GenesisFields {
  const uint = (key: FileKey, otherwise: bigint, bits?: number) =>
    isGiven(file[key]) ? readUint(file[key], `genesis.${key}`, bits) : otherwise
  const fixed = (key: FileKey, length: number) =>
    isGiven(file[key]) ? readHex(file[key], `genesis.${key}`, length) : new Uint8Array(length)
  return {
    number: uint('number', 0n),
    timestamp: uint('timestamp', 0n),
    // geth's own default.
    gasLimit: uint('gasLimit', 4_712_388n),
    gasUsed: uint('gasUsed', 0n),
    difficulty: uint('difficulty', 0n, 256),
    extraData: isGiven(file.extraData) ? readHex(file.extraData, 'genesis.extraData') : NO_BYTES,
    nonce: bigintToBytes(uint('nonce', 0n), 8),
    mixHash: fixed('mixHash', 32),
    coinbase: fixed('coinbase', 20),
    parentHash: fixed('parentHash', 32),
    ...(isGiven(file.baseFeePerGas) ? { baseFeePerGas: uint('baseFeePerGas', 0n, 256) } : {}),
    ...(isGiven(file.blobGasUsed) ? { blobGasUsed: uint('blobGasUsed', 0n) } : {}),
    ...(isGiven(file.excessBlobGas) ? { excessBlobGas: uint('excessBlobGas', 0n) } : {}),
  }
}

function parametersOf(config: JsonObject<ConfigKey>, difficulty: bigint): ChainParameters {
  refuseUnknown(config)
  const isOptimism =
    isGiven(config.optimism) || isGiven(config[OPTIMISM_FORKS[0]!.config as ConfigKey])
  const schedule: { [Name in ForkName]?: bigint } = {}
  for (const fork of FORKS) {
    const { name } = fork
    const key = keyIn(config, fork)
    if (!isGiven(config[key])) continue
    const at = readUint(config[key], `genesis.config.${key}`)
    if (!isOptimism || !('isEthereumAlone' in fork)) schedule[name] = at
  }
  if (isOptimism) fillBrought(schedule)
  const merge = schedule[MERGE] ?? mergeOf(config, difficulty)
  // A mined first block is before the merge, whatever the file says.
  if (merge !== undefined) schedule[MERGE] = merge === 0n && difficulty > 0n ? 1n : merge
  checkOrder(schedule, { where: 'genesis.config', nameOf: ({ config: key }) => key })
  const chainId = readUint(config.chainId, 'genesis.config.chainId')
  const blobSchedule = blobsOf(readObject(config.blobSchedule ?? {}, 'genesis.config.blobSchedule'))
  if (!isGiven(config.optimism)) {
    const contract = config.depositContractAddress
    const where = 'genesis.config.depositContractAddress'
    return {
      chainId,
      schedule,
      denominator: 8n,
      elasticity: 2n,
      blobSchedule,
      ...(isGiven(contract) ? { depositContract: readHex(contract, where, 20) } : {}),
    }
  }
  const optimism = readObject(config.optimism, 'genesis.config.optimism')
  const constant = (key: string, otherwise: bigint) => {
    const value = readUint(optimism[key] ?? otherwise, `genesis.config.optimism.${key}`, 32)
    if (value === 0n) throw new ChainError(`genesis.config.optimism.${key} is 0, expected more`)
    return value
  }
  return {
    chainId,
    schedule,
    denominator: constant('eip1559Denominator', 50n),
    elasticity: constant('eip1559Elasticity', 6n),
    laterDenominator: constant('eip1559DenominatorCanyon', 250n),
    blobSchedule,
  }
}

/** Reads flashnode's own keys, which development chains write. */
function ownOf(config: JsonObject<ConfigKey>) {
  const where = 'genesis.config.flashnode'
  const own = readObject<'blockTime' | 'gaslessContract'>(config.flashnode ?? {}, where)
  return {
    blockTime: isGiven(own.blockTime)
      ? Number(readUint(own.blockTime, `${where}.blockTime`, 32))
      : undefined,
    parameters: isGiven(own.gaslessContract)
      ? { gaslessContract: readHex(own.gaslessContract, `${where}.gaslessContract`, 20) }
      : {},
  }
}

/** Returns the merge block when the file has only a total difficulty; undefined: never. */
function mergeOf(config: JsonObject<ConfigKey>, difficulty: bigint): bigint | undefined {
  if (!isGiven(config.terminalTotalDifficulty))
    return isGiven(config.optimism) || isGiven(config[FIRST_AFTER_MERGE]) ? 0n : undefined
  const total = readUint(
    config.terminalTotalDifficulty,
    'genesis.config.terminalTotalDifficulty',
    256,
  )
  if (total === 0n) return 0n
  if (total <= difficulty) return 1n
  if (!isGiven(config[FIRST_AFTER_MERGE])) return undefined
  throw new ChainError(
    `genesis.config: the first block's difficulty ${difficulty} does not reach the terminalTotalDifficulty ${total}; mergeNetsplitBlock expected`,
  )
}

/** Returns the key that the file has for a fork, which may be an older one. */
const keyIn = (config: JsonObject, fork: (typeof FORKS)[number]): ConfigKey =>
  'formerConfig' in fork && !isGiven(config[fork.config])
    ? (fork.formerConfig as ConfigKey)
    : fork.config

/**
 * Refuses times of forks without a row, because their blocks would be executed by other rules.
 * @throws {ChainError} that names the key
 */
function refuseUnknown(config: JsonObject): void {
  for (const [key, value] of Object.entries(config)) {
    if (!/time$/i.test(key) || !isGiven(value)) continue
    if (FORKS.some((fork) => keyIn(config, fork) === key)) continue
    const later = UNKNOWN_FORKS.find((fork) => fork.config === key)
    const known = FORKS.filter(({ by }) => by === 'time').map((fork) => fork.config)
    throw new ChainError(
      later === undefined
        ? `genesis.config.${key} is no fork of this version, which knows ${known.join(', ')}: correct the key, or set it to null if its rules never come`
        : `genesis.config.${key}: this version does not know ${later.title}, and would execute its blocks by older rules; take a version that does, or set the key to null until then`,
    )
  }
}

function blobsOf(json: JsonObject): Record<string, BlobSchedule> {
  const entries = Object.entries(json).map(([name, value]) => {
    const where = `genesis.config.blobSchedule.${name}`
    const { target, max, baseFeeUpdateFraction } = readObject(value, where)
    return [
      name,
      {
        target: readUint(target, `${where}.target`),
        max: readUint(max, `${where}.max`),
        updateFraction: readUint(baseFeeUpdateFraction, `${where}.baseFeeUpdateFraction`),
      },
    ] as const
  })
  return Object.fromEntries(entries)
}
