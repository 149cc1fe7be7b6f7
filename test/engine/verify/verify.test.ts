/**
 * Chains of every fork are imported and verified under their rules; a run can leave out some
 * checks.
 */
import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { decodeBlocks } from '../../../engine/primitives/block-codec.ts'
import { openImport } from '../../../engine/sources/import.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { createMemoryDatabase } from '../../../engine/storage/database/memory.ts'
import { type VerifyOptions, verify } from '../../../engine/verify/verify.ts'
import { conformance, isAbsent } from '../../fixtures/blocks.ts'
import { mulberry32 } from '../../kit/run-options.ts'

/**
 * One chain covers Homestead to Osaka, with ommers, contracts that destroy themselves, and roots in
 * receipts. The other chain is after the merge.
 */
const CHAINS = ['rpc-compat/tests', 'chain-facts/ethtest-chain'] as const
const IMPORT_MS = 120_000

async function imported(directory: string): Promise<VerifyOptions> {
  const engine = engineByName('fast')
  const database = createMemoryDatabase()
  const chain = chainSpec({ name: conformance(`${directory}/genesis.json`) })
  importGenesis(database, chain)
  const limits = { undoWindow: 256, historyBlocks: undefined }
  const target = openImport({ database, chain, engine, limits })
  const file = Uint8Array.from(readFileSync(conformance(`${directory}/chain.rlp`)))
  for (const block of decodeBlocks(file)) await target.add(block)
  target.finish()
  const random = mulberry32(1)
  return { database, chain, engine, random, sample: undefined, onStep: () => true }
}

const isSkipped = CHAINS.some((one) => isAbsent(`${one}/chain.rlp`))
describe.skipIf(isSkipped).each(CHAINS)('the verification of %s', (directory) => {
  let options: VerifyOptions
  beforeAll(async () => {
    options = await imported(directory)
  }, IMPORT_MS)

  test(
    'finds no fault and executes every block to its roots',
    async () => {
      const { findings, counts, head, isDone } = await verify(options)
      expect(findings.retained).toEqual([])
      expect(isDone).toBe(true)
      expect(counts).toMatchObject({ blocks: head + 1, executed: head, notExecuted: 0 })
      expect(counts.accounts).toBeGreaterThan(0)
      expect(counts.nodes).toBeGreaterThan(counts.accounts)
    },
    IMPORT_MS,
  )

  test('can check a sample', async () => {
    const { findings, counts, head } = await verify({ ...options, sample: 3 })
    expect(findings.retained).toEqual([])
    expect(counts.blocks).toBeLessThan(head)
    expect(counts.accounts).toBeGreaterThan(0)
    expect(counts.accounts).toBeLessThanOrEqual(3)
    expect(counts.history).toBe(0)
  })

  test('stops on request', async () => {
    const { isDone, counts } = await verify({ ...options, onStep: () => false })
    expect(isDone).toBe(false)
    expect(counts.promises).toBe(0)
  })
})
