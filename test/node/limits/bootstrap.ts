/** These are limits for clients that copy a node. */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { decodeChunk } from '../../../engine/storage/bootstrap/chunk.ts'
import { openDirectory } from '../../../engine/storage/directory/schema.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/core/limits.ts'
import { type BootstrapService, openBootstrapService } from '../../../workers/bootstrap/source.ts'
import { GENESIS_FILE } from '../../../workers/data/datadir.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'
import { row, type Some } from './row.ts'

const ACCOUNTS = 40
const ROWS = 'part=rows&column=accounts&from=&above=0&up-to=0'
const name = (of: number) => `by=${of.toString(16).padStart(32, '0')}`

type CopyRequester = {
  readonly service: BootstrapService
  readonly status: (of: number, question?: string) => Promise<number>
  readonly wait: (ms: number) => void
}

/** Makes a node with a genesis only, whose clock the row moves. */
const over =
  (use: (requester: CopyRequester) => Promise<unknown>) => async (limits: Partial<Limits>) => {
    const path = temporaryDirectory()
    const file = join(path, GENESIS_FILE)
    const alloc = Object.fromEntries(
      Array.from({ length: ACCOUNTS }, () => [
        `0x${randomBytes(20).toString('hex')}`,
        { balance: '0x1' },
      ]),
    )
    writeFileSync(
      `${path}.json`,
      JSON.stringify({ config: { chainId: 7 }, alloc, gasLimit: '0x1c9c380', timestamp: '0x1' }),
    )
    const chain = chainSpec({ name: `${path}.json` })
    const database = await openDirectory({ path, chain, chainName: GENESIS_FILE })
    importGenesis(database, chain)
    writeFileSync(file, '{}')
    let leadMs = 0
    const service = openBootstrapService({
      config: { historyBlocks: 'all' },
      limits: { ...DEFAULT_LIMITS, ...limits },
      database,
      path,
      report: () => {},
      now: () => performance.now() + leadMs,
    })
    try {
      return await use({
        service,
        status: async (of, question = 'part=about') =>
          (await service.respond(`/bootstrap?${name(of)}&${question}`)).status,
        wait: (ms) => {
          leadMs += ms
        },
      })
    } finally {
      await service.close()
      await database.close()
    }
  }

export const BOOTSTRAP = {
  bootstraps: row(
    2,
    [200, 200, 503],
    over(async ({ status }) => [await status(1), await status(2), await status(3)]),
  ),
  bootstrapIdleMs: row(
    1_000,
    [200, 200],
    over(async ({ status, wait }) => {
      const first = await status(1)
      wait(2_000)
      return [first, await status(2)]
    }),
  ),
  bootstrapChunkBytes: row(
    1_000,
    true,
    over(async ({ service }) => {
      const { bytes } = await service.respond(`/bootstrap?${name(1)}&${ROWS}`)
      return decodeChunk(bytes!, 2 ** 20).rows.length < ACCOUNTS
    }),
  ),
  bootstrapBytesPerSecond: row(
    10_000,
    'waited',
    over(async ({ service, status }) => {
      // The first request starts the reading thread.
      await status(1)
      const started = performance.now()
      for (let at = 0; at < 2; at++) await service.respond(`/bootstrap?${name(1)}&${ROWS}`)
      // The first response had more than a second's worth of 10,000 bytes divided by three.
      return performance.now() - started > 300 ? 'waited' : 'at once'
    }),
  ),
} satisfies Some
