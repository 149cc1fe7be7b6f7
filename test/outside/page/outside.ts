/** The page on the public port: soon there, quiet, without what is inside; and over a restart of the node. */
import { figure } from '../../kit/checks.ts'
import { checkQuiet, isDrawn, type Parts, WIDE } from './parts.ts'

const LOADS = 3

export async function checkOutside({ browser, check, url }: Parts): Promise<void> {
  const times: number[] = []
  for (let load = 0; load < LOADS; load++) {
    const started = performance.now()
    const { page, close } = await browser.open(url, WIDE)
    await isDrawn(page)
    times.push(Math.round(performance.now() - started))
    await close()
  }
  check('loads each time', times.length === LOADS)
  figure(`loaded in ${times.join(', ')} ms`)
  const opened = await browser.open(url, WIDE)
  const { page } = opened
  await isDrawn(page)
  check('heading', (await page.getByRole('heading', { level: 1 }).innerText()) === 'flashnode')
  check('mode', (await page.locator('.badge').innerText()) === 'dev')
  const before = await newestNumber(opened.page)
  await page.waitForFunction(
    (number) => Number(document.querySelector<HTMLElement>('.row')?.dataset['number']) > number,
    before,
  )
  check('blocks come by themselves', true)
  check(
    'nothing of what is inside',
    (await page.locator('.inside, .requests, .memory').count()) === 0,
  )
  checkQuiet(opened, url, { check, where: 'public port' })
  await opened.close()
  const accepts = async (accept: string) =>
    (await (await fetch(url, { headers: { accept } })).text()).includes('/main.ts')
  check('a browser gets the page', await accepts('text/html,application/xhtml+xml'))
  check('others get what they got before', !(await accepts('*/*')))
}

const newestNumber = (page: { evaluate<T>(run: () => T): Promise<T> }): Promise<number> =>
  page.evaluate(() => Number(document.querySelector<HTMLElement>('.row')?.dataset['number']))

/** Of a browser, when the node is not there: not ours. */
const REFUSED = /WebSocket connection to .* failed|ERR_CONNECTION_REFUSED|503/

export async function checkRestart(
  { browser, check, url }: Parts,
  node: { stop(): Promise<void>; start(): Promise<void> },
): Promise<void> {
  const opened = await browser.open(url, WIDE)
  const { page, said } = opened
  await isDrawn(page)
  await page.evaluate(() => {
    document.documentElement.dataset['same'] = 'yes'
  })
  const before = await newestNumber(page)
  await node.stop()
  await page.locator('.health.lost').waitFor()
  check('a node that is gone is said to be', true)
  await node.start()
  await page.locator('.health.ready').waitFor()
  await page.waitForFunction(
    (number) => Number(document.querySelector<HTMLElement>('.row')?.dataset['number']) > number,
    before,
  )
  const isSame = await page.evaluate(() => document.documentElement.dataset['same'] === 'yes')
  check('goes on after a restart, without being loaded again', isSame)
  const others = said.filter((line) => !REFUSED.test(line))
  check('a restart: nothing else on the console', others.length === 0, others.join(' | '))
  await opened.close()
}
