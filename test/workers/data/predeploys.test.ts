/** viem uses the predeployed contracts of a development chain like an application. */

import { verifyMerkleProof } from '@ethereumjs/mpt'
import fc from 'fast-check'
import {
  concatHex,
  decodeFunctionResult,
  encodeAbiParameters,
  encodeFunctionData,
  getAddress,
  getContractAddress,
  type Hex,
  hexToBigInt,
  keccak256,
  numberToHex,
  pad,
  parseAbi,
  serializeTransaction,
  zeroAddress,
  zeroHash,
} from 'viem'
import { getWithdrawals } from 'viem/op-stack'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fastlzLength } from '../../../engine/chainspec/fastlz.ts'
import { decodeL1Attributes } from '../../../engine/chainspec/l1-attributes.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { accountOf, opClient, PREDEPLOY } from '../../fixtures/op-client.ts'
import { call, type RunningNode, startNode } from '../../kit/node.ts'

let node: RunningNode
let client: ReturnType<typeof opClient>
beforeAll(async () => {
  node = await startNode(['--ephemeral', '--rate-limit', 'off'])
  client = opClient(node.url)
})
afterAll(async () => {
  expect(await node.stop()).toBe(0)
})

test('each predeploy has code, and the header has the root of the message passer', async () => {
  for (const address of Object.values(PREDEPLOY))
    expect((await client.getCode({ address }))?.length, address).toBeGreaterThan(20)
  const genesis = (await call(node.url, 'eth_getBlockByNumber', ['0x0', false])) as Record<
    string,
    Hex
  >
  const { storageHash } = await client.getProof({
    address: PREDEPLOY.messagePasser,
    storageKeys: [],
    blockNumber: 0n,
  })
  expect(genesis['withdrawalsRoot']).toBe(storageHash)
  // The storage has only the two slots of the proxy, like in X Layer's own first header.
  expect(storageHash).toBe(bytesToHex(chainSpec({ name: 'xlayer' }).genesisHeader.withdrawalsRoot!))
  const options = { name: 'xlayer', dev: { genesisTimestamp: Number(genesis['timestamp']) } }
  const bare = chainSpec(options)
  expect(genesis['extraData']).toBe(
    `0x${Buffer.from(bare.genesisHeader.extraData).toString('hex')}`,
  )
})

