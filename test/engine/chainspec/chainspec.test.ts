/**
 * Forks, genesis blocks and base fees of every named chain, of genesis files, and of development
 * chains.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { mnemonicToAccount } from 'viem/accounts'
import { afterAll, describe, expect, test } from 'vitest'
import {
  decodeExtraData,
  ExtraDataError,
  encodeExtraData,
  nextBaseFee,
} from '../../../engine/chainspec/base-fee.ts'
import { DEV_ACCOUNTS, DEV_MNEMONIC } from '../../../engine/chainspec/dev-accounts.ts'
import { ChainError } from '../../../engine/chainspec/error.ts'
import { SYSTEM_CONTRACTS } from '../../../engine/chainspec/genesis.ts'
import { genesisFileOf } from '../../../engine/chainspec/genesis-writer.ts'
import { chainOfGenesis, chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { type Header, hashHeader } from '../../../engine/primitives/header.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { EMPTY_ROOT } from '../../../engine/primitives/keccak.ts'
import { encodeRlp } from '../../../engine/primitives/rlp.ts'
import { createAddress, decodeTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { conformance, isAbsent } from '../../fixtures/blocks.ts'

const folder = mkdtempSync(join(tmpdir(), 'chainspec-'))
afterAll(() => {
  rmSync(folder, { recursive: true })
})
function file(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

describe('the genesis.json of a development chain', () => {
  const alloc = file(
    'own-alloc.json',
    '{"0x00000000000000000000000000000000000000aa": {"balance": "0x1", "nonce": "0x2", "code": "0x6001", "storage": {"0x1": "0x2"}}}',
  )
  test.each([
    ['xlayer', {}],
    ['xlayer-testnet', { chainId: 77, gasLimit: 40_000_000, blockTime: 2 }],
    ['op-mainnet', { allocFile: alloc }],
    ['op-sepolia', { chainId: 78, blockTime: 1 }],
  ])('makes the same chain: %s', (name, options) => {
    const chain = chainSpec({ name, dev: { genesisTimestamp: 1_700_000_000, ...options } })
    const read = chainOfGenesis(JSON.parse(genesisFileOf(chain)))
    const { number, timestamp } = chain.genesisHeader
    expect(bytesToHex(read.genesisHash)).toBe(bytesToHex(chain.genesisHash))
    // A follower takes no edits of the state, because only the development chain itself has them
    // (ADR 40).
    expect(read.rulesAt(number, timestamp)).toEqual({
      ...chain.rulesAt(number, timestamp),
      hasEdits: false,
    })
    for (const key of ['chainId', 'blockTime', 'eip1559', 'genesisHeader', 'alloc'] as const)
      expect(read[key]).toEqual(chain[key])
  })
})

describe('a known chain', () => {
  test.each([
    [
      'xlayer',
      196n,
      42_810_021n,
      '0xdc33d8c0ec9de14fc2c21bd6077309a0a856df22821bd092a2513426e096a789',
    ],
    [
      'xlayer-testnet',
      1952n,
      12_241_700n,
      '0xccb16eb07b7a718c2ee374df57b0e28c9ac9d8d18ca6d3204cfbba661067855a',
    ],
    [
      'op-mainnet',
      10n,
      105_235_063n,
      '0xdbf6a80fef073de06add9b0d14026d6e5a86c85f6d102c36d3d8e9cf89c2afd3',
    ],
    [
      'op-sepolia',
      11_155_420n,
      0n,
      '0x102de6ffb001480cc9b8b548fd05c34cd4f46ae4aa91759393db90ea0409887d',
    ],
    ['unichain', 130n, 0n, '0x3425162ddf41a0a1f0106d67b71828c9a9577e6ddeb94e4f33d2cde1fdc3befe'],
    [
      'unichain-sepolia',
      1_301n,
      0n,
      '0xb7fe0bc9f98ca03294ca0094ff9374cc3e64130b6ec85850d6e260191f48bfe7',
    ],
    ['ink', 57_073n, 0n, '0x23a2658170ba70d014ba0d0d2709f8fbfe2fa660cd868c5f282f991eecbe38ee'],
    [
      'ink-sepolia',
      763_373n,
      0n,
      '0xe5fd5cf0be56af58ad5751b401410d6b7a09d830fa459789746a3d0dd1c79834',
    ],
    ['soneium', 1_868n, 0n, '0x295d22d269634c7d0055b33b887519362d0b31899e97109d1789a8a168de1b21'],
    [
      'soneium-minato',
      1_946n,
      0n,
      '0x7ec49d93fa8f47c00e98cc5965cd3903a8faa9238743d2eba0e0550ab4c45c43',
    ],
    ['zora', 7_777_777n, 0n, '0x47555a45a1af8d4728ca337a1e48375a83919b1ea16591e070a07388b7364e29'],
    [
      'zora-sepolia',
      999_999_999n,
      0n,
      '0x8b17d2d52564a5a90079d9c860e1386272579e87b17ea27a3868513f53facd74',
    ],
    ['mode', 34_443n, 0n, '0xb0f682e12fc555fd5ce8fce51a59a67d66a5b46be28611a168260a549dac8a9b'],
    [
      'mode-sepolia',
      919n,
      0n,
      '0x13c352562289a88ed33087a51b6b6c859a27709c8555c9def7cb9757c043acad',
    ],
    ['worldchain', 480n, 0n, '0x70d316d2e0973b62332ba2e9768dd7854298d7ffe77f0409ffdb8d859f2d3fa3'],
    [
      'worldchain-sepolia',
      4_801n,
      0n,
      '0xf1deb67ee953f94d8545d2647918687fa8ba1f30fa6103771f11b7c483984070',
    ],
  ])('named %s has its genesis', (name, chainId, number, hash) => {
    const chain = chainSpec({ name })
    expect([chain.name, chain.chainId, chain.genesisNumber]).toEqual([name, chainId, number])
    expect(bytesToHex(chain.genesisHash)).toBe(hash)
    expect(chain.genesisHeader.number).toBe(number)
    expect(chain.alloc).toBeUndefined()
  })

  const rulesAt = (name: string, time: bigint) => chainSpec({ name }).rulesAt(200_000_000n, time)
  test.each([
    ['xlayer', 1_761_579_057n, 'isthmus', 'prague'],
    ['xlayer', 1_764_691_200n, 'isthmus', 'prague'],
    ['xlayer', 1_764_691_201n, 'jovian', 'prague'],
    ['xlayer-testnet', 1_764_327_599n, 'isthmus', 'prague'],
    ['xlayer-testnet', 1_764_327_600n, 'jovian', 'prague'],
    ['op-mainnet', 1_686_068_903n, 'regolith', 'paris'],
    ['op-mainnet', 1_704_992_401n, 'canyon', 'shanghai'],
    ['op-mainnet', 1_710_374_401n, 'ecotone', 'cancun'],
    ['op-mainnet', 1_720_627_201n, 'fjord', 'cancun'],
    ['op-mainnet', 1_726_070_401n, 'granite', 'cancun'],
    ['op-mainnet', 1_736_445_601n, 'holocene', 'cancun'],
    ['op-mainnet', 1_746_806_401n, 'isthmus', 'prague'],
    ['op-mainnet', 1_764_691_201n, 'jovian', 'prague'],
    ['op-sepolia', 1_744_905_599n, 'holocene', 'cancun'],
    ['op-sepolia', 1_763_568_001n, 'jovian', 'prague'],
    ['op-sepolia', 1_781_712_000n, 'jovian', 'prague'],
    ['op-sepolia', 1_781_712_001n, 'karst', 'osaka'],
    ['op-mainnet', 1_783_526_400n, 'jovian', 'prague'],
    ['op-mainnet', 1_783_526_401n, 'karst', 'osaka'],
  ])('named %s at time %s has the fork %s on %s', (name, time, fork, spec) => {
    expect(rulesAt(name, time)).toMatchObject({ fork, spec, isOptimism: true })
  })

  test.each<[name: string, karst: bigint, lagoon: bigint | undefined]>([
    ['op-mainnet', 153_963_812n, 162_042_212n],
    ['unichain', 52_778_042n, 68_934_842n],
    ['ink', 50_027_990n, 66_184_790n],
    ['soneium', 25_195_825n, 33_274_225n],
    ['zora', 48_416_281n, undefined],
    ['mode', 41_679_409n, undefined],
    ['worldchain', 35_328_181n, undefined],
    ['op-sepolia', 44_954_731n, 52_557_931n],
    ['unichain-sepolia', 54_859_573n, 70_065_973n],
    ['ink-sepolia', 52_708_705n, 67_915_105n],
    ['soneium-minato', 29_258_833n, 36_862_033n],
    ['zora-sepolia', 41_815_999n, undefined],
    ['mode-sepolia', 46_922_035n, undefined],
    ['worldchain-sepolia', 34_160_688n, undefined],
  ])('named %s has its first blocks of Karst and Lagoon', (name, karst, lagoon) => {
    const { genesisHeader, genesisNumber, blockTime, schedule } = chainSpec({ name })
    const seconds = BigInt(blockTime)
    const firstAt = (time: bigint | undefined) =>
      time && genesisNumber + (time - genesisHeader.timestamp + seconds - 1n) / seconds
    expect([firstAt(schedule['karst']), firstAt(schedule['lagoon'])]).toEqual([karst, lagoon])
  })

  test.each([
    ['unichain', 1_736_445_600n, 'granite', 250n, 6n],
    ['unichain', 1_736_445_601n, 'holocene', 250n, 6n],
    ['ink', 1_742_396_400n, 'holocene', 250n, 6n],
    ['soneium', 1_738_573_199n, 'granite', 250n, 6n],
    ['zora', 1_704_992_400n, 'regolith', 50n, 6n],
    ['mode', 1_704_992_401n, 'canyon', 250n, 6n],
    ['mode-sepolia', 1_703_203_200n, 'canyon', 250n, 6n],
    ['worldchain', 1_777_593_599n, 'isthmus', 250n, 10n],
    ['worldchain-sepolia', 1_788_868_800n, 'karst', 250n, 10n],
    ['soneium-minato', 1_730_106_000n, 'granite', 250n, 6n],
  ])('named %s at time %s has %s and its own fees', (name, time, fork, denominator, elasticity) => {
    expect(rulesAt(name, time)).toMatchObject({ fork, eip1559: { denominator, elasticity } })
  })

  test('has every rule of Jovian', () => {
    expect(rulesAt('xlayer', 1_764_691_201n)).toEqual({
      chainId: 196n,
      fork: 'jovian',
      isOptimism: true,
      hasEdits: false,
      spec: 'prague',
      evm: {
        spec: 'prague',
        chainId: 196n,
        precompiles: {
          p256VerifyGas: 3450n,
          maxInputBytes: { 8: 81_984, 12: 288_960, 14: 278_784, 15: 156_672 },
        },
      },
      l1Fee: 'compressed',
      l1SignatureBytes: 0n,
      l1Attributes: 'footprint',
      operatorFee: { multiplier: 100n, divisor: 1n },
      hasDaFootprint: true,
      hasPostExec: false,
      startsWithDeposits: true,
      extraDataVersion: 1,
      depositReceiptVersion: 1n,
      hasSystemDeposits: false,
      newestTransactionType: 4,
      gas: {
        creation: 32_000,
        nonZeroByte: 16,
        initCodeWord: 2,
        floorOfToken: 10,
        refundQuotient: 5n,
        limit: undefined,
      },
      maxInitCodeBytes: 49_152,
      hasWarmAddresses: true,
      isCoinbaseWarm: true,
      hasReceiptStatus: true,
      keepsDestroyed: true,
      hasDelegations: true,
      isMerged: true,
      header: {
        baseFee: true,
        withdrawals: 'messagePasser',
        blobs: true,
        beaconRoot: true,
        requests: true,
      },
      systemCalls: { blockHashes: true, beaconRoot: true },
      gaslessContract: hexToBytes('0x19787404b0c70021b4752028f7e3a92313885b27'),
      eip1559: { denominator: 100_000_000n, elasticity: 1n },
      blobs: undefined,
      maxBlobsOfTransaction: undefined,
      sidecarVersion: 0,
      hasBlobReserve: false,
      blockReward: 0n,
    })
  })
  test('changes only the EVM, the gas limit of a transaction and two contracts at Karst', () => {
    const jovian = rulesAt('op-mainnet', 1_783_526_400n)
    const maxInputBytes = { 8: 57_600, 12: 288_960, 14: 278_784, 15: 156_672 }
    expect(rulesAt('op-mainnet', 1_783_526_401n)).toEqual({
      ...jovian,
      fork: 'karst',
      spec: 'osaka',
      evm: { spec: 'osaka', chainId: 10n, precompiles: { p256VerifyGas: 6900n, maxInputBytes } },
      gas: { ...jovian.gas, limit: 16_777_216n },
    })
  })
  test('named OP Mainnet has every rule of Ecotone', () => {
    expect(rulesAt('op-mainnet', 1_710_374_401n)).toMatchObject({
      evm: { spec: 'cancun', precompiles: undefined },
      l1Fee: 'blobs',
      operatorFee: undefined,
      hasDaFootprint: false,
      extraDataVersion: undefined,
      depositReceiptVersion: 1n,
      header: { withdrawals: 'empty', beaconRoot: true, requests: false },
      systemCalls: { blockHashes: false, beaconRoot: true },
      gaslessContract: undefined,
      eip1559: { denominator: 250n, elasticity: 6n },
      blobs: undefined,
    })
    expect(rulesAt('op-mainnet', 1_704_992_400n).eip1559.denominator).toBe(50n)
  })
  test('has one rules object for blocks under the same forks', () => {
    const chain = chainSpec({ name: 'xlayer' })
    expect(chain.rulesAt(42_810_022n, 1_761_579_058n)).toBe(
      chain.rulesAt(43_000_000n, 1_761_600_000n),
    )
  })
  test('with an unknown name is refused with the list of known names', () => {
    expect(() => chainSpec({ name: 'xlyer' })).toThrow(
      /^xlyer is neither a known chain \(xlayer, xlayer-testnet, op-mainnet, unichain, \S.*, worldchain-sepolia\) nor a file/,
    )
  })
})

const dev = { genesisTimestamp: 1_800_000_000 }
describe('a development chain', () => {
  const chain = chainSpec({ name: 'xlayer', dev })
  test('has the newest rules and the id of its base', () => {
    expect([chain.chainId, chain.genesisNumber, chain.blockTime]).toEqual([196n, 0n, 1])
    expect(chain.rulesAt(0n, 1_800_000_000n)).toEqual({
      ...chainSpec({ name: 'xlayer' }).rulesAt(50_000_000n, 1_800_000_000n),
      hasEdits: true,
    })
  })
  test('has a consistent header', () => {
    const { genesisHeader: header } = chain
    expect(header).toMatchObject({
      number: 0n,
      timestamp: 1_800_000_000n,
      gasLimit: 50_000_000n,
      baseFeePerGas: 100_000_000n,
      blobGasUsed: 0n,
      excessBlobGas: 0n,
      withdrawalsRoot: EMPTY_ROOT,
      parentBeaconBlockRoot: new Uint8Array(32),
    })
    expect(bytesToHex(header.requestsHash!)).toBe(
      '0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    )
    expect(bytesToHex(header.extraData)).toBe('0x0105f5e100000000010000000005f5e100')
    expect(hashHeader(header)).toEqual(chain.genesisHash)
    expect(nextBaseFee(chain, header, 1_800_000_001n)).toBe(100_000_000n)
  })
  test('has an equal genesis for equal options, and another one for another time', () => {
    expect(chainSpec({ name: 'xlayer', dev }).genesisHash).toEqual(chain.genesisHash)
    const later = chainSpec({ name: 'xlayer', dev: { genesisTimestamp: 1_800_000_001 } })
    expect(later.genesisHash).not.toEqual(chain.genesisHash)
  })
  test('funds the ten accounts of the mnemonic', () => {
    expect(DEV_ACCOUNTS.length).toBe(10)
    for (const [addressIndex, { address, privateKey }] of DEV_ACCOUNTS.entries()) {
      const account = mnemonicToAccount(DEV_MNEMONIC, { addressIndex })
      expect(address).toBe(account.address.toLowerCase())
      expect(privateKey).toBe(bytesToHex(account.getHdKey().privateKey!))
      expect(chain.alloc?.get(address)?.balance).toBe(10_000n * 10n ** 18n)
    }
  })
  // These are the transactions with which their authors deployed the contracts, signed by nobody's
  // key; they fix address and code together.
  test.each([
    [
      '0x000f3df6d732807ef1319fb7b8bb8522d0beac02',
      '60618060095f395ff3',
      '0xe8d4a51000',
      '0x3d090',
      '0x539',
      '0x1b9b6eb1f0',
    ],
    [
      '0x0000f90827f1c53a10cb7a02335b175320002935',
      '60538060095f395ff3',
      '0xe8d4a51000',
      '0x3d090',
      '0x539',
      '0xaa12693182426612186309f02cfe8a80a0000',
    ],
    [
      '0x4e59b44847b379578588920ca78fbf26c0b4956c',
      '604580600e600039806000f350fe',
      '0x174876e800',
      '0x186a0',
      `0x${'22'.repeat(32)}`,
      `0x${'22'.repeat(32)}`,
    ],
  ] as const)('has the contract at %s', (address, prefix, gasPrice, gas, r, s) => {
    const { code, nonce } = chain.alloc!.get(address)!
    const input = `0x${prefix}${bytesToHex(code!).slice(2)}` as const
    const signed = serialize({ gasPrice, gas, input, r, s })
    expect(bytesToHex(createAddress(decodeTransaction(hexToBytes(signed)).from, 0n))).toBe(address)
    expect(nonce).toBe(1n)
    expect(SYSTEM_CONTRACTS.has(address)).toBe(true)
  })
  test('takes another id and further accounts', () => {
    const allocFile = file(
      'alloc.json',
      JSON.stringify({
        f39Fd6e51aad88F6F4ce6aB8827279cffFb92266: { balance: '5', nonce: '0x2' },
        '0x4200000000000000000000000000000000000016': {
          balance: '0x0',
          code: '0x00',
          storage: { '0x1': '0x02' },
        },
      }),
    )
    const other = chainSpec({ name: 'xlayer', dev: { ...dev, chainId: 1234, allocFile } })
    expect(other.chainId).toBe(1234n)
    expect(other.alloc?.get('0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266')).toEqual({
      balance: 5n,
      nonce: 2n,
    })
    expect(other.genesisHeader.withdrawalsRoot).not.toEqual(EMPTY_ROOT)
    expect(bytesToHex(other.rulesAt(0n, 1_800_000_000n).gaslessContract!)).toBe(
      '0xa9092bc02e2000a3f8996d1991621e9a03ef2dfe',
    )
  })
  test('can be made from a genesis file, if that is of an OP chain', () => {
    const config = { ...OP_CONFIG, chainId: 77 }
    const spec = chainSpec({ name: file('op.json', JSON.stringify({ config })), dev })
    expect(spec.chainId).toBe(77n)
    expect(spec.rulesAt(0n, 1_800_000_000n).fork).toBe('jovian')
    const l1 = file('l1.json', JSON.stringify({ config: { chainId: 1 } }))
    expect(() => chainSpec({ name: l1, dev })).toThrow(
      'is no OP-stack genesis: config.bedrockBlock expected',
    )
  })
  test.each([
    ['number', '0x3e8', '1000'],
    ['gasUsed', '0x5208', '21000'],
    ['excessBlobGas', '0x1', '1'],
    ['parentHash', `0x${'12'.repeat(32)}`, `0x${'12'.repeat(32)}`],
  ])('refuses a genesis file that starts later, by its %s', (key, value, valueText) => {
    const config = { ...OP_CONFIG, chainId: 77 }
    const name = file('later.json', JSON.stringify({ config, [key]: value }))
    expect(() => chainSpec({ name, dev })).toThrow(
      `${name}: genesis.${key} is ${valueText}, and a development chain begins at block 0 with nothing before it`,
    )
    const first = file('first.json', JSON.stringify({ config, [key]: `0x${'00'.repeat(32)}` }))
    if (key === 'parentHash') expect(chainSpec({ name: first, dev }).genesisNumber).toBe(0n)
  })
})

const L1_CONFIG = {
  homesteadBlock: 0,
  eip150Block: 0,
  eip158Block: 0,
  byzantiumBlock: 0,
  constantinopleBlock: 0,
  petersburgBlock: 0,
  istanbulBlock: 0,
  berlinBlock: 0,
  londonBlock: 0,
  terminalTotalDifficulty: 0,
  shanghaiTime: 0,
  cancunTime: 0,
}
const OP_CONFIG = {
  ...L1_CONFIG,
  chainId: 7,
  bedrockBlock: 0,
  regolithTime: 0,
  canyonTime: 0,
  ecotoneTime: 0,
  fjordTime: 0,
  optimism: { eip1559Elasticity: 6, eip1559Denominator: 50, eip1559DenominatorCanyon: 250 },
}

describe('a genesis file', () => {
  const faults: [name: string, json: unknown, message: string][] = [
    ['a value that is not an object', [], 'genesis: expected an object, got an array'],
    ['a missing config', {}, 'genesis.config: expected an object, got nothing'],
    [
      'a missing chain id',
      { config: {} },
      'genesis.config.chainId: expected a number, got nothing',
    ],
    [
      'a chain id that is a fraction',
      { config: { chainId: 1.5 } },
      'genesis.config.chainId: expected a number, got 1.5',
    ],
    [
      'a timestamp above 64 bits',
      { config: { chainId: 1 }, timestamp: '0x10000000000000000' },
      'genesis.timestamp: expected 0 to 2^64 - 1, got 18446744073709551616',
    ],
    [
      'an address that is too short',
      { config: { chainId: 1 }, alloc: { '0x12': {} } },
      'genesis.alloc: address 0x12: expected 0x and 20 bytes, got 1 bytes',
    ],
    [
      'the same address twice',
      { config: { chainId: 1 }, alloc: { ['aB'.repeat(20)]: {}, [`0x${'ab'.repeat(20)}`]: {} } },
      `genesis.alloc: 0x${'ab'.repeat(20)} stands there twice`,
    ],
    [
      'code with half a byte',
      { config: { chainId: 1 }, alloc: { ['ab'.repeat(20)]: { code: '0x1' } } },
      `genesis.alloc.${'ab'.repeat(20)}.code: expected 0x and whole bytes, got 0x1`,
    ],
    [
      'a fork whose predecessor is not set',
      { config: { ...L1_CONFIG, chainId: 1, osakaTime: 5 } },
      'genesis.config: osakaTime is set, pragueTime is not',
    ],
    [
      'a fork earlier than its predecessor',
      { config: { ...L1_CONFIG, chainId: 1, cancunTime: 5, pragueTime: 4 } },
      'genesis.config: pragueTime 4 is before cancunTime 5',
    ],
    [
      'an elasticity of 0',
      { config: { ...OP_CONFIG, optimism: { eip1559Elasticity: 0 } } },
      'genesis.config.optimism.eip1559Elasticity is 0, expected more',
    ],
    [
      'a merge at an unknown block',
      { config: { ...L1_CONFIG, chainId: 1, terminalTotalDifficulty: 9 } },
      "genesis.config: the first block's difficulty 0 does not reach the terminalTotalDifficulty 9; mergeNetsplitBlock expected",
    ],
  ]
  test.each(faults)('is refused for %s', (_name, json, message) => {
    expect(() => chainOfGenesis(json)).toThrow(new ChainError(message))
  })
  test('with any values at the known keys gives a chain or a ChainError', () => {
    const value = fc.oneof(
      fc.constantFrom(0, 1, '0x0', '0x1', '5', '0x', '', null, -1, `0x${'12'.repeat(32)}`),
      fc.jsonValue({ maxDepth: 2 }),
    )
    const some = (keys: readonly string[]) =>
      fc.record(Object.fromEntries(keys.map((key) => [key, value])), { requiredKeys: [] })
    const account = some(['balance', 'nonce', 'code', 'storage'])
    const files = fc.record({
      config: fc
        .tuple(
          fc.constantFrom({ ...L1_CONFIG, chainId: 1 }, OP_CONFIG),
          some(Object.keys(OP_CONFIG)),
        )
        .map(([good, odd]) => ({ ...good, ...odd })),
      alloc: fc.dictionary(fc.constantFrom('ab'.repeat(20), `0x${'cd'.repeat(20)}`, 'x'), account),
      fields: some(['number', 'timestamp', 'nonce', 'extraData', 'stateHash', 'baseFeePerGas']),
    })
    fc.assert(
      fc.property(files, ({ fields, ...rest }) => {
        const result = chainOrRefusal({ ...rest, ...fields })
        if (result instanceof ChainError) expect(result.message).toMatch(/^genesis/)
        else expect(hashHeader(result.genesisHeader)).toEqual(result.genesisHash)
      }),
      { numRuns: 300 },
    )
  })
  test('with broken JSON is named in the error', () => {
    const path = file('broken.json', '{')
    expect(() => chainSpec({ name: path })).toThrow(ChainError)
    expect(() => chainSpec({ name: path })).toThrow(path)
  })
  test('of op-geth may have an optimism section, and a state root for its accounts', () => {
    const stateHash = `0x${'12'.repeat(32)}`
    const chain = chainOfGenesis({ config: OP_CONFIG, stateHash, gasLimit: '0x1c9c380' })
    expect(bytesToHex(chain.genesisHeader.stateRoot)).toBe(stateHash)
    expect(chain.alloc).toBeUndefined()
    expect(chain.rulesAt(0n, 0n)).toMatchObject({ fork: 'fjord', spec: 'cancun' })
    expect(chain.eip1559).toEqual({ denominator: 250n, elasticity: 6n })
  })

  const paths = ['chain-facts/ethtest-chain', 'rpc-compat/tests']
  test.skipIf(paths.some(isAbsent)).each(paths)(
    'of %s has the parent hash of block 1',
    async (path) => {
      const { decodeBlocks } = await import('../../../engine/primitives/block-codec.ts')
      const chain = chainSpec({ name: conformance(`${path}/genesis.json`) })
      const [first] = decodeBlocks(readFileSync(conformance(`${path}/chain.rlp`)))
      expect(bytesToHex(chain.genesisHash)).toBe(bytesToHex(first!.header.parentHash))
    },
  )
  test.skipIf(isAbsent('rpc-compat/tests')).each([
    [2n, 20n, 'homestead', 5n, undefined],
    [3n, 30n, 'tangerineWhistle', 5n, undefined],
    [12n, 120n, 'constantinople', 2n, undefined],
    [35n, 350n, 'grayGlacier', 2n, undefined],
    [36n, 360n, 'paris', 0n, undefined],
    [42n, 420n, 'cancun', 0n, 6n],
    [48n, 480n, 'osaka', 0n, 9n],
    [54n, 540n, 'bpo2', 0n, 21n],
  ])('has all L1 forks: block %s at time %s', (number, time, spec, reward, maxBlobs) => {
    const chain = chainSpec({ name: conformance('rpc-compat/tests/genesis.json') })
    const rules = chain.rulesAt(number, time)
    expect(rules.spec).toBe(spec)
    expect(rules.isOptimism).toBe(false)
    expect(rules.blockReward).toBe(reward * 10n ** 18n)
    expect(rules.blobs?.max).toBe(maxBlobs)
  })
})

describe('extraData', () => {
  const uint32 = fc.bigInt({ min: 1n, max: (1n << 32n) - 1n })
  const uint64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n })
  test('decodes to what was encoded', () => {
    fc.assert(
      fc.property(uint32, uint32, uint64, (denominator, elasticity, minBaseFee) => {
        const jovian = { denominator, elasticity, minBaseFee }
        expect(decodeExtraData(encodeExtraData(jovian, 1), 1)).toEqual(jovian)
        const holocene = { ...jovian, minBaseFee: 0n }
        expect(decodeExtraData(encodeExtraData(jovian, 0), 0)).toEqual(holocene)
        expect(encodeExtraData(jovian, undefined).length).toBe(0)
      }),
    )
  })
  test.each([
    ['0x', 0, 'extraData of 0 bytes, expected 9'],
    ['0x00000000fa00000006', 1, 'extraData of 9 bytes, expected 17'],
    ['0x01000000fa00000006', 0, 'extraData of version 1, expected 0'],
    ['0x00000000fa000000060000000000000000', 1, 'extraData of version 0, expected 1'],
    ['0x000000000000000006', 0, 'extraData with a base fee denominator of 0'],
    ['0x00000000fa00000000', 0, 'extraData with an elasticity of 0'],
  ] as const)('%s is refused for version %i', (hex, version, message) => {
    expect(() => decodeExtraData(hexToBytes(hex), version)).toThrow(new ExtraDataError(message))
  })
})

describe('the base fee', () => {
  const xlayer = chainSpec({ name: 'xlayer' })
  const xlayerTestnet = chainSpec({ name: 'xlayer-testnet' })
  const child = (chain: ChainSpec, changes: Partial<Header>) => {
    const header = { ...chain.genesisHeader, ...changes }
    return nextBaseFee(chain, header, header.timestamp + 1n)
  }
  const jovian = (minBaseFee: bigint) => ({
    timestamp: 1_800_000_000n,
    extraData: encodeExtraData({ denominator: 250n, elasticity: 2n, minBaseFee }, 1),
    gasLimit: 40_000_000n,
  })
  test.each([
    ['the first block after the genesis of X Layer', child(xlayer, {}), 99_999_999n],
    [
      'the first block after the genesis of its test network',
      child(xlayerTestnet, {}),
      99_600_000n,
    ],
    [
      'an unchanged fee with denominator 10^8',
      child(xlayer, { extraData: hexToBytes('0x0005f5e10000000001'), baseFeePerGas: 99_999_999n }),
      99_999_999n,
    ],
    [
      'a block that uses exactly the gas target',
      child(xlayer, { ...jovian(0n), gasUsed: 20_000_000n, baseFeePerGas: 1000n }),
      1000n,
    ],
    [
      'a full block',
      child(xlayer, { ...jovian(0n), gasUsed: 40_000_000n, baseFeePerGas: 1000n }),
      1004n,
    ],
    [
      'an increase of at least one wei',
      child(xlayer, { ...jovian(0n), gasUsed: 20_000_001n, baseFeePerGas: 5n }),
      6n,
    ],
    ['an empty block', child(xlayer, { ...jovian(0n), baseFeePerGas: 1000n }), 996n],
    [
      'a DA footprint larger than the used gas',
      child(xlayer, { ...jovian(0n), blobGasUsed: 40_000_000n, baseFeePerGas: 1000n }),
      1004n,
    ],
    [
      'a fee that stops at the minimum',
      child(xlayer, { ...jovian(998n), baseFeePerGas: 1000n }),
      998n,
    ],
    [
      'a fee raised to the minimum',
      child(xlayer, { ...jovian(5000n), gasUsed: 20_000_000n, baseFeePerGas: 1000n }),
      5000n,
    ],
  ])('is right: %s', (_name, fee, expected) => {
    expect(fee).toBe(expected)
  })
  test('ignores the DA footprint before Jovian', () => {
    expect(child(xlayer, { blobGasUsed: 50_000_000n })).toBe(child(xlayer, {}))
  })
  test('is 1 gwei in the first block that has one', () => {
    const chain = chainOfGenesis({
      config: {
        ...L1_CONFIG,
        chainId: 1,
        londonBlock: 1,
        terminalTotalDifficulty: undefined,
        shanghaiTime: undefined,
        cancunTime: undefined,
      },
    })
    expect(chain.genesisHeader.baseFeePerGas).toBeUndefined()
    expect(nextBaseFee(chain, chain.genesisHeader, 1n)).toBe(1_000_000_000n)
  })
  test('is refused for a parent with wrong extraData', () => {
    expect(() => child(xlayer, { timestamp: 1_800_000_000n })).toThrow(ExtraDataError)
  })
  test('moves towards the target, by at most one part of the denominator', () => {
    const uint = (max: bigint) => fc.bigInt({ min: 0n, max })
    fc.assert(
      fc.property(
        uint(10n ** 12n),
        uint(40_000_000n),
        uint(40_000_000n),
        (fee, gasUsed, blobGasUsed) => {
          const next = child(xlayer, { ...jovian(0n), baseFeePerGas: fee, gasUsed, blobGasUsed })
          const metered = gasUsed > blobGasUsed ? gasUsed : blobGasUsed
          const step = fee / 250n + 1n
          expect(next >= fee - step && next <= fee + step).toBe(true)
          if (metered > 20_000_000n) expect(next > fee).toBe(true)
          else expect(next <= fee).toBe(true)
        },
      ),
    )
  })
})

/** Serializes a legacy transaction that creates a contract, before EIP-155. */
function serialize(fields: Record<'gasPrice' | 'gas' | 'input' | 'r' | 's', string>): string {
  const { gasPrice, gas, input, r, s } = fields
  const item = (hex: string) => {
    const digits = hex.slice(2)
    return hexToBytes(`0x${digits.length % 2 === 1 ? '0' : ''}${digits}`)
  }
  return bytesToHex(
    encodeRlp([
      new Uint8Array(0),
      item(gasPrice),
      item(gas),
      new Uint8Array(0),
      new Uint8Array(0),
      item(input),
      Uint8Array.of(27),
      item(r),
      item(s),
    ]),
  )
}

function chainOrRefusal(json: unknown): ChainSpec | ChainError {
  try {
    return chainOfGenesis(json)
  } catch (error) {
    if (error instanceof ChainError) return error
    throw error
  }
}
