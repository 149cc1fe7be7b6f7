/** A development chain's directory has the genesis.json that followers use. */
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { openDirectory } from '../../../engine/storage/directory/schema.ts'
import { devChain } from '../../../workers/commands/dev/role.ts'
import { openChain, provideGenesis } from '../../../workers/data/own-chain.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'

describe('a directory that was created with other flags', () => {
  const flags = {
    chain: 'xlayer',
    chainId: undefined,
    genesisAlloc: undefined,
    gasLimit: undefined,
  }
  type Flags = Partial<Parameters<typeof devChain>[0]>
  const choiceOf = (more: Flags) => devChain({ ...flags, blockTimeMs: 1_000, ...more })
  /** Gives the refusal of a start with other flags than those with which the directory was made. */
  async function refusal(made: Flags, requested: Flags): Promise<string> {
    const path = temporaryDirectory()
    const open = async (more: Flags) => {
      const choice = choiceOf(more)
      const { option, chain } = openChain(choice, { path, nowSeconds: 1_700_000_000 }, () => {})
      const { advice } = choice
      const database = await openDirectory({ path, chain, chainName: option.name, advice })
      await database.close()
    }
    await open(made)
    return open(requested).then(
      () => 'opened',
      (error: Error) => error.message,
    )
  }
  const another = 'give --datadir another directory'
  test.each<[made: Flags, requested: Flags, end: string]>([
    [{}, { chainId: 31_337 }, `: leave out --chain-id, or ${another}`],
    [
      {},
      { chainId: 31_337, gasLimit: 9_000_000 },
      `: leave out --chain-id and --gas-limit, or ${another}`,
    ],
    [{}, { chain: 'xlayer-testnet' }, `: give --chain xlayer, or ${another}`],
    [{ chainId: 901 }, { chainId: 902 }, `: leave out --chain-id, or ${another}`],
  ])('is refused, with the flags to change: %j, then %j', async (made, requested, end) => {
    const message = await refusal(made, requested)
    expect(message.slice(message.lastIndexOf(': '))).toBe(end)
  })
  test('opens without the chain id that it was created with', async () => {
    expect(await refusal({ chainId: 901 }, {})).toBe('opened')
  })
  test('is refused when the genesis allocation was given only once', async () => {
    const file = join(temporaryDirectory(), 'alloc.json')
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, JSON.stringify({ [`0x${'12'.repeat(20)}`]: { balance: '0x1' } }))
    expect(await refusal({}, { genesisAlloc: file })).toContain(
      `: leave out --genesis-alloc, or ${another}`,
    )
    expect(await refusal({ genesisAlloc: file }, {})).toContain(
      `: give the --genesis-alloc FILE with which the directory was created, or ${another}`,
    )
  })
})

test('the genesis.json of a directory gives the same chain, and is written once', () => {
  const path = temporaryDirectory()
  const config = { chain: 'xlayer', chainId: 901, genesisAlloc: undefined, gasLimit: undefined }
  const choice = devChain({ ...config, blockTimeMs: 2_000 })
  const own = openChain(choice, { path, nowSeconds: 1_700_000_000 }, () => {})
  provideGenesis(path, own.chain)
  const file = join(path, 'genesis.json')
  const followed = chainSpec({ name: file })
  expect(bytesToHex(followed.genesisHash)).toBe(bytesToHex(own.chain.genesisHash))
  expect(followed.chainId).toBe(901n)
  expect(followed.blockTime).toBe(2)
  expect(followed.rulesAt(1n, 1_700_000_001n)).toEqual({
    ...own.chain.rulesAt(1n, 1_700_000_001n),
    hasEdits: false,
  })
  // The allocation includes the contracts.
  expect(followed.alloc?.size).toBeGreaterThan(20)

  const { ino } = statSync(file)
  provideGenesis(path, own.chain)
  expect(statSync(file).ino).toBe(ino)
})