describe('the proxies', () => {
  const IMPLEMENTATION = '0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc'
  const ADMIN = '0xb53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103'
  const proxyAbi = parseAbi([
    'function implementation() view returns (address)',
    'function admin() view returns (address)',
    'function upgradeTo(address)',
  ])
  const adminAbi = parseAbi([
    'function owner() view returns (address)',
    'function getProxyImplementation(address) view returns (address)',
    'function getProxyAdmin(address) view returns (address)',
    'function upgrade(address, address)',
    'function upgradeAndCall(address, address, bytes) payable',
  ])
  const admin = { address: PREDEPLOY.proxyAdmin, abi: adminAbi } as const
  const implementationOf = (address: Hex): Hex =>
    `0x${'c0d3'.repeat(9)}${address.slice(-4).toLowerCase()}`
  const proxied = Object.entries(PREDEPLOY).filter(
    ([name, address]) => address.startsWith('0x4200') && name !== 'weth',
  )

  test.each(proxied)(
    'have implementation and admin like on OP chains: %s',
    async (_name, address) => {
      const implementation = implementationOf(address)
      const slot = (name: Hex) => client.getStorageAt({ address, slot: name })
      expect(await slot(IMPLEMENTATION)).toBe(pad(implementation))
      expect(await slot(ADMIN)).toBe(pad(PREDEPLOY.proxyAdmin))
      expect((await client.getCode({ address: implementation }))!.length).toBeGreaterThan(200)
      // A caller without an address sees the proxy, like on every OP chain.
      const requested = { address, abi: proxyAbi } as const
      const read = { ...requested, functionName: 'implementation' } as const
      expect(await client.readContract({ ...read, account: zeroAddress })).toBe(
        getAddress(implementation),
      )
      expect(
        await client.readContract({ ...requested, functionName: 'admin', account: zeroAddress }),
      ).toBe(PREDEPLOY.proxyAdmin)
      await expect(
        client.readContract({ ...read, account: accountOf(1).address }),
      ).rejects.toThrow()
      expect(
        await client.readContract({
          ...admin,
          functionName: 'getProxyImplementation',
          args: [address],
        }),
      ).toBe(getAddress(implementation))
      expect(
        await client.readContract({ ...admin, functionName: 'getProxyAdmin', args: [address] }),
      ).toBe(PREDEPLOY.proxyAdmin)
    },
  )

  test('can be upgraded by the owner, and by nobody else', async () => {
    const vault = PREDEPLOY.operatorFeeVault
    const abi = parseAbi(['function totalProcessed() view returns (uint256)'])
    const upgrade = { ...admin, functionName: 'upgrade', args: [vault, PREDEPLOY.weth] } as const
    expect(await client.readContract({ ...admin, functionName: 'owner' })).toBe(
      accountOf(0).address,
    )
    await expect(opClient(node.url, 1).writeContract(upgrade)).rejects.toThrow(
      'Ownable: caller is not the owner',
    )
    await expect(
      client.writeContract({
        address: vault,
        abi: proxyAbi,
        functionName: 'upgradeTo',
        args: [PREDEPLOY.weth],
      }),
    ).rejects.toThrow('reverted')
    const mined = async (hash: Hex) =>
      expect((await client.waitForTransactionReceipt({ hash })).status).toBe('success')
    await mined(await client.writeContract(upgrade))
    const symbol = { address: vault, abi: parseAbi(['function symbol() view returns (string)']) }
    expect(
      await client.readContract({ ...symbol, functionName: 'symbol', blockTag: 'pending' }),
    ).toBe('WETH')
    const call = encodeFunctionData({ abi, functionName: 'totalProcessed' })
    await mined(
      await client.writeContract({
        ...admin,
        functionName: 'upgradeAndCall',
        args: [vault, implementationOf(vault), call],
      }),
    )
    expect(
      await client.readContract({
        address: vault,
        abi,
        functionName: 'totalProcessed',
        blockTag: 'pending',
      }),
    ).toBe(0n)
  })
})

const l1BlockAbi = parseAbi([
  'function number() view returns (uint64)',
  'function timestamp() view returns (uint64)',
  'function basefee() view returns (uint256)',
  'function hash() view returns (bytes32)',
  'function sequenceNumber() view returns (uint64)',
  'function batcherHash() view returns (bytes32)',
  'function blobBaseFee() view returns (uint256)',
  'function baseFeeScalar() view returns (uint32)',
  'function blobBaseFeeScalar() view returns (uint32)',
  'function operatorFeeScalar() view returns (uint32)',
  'function operatorFeeConstant() view returns (uint64)',
  'function daFootprintGasScalar() view returns (uint16)',
])

