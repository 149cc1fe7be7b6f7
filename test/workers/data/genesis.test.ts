/** A development chain's directory has the genesis.json that others follow it with. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { devChain } from '../../../workers/commands/dev/role.ts'
import { openChain, provideGenesis } from '../../../workers/data/own-chain.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'

test('makes the same chain, and is written once', () => {
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
  // The contracts are in it.
  expect(followed.alloc?.size).toBeGreaterThan(20)

  const { ino } = statSync(file)
  provideGenesis(path, own.chain)
  expect(statSync(file).ino).toBe(ino)
})
