/**
 * These checks cover the page on the public port. It must load soon, be quiet, hide the node's
 * internals, and survive a restart of the node.
 */
import { measurement } from '../../kit/checks.ts'
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
  check('the page loads each time', times.length === LOADS)
  measurement(`loaded in ${times.join(', ')} ms`)
  const opened = await browser.open(url, WIDE)
  const { page } = opened
  await isDrawn(page)
  check(
    'the heading is flashnode',
    (await page.getByRole('heading', { level: 1 }).innerText()) === 'flashnode',
  )
  check('the badge shows the mode', (await page.locator('.badge').innerText()) === 'dev')
  const before = await newestNumber(opened.page)
  await page.waitForFunction(
    (number) => Number(document.querySelector<HTMLElement>('.row')?.dataset['number']) > number,
    before,
  )
  check('new blocks appear without a reload', true)
  check(
    'the public page shows no internals',
    (await page.locator('.inside, .requests, .memory').count()) === 0,
  )
  checkQuiet(opened, url, { check, where: 'public port' })
  await opened.close()
  const accepts = async (accept: string) =>
    (await (await fetch(url, { headers: { accept } })).text()).includes('/main.ts')
  check('a browser gets the page', await accepts('text/html,application/xhtml+xml'))
  check('other clients do not get the page', !(await accepts('*/*')))
}

const newestNumber = (page: { evaluate<T>(run: () => T): Promise<T> }): Promise<number> =>
  page.evaluate(() => Number(document.querySelector<HTMLElement>('.row')?.dataset['number']))

/** These messages come from the browser when the node is down, and are no faults of the page. */
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
  check('the page reports that its node is gone', true)
  await node.start()
  await page.locator('.health.ready').waitFor()
  await page.waitForFunction(
    (number) => Number(document.querySelector<HTMLElement>('.row')?.dataset['number']) > number,
    before,
  )
  const isSame = await page.evaluate(() => document.documentElement.dataset['same'] === 'yes')
  check('the page continues after a restart without a reload', isSame)
  const others = said.filter((line) => !REFUSED.test(line))
  check(
    'a restart leaves only refused connections on the console',
    others.length === 0,
    others.join(' | '),
  )
  await opened.close()
}
