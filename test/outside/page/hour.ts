/** An hour's worth of blocks, made at once: the page does not grow. */
import { call } from '../node-process.ts'
import { memoryOf } from './browser.ts'
import { isDrawn, type Parts, WIDE } from './parts.ts'

const BLOCKS = 3_600
const AT_A_TIME = 200
const WARM = 400
const MOST_GROWTH_BYTES = 2 * 2 ** 20
const MOST_NODES = 1.5

export async function checkHour({ browser, check, url }: Parts): Promise<void> {
  const { page, close, said } = await browser.open(url, WIDE)
  await isDrawn(page)
  const mine = async (blocks: number) => {
    for (let left = blocks; left > 0; left -= AT_A_TIME)
      await call(`${url}/flashblocks`, 'anvil_mine', [Math.min(left, AT_A_TIME)])
    const head = Number(await call(url, 'eth_blockNumber'))
    await page.waitForFunction(
      (number) => Number(document.querySelector<HTMLElement>('.row')?.dataset['number']) >= number,
      head,
    )
  }
  // What is bounded is full then.
  await mine(WARM)
  const before = await memoryOf(page)
  await mine(BLOCKS)
  const after = await memoryOf(page)
  const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MB`
  check(
    'an hour of blocks: the heap of the page is flat',
    after.bytes - before.bytes <= MOST_GROWTH_BYTES,
    `${megabytes(before.bytes)}, then ${megabytes(after.bytes)}`,
  )
  check(
    'an hour of blocks: the document is as large',
    after.nodes <= MOST_NODES * before.nodes,
    `${before.nodes} nodes, then ${after.nodes}`,
  )
  check(
    'an hour of blocks: nothing on the console',
    said.length === 0,
    said.slice(0, 3).join(' | '),
  )
  await close()
}
