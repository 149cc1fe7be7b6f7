/** eth_config gives the fork ids of reth and geth, and the forks of OP chains around Karst. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { forkHash } from '../../../engine/chainspec/fork-id.ts'
import { chainOfGenesis, chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { forkConfigs } from '../../../rpc/methods/shared/fork-config.ts'
import { testRpc } from '../../fixtures/rpc.ts'

const VECTORS = join(process.env['CONFORMANCE_DIR'] ?? '../shared/conformance', 'rpc-compat/tests')
const opMainnet = chainSpec({ name: 'op-mainnet' })
const opSepolia = chainSpec({ name: 'op-sepolia' })
const engine = engineByName('fast')
const configsAt = (chain: ChainSpec, timestamp: bigint) => {
  const configs = forkConfigs(chain, engine, { number: 200_000_000n, timestamp })
  if (configs === undefined) throw new Error('none')
  return configs
}

describe('the fork id', () => {
  // The values come from reth: crates/optimism/chainspec, op_mainnet_forkids and
  // op_sepolia_forkids.
  test.each([
    [opMainnet, 1_686_068_903n, '0xe3398d7c'],
    [opMainnet, 1_704_992_401n, '0xbdd4fdb2'],
    [opMainnet, 1_710_374_401n, '0x19da4c52'],
    [opMainnet, 1_720_627_201n, '0x49fbfe1e'],
    [opMainnet, 1_726_070_401n, '0x44704cde'],
    [opMainnet, 1_736_445_601n, '0x2bd93dc8'],
    [opMainnet, 1_746_806_401n, '0x37be758f'],
    [opSepolia, 1_699_981_199n, '0x67a40328'],
    [opSepolia, 1_699_981_200n, '0xa48d6a00'],
    [opSepolia, 1_708_534_800n, '0xcc17c7eb'],
    [opSepolia, 1_716_998_400n, '0x540a8c5d'],
    [opSepolia, 1_723_478_400n, '0x75dea41e'],
    [opSepolia, 1_732_633_200n, '0x4a1c792e'],
    [opSepolia, 1_744_905_600n, '0x6c625ee1'],
  ])('of $name at %i is %s', (chain, timestamp, expected) => {
    expect(bytesToHex(forkHash(chain, timestamp))).toBe(expected)
  })
})

describe.skipIf(!existsSync(VECTORS))('the test vector of execution-apis', () => {
  test('equals the result of eth_config', () => {
    const [, , line] = readFileSync(join(VECTORS, 'eth_config/get-config.io'), 'utf8').split('\n')
    const { result } = JSON.parse(line!.replace(/^<< /, '')) as { readonly result: object }
    const chain = chainOfGenesis(JSON.parse(readFileSync(join(VECTORS, 'genesis.json'), 'utf8')))
    expect(forkConfigs(chain, engine, { number: 100n, timestamp: 1_000n })).toEqual(result)
  })
})

describe('eth_config of an OP chain', () => {
  test('has the fork of the latest block, the next fork and the last one', () => {
    const before = configsAt(opMainnet, 1_783_526_400n)
    expect(before).toMatchObject({
      current: { activationTime: 1_764_691_201, chainId: '0xa' },
      next: { activationTime: 1_783_526_401 },
      last: { activationTime: 1_799_683_201 },
    })
    expect(before.next?.forkId).not.toBe(before.current?.forkId)
    const after = configsAt(opMainnet, 1_783_526_401n)
    expect(after).toEqual({ current: before.next, next: before.last, last: before.last })
    const never = chainSpec({ name: 'op-mainnet', forkTimes: { lagoon: 'off' } })
    const newest = { current: before.next, next: null, last: null }
    expect(configsAt(never, 1_783_526_401n)).toEqual(newest)
  })
  test('has the blob schedule of Cancun, no deposit contract, and P256VERIFY', () => {
    const { current } = configsAt(opSepolia, 1_781_712_001n)
    expect(current?.blobSchedule).toEqual({ target: 3, max: 6, baseFeeUpdateFraction: 3_338_477 })
    expect(Object.keys(current!.systemContracts)).toEqual([
      'BEACON_ROOTS_ADDRESS',
      'CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS',
      'HISTORY_STORAGE_ADDRESS',
      'WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS',
    ])
    const { precompiles } = configsAt(opSepolia, 1_763_568_001n).current!
    expect(precompiles['P256VERIFY']).toBe(`0x${'100'.padStart(40, '0')}`)
    expect(Object.keys(precompiles)).toHaveLength(18)
    expect(Object.keys(precompiles)).toEqual(Object.keys(precompiles).toSorted())
  })
  test('has a name for each precompile of each fork', () => {
    for (const chain of [opMainnet, opSepolia])
      for (const time of [1_710_374_401n, 1_720_627_201n, 1_746_806_401n, 1_783_526_401n]) {
        const { current } = configsAt(chain, time)
        const count = engine.precompiles(chain.rulesAt(200_000_000n, time).evm).length
        expect(Object.keys(current!.precompiles).filter((name) => name !== '')).toHaveLength(count)
      }
  })
  test('has no result before Cancun', () => {
    expect(forkConfigs(opMainnet, engine, opMainnet.genesisHeader)).toBe(undefined)
  })
})

test('eth_config is served on both endpoints', async () => {
  const rpc = testRpc()
  for (const endpoint of ['standard', 'flashblocks'] as const)
    expect(await rpc.request('eth_config', [], { endpoint })).toMatchObject({
      result: { current: { activationTime: 0, chainId: '0xc4' }, next: null, last: null },
    })
})
