/** `--fork-time` does not change the rules of blocks that a directory has. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { readAbout } from '../../../engine/storage/bootstrap/about.ts'
import { CHUNK_VERSION } from '../../../engine/storage/bootstrap/chunk.ts'
import { readMarker } from '../../../engine/storage/directory/marker.ts'
import { openDirectory, SCHEMA_VERSION } from '../../../engine/storage/directory/schema.ts'
import { claimDirectory, releaseDirectory } from '../../../workers/commands/bootstrap/directory.ts'
import { devChain } from '../../../workers/commands/dev/role.ts'
import { followedChain } from '../../../workers/commands/follow/role.ts'
import { replayRole } from '../../../workers/commands/replay/role.ts'
import { servedChain } from '../../../workers/commands/serve/role.ts'
import type { ChainChoice } from '../../../workers/data/datadir.ts'
import { settleForkTimes } from '../../../workers/data/fork-times.ts'
import { openChain, provideGenesis } from '../../../workers/data/own-chain.ts'
import type { Head } from '../../../workers/record/lines.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'

const GENESIS = 1_700_000_000
const dev = (...forkTime: string[]) =>
  devChain({
    chain: 'xlayer',
    chainId: 901,
    genesisAlloc: undefined,
    gasLimit: undefined,
    blockTimeMs: 1_000,
    forkTime,
  })

/** Opens a directory like a node. */
async function open(path: string, choice: ChainChoice): Promise<ChainSpec> {
  const { option, chain } = openChain(choice, { path, nowSeconds: GENESIS }, () => {})
  const database = await openDirectory({ path, chain, chainName: option.name })
  try {
    settleForkTimes(database, { path, option, chain })
    if (choice.made !== undefined) provideGenesis(path, chain)
    importGenesis(database, chain)
  } finally {
    await database.close()
  }
  return chain
}
const karstOf = (chain: ChainSpec) => chain.schedule['karst']
const genesisOf = (path: string) => chainSpec({ name: join(path, 'genesis.json') })

test('a development chain stores a fork time, and may move it while no block has it', async () => {
  const path = temporaryDirectory()
  expect(karstOf(await open(path, dev()))).toBe(undefined)
  expect(readFileSync(join(path, 'genesis.json'), 'utf8')).not.toContain('karst')
  expect(karstOf(await open(path, dev(`karst=${GENESIS + 50}`)))).toBe(BigInt(GENESIS + 50))
  expect(karstOf(genesisOf(path))).toBe(BigInt(GENESIS + 50))
  expect(karstOf(await open(path, dev()))).toBe(BigInt(GENESIS + 50))
  expect(karstOf(await open(path, dev('karst=off')))).toBe(undefined)
  expect(karstOf(await open(path, dev(`karst=${GENESIS + 70}`)))).toBe(BigInt(GENESIS + 70))
  // A command that serves the directory does not need the flag.
  expect(karstOf(await open(path, servedChain({})))).toBe(BigInt(GENESIS + 70))
})

test('a fork time that a block has reached cannot change, and the error names it', async () => {
  const path = temporaryDirectory()
  await open(path, dev())
  await expect(open(path, dev(`karst=${GENESIS}`))).rejects.toThrow(
    `${path} has blocks up to time ${GENESIS}, which were executed with karst=off, not karst=${GENESIS}: give --fork-time karst=off, or give --datadir another directory`,
  )
  expect(readMarker(path)?.forkTimes).toBe(undefined)
  expect(karstOf(genesisOf(path))).toBe(undefined)

  const from0 = temporaryDirectory()
  await open(from0, dev('karst=0'))
  await expect(open(from0, dev('karst=off'))).rejects.toThrow('give --fork-time karst=0, or')
  expect(karstOf(await open(from0, dev()))).toBe(0n)
})

test('a follower needs its fork times at each start', async () => {
  const [made, path] = [temporaryDirectory(), temporaryDirectory()]
  await open(made, dev())
  const chain = join(made, 'genesis.json')
  const follow = (...forkTime: string[]) => followedChain({ chain, forkTime })
  expect(karstOf(await open(path, follow('karst=0')))).toBe(0n)
  await expect(open(path, follow())).rejects.toThrow('give --fork-time karst=0, or')
  expect(karstOf(await open(path, follow('karst=0')))).toBe(0n)
  const later = temporaryDirectory()
  expect(karstOf(await open(later, follow(`karst=${GENESIS + 1}`)))).toBe(BigInt(GENESIS + 1))
  expect(karstOf(await open(later, follow()))).toBe(undefined)
})

test('a copy of a node stores the fork times of the blocks that it copies', async () => {
  const path = temporaryDirectory()
  const { genesisHash, chainId } = chainSpec({ name: 'xlayer' })
  const forkTimes = { karst: 1_790_000_000 }
  const about = readAbout({
    version: CHUNK_VERSION,
    schema: SCHEMA_VERSION,
    isWhole: true,
    forkTimes,
    chainId: Number(chainId),
    genesis: bytesToHex(genesisHash),
    chain: 'xlayer',
    first: 0,
    oldestState: 0,
    keepsDiffs: true,
    head: 1,
    start: { number: 1, hash: bytesToHex(genesisHash) },
  })
  // A chain with a name needs no request to the node.
  const node = { name: 'node' } as Parameters<typeof claimDirectory>[1]['node']
  for (let times = 0; times < 2; times++)
    expect(karstOf(await claimDirectory(path, { node, about, by: 'copy' }))).toBe(1_790_000_000n)
  releaseDirectory(path)
  expect(readMarker(path)?.forkTimes).toEqual(forkTimes)
})

test('a recording is replayed with the fork times of its node', async () => {
  const forkTimes = { karst: 1_790_000_000 }
  const chainDirectory = { path: '', marker: undefined, predeploysFile: undefined, nowSeconds: 0 }
  const made = temporaryDirectory()
  await open(made, dev())
  const genesis = readFileSync(join(made, 'genesis.json'), 'utf8')
  for (const chain of [{ name: 'xlayer' }, { genesis }]) {
    // The choice of the chain reads only the head.
    const head = { chain, forkTimes } as unknown as Head
    const parts = { head } as Parameters<typeof replayRole>[0]
    expect(karstOf(chainSpec(replayRole(parts).chain.choose(chainDirectory)))).toBe(1_790_000_000n)
  }
})
