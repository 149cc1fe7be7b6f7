/** An hour's worth of blocks, made at once, and replayed from a record as fast as it goes: the page does not grow. */
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
const MOST_GROWTH_BYTES = 2 * 2 ** 20
const MOST_NODES = 1.5

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
  // What is bounded is full then.
  const before = await mined(WARM)
  checkFlat('an hour of blocks', opened, { before, after: await mined(BLOCKS), check })
  await close()
}

/** A record of a node that followed so many blocks, with transactions in the first ones and in the last ones. */
export async function checkReplayed({ browser, check }: Pick<Parts, 'browser' | 'check'>) {
  const folder = mkdtempSync(join(tmpdir(), 'flashnode-page-record-'))
  try {
    const file = join(folder, 'hour.flashnode')
    const head = await recordHour(folder, file)
    const port = await freePort()
    // It is open before it is ready: it begins with the replay.
    const replaying = startNode(['--port', String(port), '--stay', file], 'replay')
    // Who waits for it hears of it.
    replaying.catch(() => {})
    const opened = await opens(browser, `http://127.0.0.1:${port}`)
    const { page, close } = opened
    await reaches(page, WARM)
    const before = await memoryOf(page)
    await reaches(page, head)
    const node = await replaying
    check('replayed: the node is where the record ends', node.head === head, `${node.head}`)
    checkFlat('an hour of blocks, replayed', opened, {
      ...{ before, after: await memoryOf(page), check },
    })
    await close()
    check('replayed: ends with 0', (await node.stop()) === 0)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Gives the last block. */
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

/** As soon as somebody listens. */
async function opens(browser: Parts['browser'], url: string): Promise<OpenedPage> {
  for (;;)
    try {
      return await browser.open(url, WIDE)
    } catch (error) {
      if (!/ERR_CONNECTION_REFUSED/.test((error as Error).message)) throw error
    }
}

const MOST_MS = 600_000
const reaches = (page: Page, head: number) =>
  page.waitForFunction(
    (number) => Number(document.querySelector<HTMLElement>('.row')?.dataset['number']) >= number,
    head,
    { timeout: MOST_MS },
  )

function checkFlat(
  what: string,
  { said }: OpenedPage,
  { before, after, check }: { before: Memory; after: Memory; check: Parts['check'] },
): void {
  const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MB`
  check(
    `${what}: the heap of the page is flat`,
    after.bytes - before.bytes <= MOST_GROWTH_BYTES,
    `${megabytes(before.bytes)}, then ${megabytes(after.bytes)}`,
  )
  check(
    `${what}: the document is as large`,
    after.nodes <= MOST_NODES * before.nodes,
    `${before.nodes} nodes, then ${after.nodes}`,
  )
  check(`${what}: nothing on the console`, said.length === 0, said.slice(0, 3).join(' | '))
}