test('L1Block reports the first transaction of its block, also in a multicall', async () => {
  const block = await client.getBlock({ blockTag: 'latest', includeTransactions: true })
  const reported = decodeL1Attributes(hexToBytes(block.transactions[0]!.input))!.attributes
  const names = l1BlockAbi.map(({ name }) => name)
  const values = await client.multicall({
    allowFailure: false,
    blockNumber: block.number,
    contracts: names.map((functionName) => ({
      address: PREDEPLOY.l1Block,
      abi: l1BlockAbi,
      functionName,
    })),
  })
  const found = Object.fromEntries(names.map((name, index) => [name, values[index]]))
  const hex = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`
  expect(found).toEqual({
    number: reported.number,
    timestamp: reported.timestamp,
    basefee: reported.baseFee,
    hash: hex(reported.hash),
    sequenceNumber: reported.sequenceNumber,
    batcherHash: hex(reported.batcherHash),
    blobBaseFee: reported.blobBaseFee,
    baseFeeScalar: Number(reported.baseFeeScalar),
    blobBaseFeeScalar: Number(reported.blobBaseFeeScalar),
    operatorFeeScalar: Number(reported.operatorFeeScalar),
    operatorFeeConstant: reported.operatorFeeConstant,
    daFootprintGasScalar: Number(reported.daFootprintGasScalar),
  })
})

test('L1Block can be written by the depositor only', async () => {
  const abi = parseAbi(['function setL1BlockValuesJovian()', 'error NotDepositor()'])
  const setting = {
    address: PREDEPLOY.l1Block,
    abi,
    functionName: 'setL1BlockValuesJovian',
  } as const
  await expect(client.simulateContract(setting)).rejects.toThrow('NotDepositor()')
})

describe('the GasPriceOracle', () => {
  const abi = parseAbi([
    'function getL1Fee(bytes) view returns (uint256)',
    'function getL1GasUsed(bytes) view returns (uint256)',
    'function getL1FeeUpperBound(uint256) view returns (uint256)',
    'function getOperatorFee(uint256) view returns (uint256)',
    'function overhead() view returns (uint256)',
  ])
  /** Makes a word of storage from fields that end `from` bytes before its end. */
  const word = (...fields: (readonly [value: bigint, from: number])[]) =>
    numberToHex(
      fields.reduce((sum, [value, from]) => sum | (value << BigInt(8 * from)), 0n),
      { size: 32 },
    )
  const FEES = {
    base: 31_234_567_891n,
    blob: 7_654_321n,
    baseScalar: 5_227n,
    blobScalar: 1_014_213n,
  }
  const OPERATOR = { scalar: 1_367n, constant: 987_654_321n }
  const stateOverride = [
    {
      address: PREDEPLOY.l1Block,
      stateDiff: [
        { slot: word([1n, 0]), value: word([FEES.base, 0]) },
        { slot: word([3n, 0]), value: word([FEES.baseScalar, 12], [FEES.blobScalar, 8], [3n, 0]) },
        { slot: word([7n, 0]), value: word([FEES.blob, 0]) },
        {
          slot: word([8n, 0]),
          value: word([400n, 12], [OPERATOR.scalar, 8], [OPERATOR.constant, 0]),
        },
      ],
    },
  ]
  async function request(functionName: (typeof abi)[number]['name'], argument: Hex | bigint) {
    const { data } = await client.call({
      to: PREDEPLOY.gasPriceOracle,
      data: encodeFunctionData({ abi, functionName, args: [argument] } as Parameters<
        typeof encodeFunctionData<typeof abi>
      >[0]),
      stateOverride,
      gas: 50_000_000n,
    })
    return decodeFunctionResult({ abi, functionName, data: data! })
  }
  const perByte = FEES.baseScalar * 16n * FEES.base + FEES.blobScalar * FEES.blob
  function expected(data: Hex) {
    // The signature that the unsigned transaction lacks counts 68 bytes.
    const length = BigInt(fastlzLength(hexToBytes(data)) + 68)
    const estimate = 836_500n * length - 42_585_600n
    const size = estimate < 100_000_000n ? 100_000_000n : estimate
    return { fee: (size * perByte) / 10n ** 12n, gas: (size * 16n) / 1_000_000n }
  }
  const hex = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`
  async function check(data: Hex): Promise<void> {
    expect({
      fee: await request('getL1Fee', data),
      gas: await request('getL1GasUsed', data),
    }).toEqual(expected(data))
  }

  const transfer = serializeTransaction({
    chainId: 196,
    to: PREDEPLOY.weth,
    value: 1n,
    nonce: 7,
    gas: 21_000n,
    maxFeePerGas: 10n ** 9n,
  })
  test.each<[name: string, data: Hex]>([
    ['nothing', '0x'],
    ['a byte', '0x00'],
    ['a transfer', transfer],
    ['twelve bytes, too few to compress', `0x${'ab'.repeat(12)}`],
    ['thirteen bytes', `0x${'ab'.repeat(13)}`],
    ['sixteen bytes', `0x${'ab'.repeat(16)}`],
    ['a run longer than one copy', `0x${'00'.repeat(1_000)}`],
    ['a repeated text', `0x${'0123456789abcdef'.repeat(100)}`],
    ['contract code', `0x${'6080604052'.repeat(33)}${'5b5f5ffd'.repeat(50)}`],
  ])('computes the L1 fee that the chain charges: %s', async (_, data) => check(data))

  test('computes the L1 fee that the chain charges, for any bytes', async () => {
    const noise = fc.uint8Array({ maxLength: 300 })
    const repetitive = fc.array(fc.constantFrom(0, 1, 2, 255), { maxLength: 600 })
    const data = fc.oneof(
      noise,
      repetitive.map((bytes) => Uint8Array.from(bytes)),
    )
    await fc.assert(
      fc.asyncProperty(data, (bytes) => check(hex(bytes))),
      { numRuns: 25 },
    )
  })

  test('has an upper bound and the Jovian operator fee, but no deprecated values', async () => {
    const incompressible = hex(
      Uint8Array.from({ length: 500 }, (_, at) => (at * at * 31 + at * 7) & 255),
    )
    expect(await request('getL1FeeUpperBound', 500n)).toBeGreaterThanOrEqual(
      expected(incompressible).fee,
    )
    expect(await request('getOperatorFee', 21_000n)).toBe(
      21_000n * OPERATOR.scalar * 100n + OPERATOR.constant,
    )
    await expect(
      client.readContract({ address: PREDEPLOY.gasPriceOracle, abi, functionName: 'overhead' }),
    ).rejects.toThrow('GasPriceOracle: overhead() is deprecated')
  })
})

