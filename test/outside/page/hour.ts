/**
 * An hour's worth of blocks is made at once, and replayed from a recording at full speed. The page
 * must not grow.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { freePort } from '../../kit/free-port.ts'
import { call, startNode } from '../../kit/node.ts'
import { memoryOf, type OpenedPage } from './browser.ts'
import { isDrawn, type Parts, WIDE } from './parts.ts'
import { openTraffic } from './traffic.ts'

const BLOCKS = 3_600
const AT_A_TIME = 200
const WARM = 400
const MAX_GROWTH_BYTES = 2 * 2 ** 20
const MAX_NODES = 1.5

type Memory = Awaited<ReturnType<typeof memoryOf>>

export async function checkHour({ browser, check, url }: Parts): Promise<void> {
  const opened = await browser.open(url, WIDE)
  const { page, close } = opened
  await isDrawn(page)
  const mined = async (blocks: number) => {
    await mine(url, blocks)
    await reaches(page, Number(await call(url, 'eth_blockNumber')))
    return memoryOf(page)
  }
  // Bounded lists are full by then.
  const before = await mined(WARM)
  checkFlat('an hour of blocks', opened, { before, after: await mined(BLOCKS), check })
  await close()
}

/**
 * Replays the recording of a node that followed this many blocks, with transactions in the first
 * and the last ones.
 */
export async function checkReplayed({ browser, check }: Pick<Parts, 'browser' | 'check'>) {
  const folder = mkdtempSync(join(tmpdir(), 'flashnode-page-record-'))
  try {
    const file = join(folder, 'hour.flashnode')
    const head = await recordHour(folder, file)
    const port = await freePort()
    // The port is open before the node is ready, because the replay comes first.
    const replaying = startNode(['--port', String(port), '--stay', file], 'replay')
    // The caller awaits the promise later, so the error must not count as unhandled.
    replaying.catch(() => {})
    const opened = await opens(browser, `http://127.0.0.1:${port}`)
    const { page, close } = opened
    await reaches(page, WARM)
    const before = await memoryOf(page)
    await reaches(page, head)
    const node = await replaying
    check('replayed: the node reaches the end of the recording', node.head === head, `${node.head}`)
    checkFlat('an hour of blocks, replayed', opened, {
      before,
      after: await memoryOf(page),
      check,
    })
    await close()
    check('replayed: the node ends with 0', (await node.stop()) === 0)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Records the blocks and gives the last block's number. */
async function recordHour(folder: string, file: string): Promise<number> {
  const datadir = join(folder, 'leader')
  const leader = await startNode(['--datadir', datadir, '--rate-limit', 'off'])
  const chain = ['--chain', join(datadir, 'genesis.json'), '--state', 'whole']
  const sources = [
    '--upstream',
    `${leader.url}/`,
    '--feed',
    `${leader.url.replace('http', 'ws')}/feed`,
  ]
  const recorder = await startNode([...chain, ...sources, '--out', file], 'record')
  const traffic = await openTraffic(leader.url)
  for (let left = WARM + BLOCKS; left > 0; left -= AT_A_TIME) {
    await mine(leader.url, Math.min(left, AT_A_TIME))
    await traffic.send()
  }
  await call(leader.url, 'dev_pause')
  const head = Number(await call(leader.url, 'eth_blockNumber'))
  while (Number(await call(recorder.url, 'eth_blockNumber')) < head)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  await recorder.stop()
  await leader.stop()
  return head
}
const POLL_MS = 200

async function mine(url: string, blocks: number): Promise<void> {
  for (let left = blocks; left > 0; left -= AT_A_TIME)
    await call(`${url}/flashblocks`, 'anvil_mine', [Math.min(left, AT_A_TIME)])
}

/** Opens the page as soon as the server listens. */
async function opens(browser: Parts['browser'], url: string): Promise<OpenedPage> {
  for (;;)
    try {
      return await browser.open(url, WIDE)
    } catch (error) {
      if (!/ERR_CONNECTION_REFUSED/.test((error as Error).message)) throw error
    }
}

const MAX_MS = 600_000
const reaches = (page: Page, head: number) =>
  page.waitForFunction(
    (number) => Number(document.querySelector<HTMLElement>('.row')?.dataset['number']) >= number,
    head,
    { timeout: MAX_MS },
  )

function checkFlat(
  what: string,
  { said }: OpenedPage,
  { before, after, check }: { before: Memory; after: Memory; check: Parts['check'] },
): void {
  const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MB`
  check(
    `${what}: the heap of the page stays flat`,
    after.bytes - before.bytes <= MAX_GROWTH_BYTES,
    `${megabytes(before.bytes)}, then ${megabytes(after.bytes)}`,
  )
  check(
    `${what}: the document does not grow`,
    after.nodes <= MAX_NODES * before.nodes,
    `${before.nodes} nodes, then ${after.nodes}`,
  )
  check(`${what}: the console stays empty`, said.length === 0, said.slice(0, 3).join(' | '))
}
