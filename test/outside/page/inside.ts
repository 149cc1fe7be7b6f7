/** These checks cover the page on the admin port: the node's internals, and who may read them. */
import { WebSocket } from 'ws'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { HANGS_MS } from '../../kit/checks.ts'
import { call } from '../../kit/node.ts'
import { checkQuiet, isDrawn, type Parts, WIDE } from './parts.ts'

export async function checkInside({
  browser,
  check,
  url,
  adminUrl,
  traffic,
}: Parts): Promise<void> {
  const stop = traffic.start()
  const opened = await browser.open(adminUrl, WIDE)
  const { page } = opened
  await isDrawn(page)
  await page.locator('.requests tbody tr', { hasText: 'eth_sendRawTransaction' }).waitFor()
  for (const name of ['Requests', 'Queue classes', 'Memory', 'Limits hit'])
    check(
      `the admin page has the heading ${name}`,
      // The plots have headings of a lower level, with some of the same names.
      await page.getByRole('heading', { name, exact: true, level: 2 }).isVisible(),
    )
  await manyFilters(url)
  await page
    .locator('.limits tbody tr', { hasText: 'calls over a limit or for a full queue' })
    .waitFor()
  check('the admin page reports a limit that was hit', true)
  await page.locator('.inside .plot canvas').first().waitFor()
  check(
    'the admin page draws two plots over time',
    (await page.locator('.inside .plot canvas').count()) === 2,
  )
  await stop()
  checkQuiet(opened, adminUrl, { check, where: 'admin port' })
  await opened.close()
  const json = await fetch(adminUrl)
  check(
    'JSON clients of the admin port get JSON',
    json.headers.get('content-type') === 'application/json',
  )
  const socket = `${adminUrl.replace('http', 'ws')}/page/live`
  check(
    'a WebSocket from another origin is refused',
    await isRefused(socket, 'https://example.org'),
  )
  check("a WebSocket from the page's own origin is accepted", !(await isRefused(socket, adminUrl)))
  const viewers = async () =>
    ((await (await fetch(adminUrl)).json()) as { front: Record<string, number> }).front[
      'pageViewers'
    ]
  check(
    'the count of page viewers is 0 after the page closes',
    (await until(async () => (await viewers()) === 0)) === true,
  )
}

/** Creates more filters than one address may have. */
async function manyFilters(url: string): Promise<void> {
  for (let at = 0; at <= DEFAULT_LIMITS.filtersPerClient; at++)
    await call(url, 'eth_newBlockFilter').catch(() => {})
}

function isRefused(url: string, origin: string): Promise<boolean> {
  const socket = new WebSocket(url, { origin })
  return new Promise((resolve) => {
    socket.once('open', () => {
      socket.close()
      resolve(false)
    })
    socket.once('error', () => resolve(true))
  })
}

async function until(condition: () => Promise<boolean>): Promise<boolean> {
  const end = performance.now() + HANGS_MS
  while (performance.now() < end) if (await condition()) return true
  return false
}