test('a withdrawal is initiated and proven by the storage of the message passer', async () => {
  const { address } = accountOf(0)
  const hash = await client.initiateWithdrawal({
    request: { gas: 21_000n, to: address, value: 5n, data: '0xc0ffee' },
  })
  const receipt = await client.waitForTransactionReceipt({ hash })
  expect(receipt.status).toBe('success')
  const [withdrawal] = getWithdrawals(receipt)
  expect(withdrawal).toMatchObject({
    sender: address,
    target: address,
    value: 5n,
    data: '0xc0ffee',
  })
  expect(withdrawal!.nonce >> 240n).toBe(1n)

  const slot = keccak256(
    encodeAbiParameters(
      [{ type: 'bytes32' }, { type: 'uint256' }],
      [withdrawal!.withdrawalHash, 0n],
    ),
  )
  await expect
    .poll(() => client.getBlockNumber({ cacheTime: 0 }))
    .toBeGreaterThan(receipt.blockNumber)
  const block = (await call(node.url, 'eth_getBlockByNumber', [
    numberToHex(receipt.blockNumber),
    false,
  ])) as { withdrawalsRoot: Hex; stateRoot: Hex }
  const proof = await client.getProof({
    address: PREDEPLOY.messagePasser,
    storageKeys: [slot],
    blockNumber: receipt.blockNumber,
  })
  expect(proof.storageHash).toBe(block.withdrawalsRoot)
  const [entry] = proof.storageProof
  expect(entry!.value).toBe(1n)
  const nodes = entry!.proof.map((item) => hexToBytes(item))
  expect(keccak256(nodes[0]!)).toBe(block.withdrawalsRoot)
  expect(await verifyMerkleProof(hexToBytes(keccak256(slot)), nodes)).toEqual(Uint8Array.of(1))
})

