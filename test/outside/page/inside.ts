/** The page on the admin port: what is inside, and who may read it. */
import { WebSocket } from 'ws'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
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
  const stop = traffic.begin()
  const opened = await browser.open(adminUrl, WIDE)
  const { page } = opened
  await isDrawn(page)
  await page.locator('.requests tbody tr', { hasText: 'eth_sendRawTransaction' }).waitFor()
  for (const name of ['Requests', 'Lanes', 'Memory', 'Limits hit'])
    check(`inside: ${name}`, await page.getByRole('heading', { name, exact: true }).isVisible())
  await manyFilters(url)
  await page.locator('.limits tbody tr', { hasText: 'a cap, a range or a full queue' }).waitFor()
  check('inside: a bound that is met is told', true)
  await page.locator('.inside .plot canvas').first().waitFor()
  check('inside: lines over time', (await page.locator('.inside .plot canvas').count()) === 2)
  await stop()
  checkQuiet(opened, adminUrl, { check, where: 'admin port' })
  await opened.close()
  const json = await fetch(adminUrl)
  check('JSON clients get JSON', json.headers.get('content-type') === 'application/json')
  const socket = `${adminUrl.replace('http', 'ws')}/page/live`
  check('another page’s socket is refused', await isRefused(socket, 'https://example.org'))
  check('its own is not', !(await isRefused(socket, adminUrl)))
  const viewers = async () =>
    ((await (await fetch(adminUrl)).json()) as { front: Record<string, number> }).front[
      'pageViewers'
    ]
  check('nobody looks any more', (await until(async () => (await viewers()) === 0)) === true)
}

/** More than one address may have. */
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

async function until(holds: () => Promise<boolean>): Promise<boolean> {
  const end = performance.now() + HANGS_MS
  while (performance.now() < end) if (await holds()) return true
  return false
}