test('WETH can be wrapped, transferred by allowance and unwrapped', async () => {
  const abi = parseAbi([
    'function deposit() payable',
    'function withdraw(uint256)',
    'function approve(address, uint256) returns (bool)',
    'function transferFrom(address, address, uint256) returns (bool)',
    'function balanceOf(address) view returns (uint256)',
    'function allowance(address, address) view returns (uint256)',
    'function totalSupply() view returns (uint256)',
    'function symbol() view returns (string)',
  ])
  const token = { address: PREDEPLOY.weth, abi } as const
  const other = opClient(node.url, 1)
  const [owner, spender] = [accountOf(0).address, accountOf(1).address]
  const mined = async (hash: Hex, from = client) => {
    const { status } = await from.waitForTransactionReceipt({ hash })
    expect(status).toBe('success')
  }
  await mined(await client.sendTransaction({ to: PREDEPLOY.weth, value: 100n }))
  await mined(await client.writeContract({ ...token, functionName: 'deposit', value: 20n }))
  await mined(
    await client.writeContract({ ...token, functionName: 'approve', args: [spender, 50n] }),
  )
  await mined(
    await other.writeContract({
      ...token,
      functionName: 'transferFrom',
      args: [owner, spender, 30n],
    }),
    other,
  )
  await mined(await other.writeContract({ ...token, functionName: 'withdraw', args: [10n] }), other)
  const read = <const N extends 'totalSupply' | 'symbol'>(functionName: N) =>
    client.readContract({ ...token, functionName, blockTag: 'pending' })
  const balance = (account: Hex) =>
    client.readContract({
      ...token,
      functionName: 'balanceOf',
      args: [account],
      blockTag: 'pending',
    })
  expect([await balance(owner), await balance(spender), await read('totalSupply')]).toEqual([
    90n,
    20n,
    110n,
  ])
  expect(await read('symbol')).toBe('WETH')
  await expect(
    other.writeContract({ ...token, functionName: 'transferFrom', args: [owner, spender, 21n] }),
  ).rejects.toThrow('reverted')
})

test('the CREATE2 factory deploys at the computed address', async () => {
  // The init code returns one byte of code: STOP.
  const bytecode = '0x60016000f3' as const
  const hash = await client.sendTransaction({
    to: PREDEPLOY.create2,
    data: concatHex([zeroHash, bytecode]),
  })
  expect((await client.waitForTransactionReceipt({ hash })).status).toBe('success')
  const address = getContractAddress({
    opcode: 'CREATE2',
    from: PREDEPLOY.create2,
    salt: zeroHash,
    bytecode,
  })
  expect(await client.getCode({ address, blockTag: 'pending' })).toBe('0x00')
})

test('a fee vault pays out to the last of the funded accounts', async () => {
  const abi = parseAbi([
    'function withdraw() returns (uint256)',
    'function totalProcessed() view returns (uint256)',
    'function recipient() view returns (address)',
    'event Withdrawal(uint256 value, address to, address from)',
  ])
  const vault = { address: PREDEPLOY.baseFeeVault, abi } as const
  const recipient = await client.readContract({ ...vault, functionName: 'recipient' })
  const vaultBalance = await client.getBalance({ address: vault.address, blockTag: 'pending' })
  expect(vaultBalance).toBeGreaterThan(0n)
  const before = await client.getBalance({ address: recipient, blockTag: 'pending' })
  const hash = await client.writeContract({ ...vault, functionName: 'withdraw' })
  const receipt = await client.waitForTransactionReceipt({ hash })
  const [total, after] = await Promise.all([
    client.readContract({ ...vault, functionName: 'totalProcessed', blockTag: 'pending' }),
    client.getBalance({ address: recipient, blockTag: 'pending' }),
  ])
  expect(receipt.logs).toHaveLength(2)
  expect(total).toBeGreaterThanOrEqual(vaultBalance)
  expect(after - before).toBe(total)
  // The payment of this transaction itself came afterwards.
  expect(
    hexToBigInt(
      (await call(`${node.url}/flashblocks`, 'eth_getBalance', [vault.address, 'pending'])) as Hex,
    ),
  ).toBe(receipt.gasUsed * 100_000_000n)
})
