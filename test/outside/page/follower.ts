/**
 * The page of a follower shows its mode of trust, a transaction's course over the leader, restarts,
 * and its sources.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { freePort } from '../../kit/free-port.ts'
import { type RunningNode, startNode } from '../../kit/node.ts'
import { checkRestart } from './outside.ts'
import { isDrawn, type Parts, WIDE } from './parts.ts'
import { openTraffic } from './traffic.ts'
import { checkWay } from './way.ts'

/** The page must recover within this time after both nodes run again, on a busy machine. */
const READY_MS = 600_000
/** Each state with its name on the page. */
const STATES = [
  ['lazy', 'proven'],
  ['whole', 'whole'],
] as const
const COMMON = ['--rate-limit', 'off', '--pool-threads', '2']

type Leader = { readonly flags: readonly string[]; node: RunningNode }

/** Checks followers of a separate development chain, one after the other. */
export async function checkFollowers({ browser, check }: Pick<Parts, 'browser' | 'check'>) {
  const datadir = mkdtempSync(join(tmpdir(), 'flashnode-page-leader-'))
  const flags = ['--datadir', datadir, '--port', String(await freePort()), ...COMMON]
  const leader: Leader = { flags, node: await startNode(flags) }
  const followed = [
    ...['--chain', join(datadir, 'genesis.json'), '--upstream', `${leader.node.url}/`],
    ...['--feed', `${leader.node.url.replace('http', 'ws')}/feed`],
  ]
  try {
    for (const [state, mode] of STATES)
      await checkFollower([...followed, '--state', state], leader, {
        browser,
        mode,
        check: (what, isRight, detail) => check(`follower, ${mode}: ${what}`, isRight, detail),
      })
  } finally {
    await leader.node.stop('SIGKILL')
    rmSync(datadir, { recursive: true, force: true })
  }
}

async function checkFollower(
  followed: readonly string[],
  leader: Leader,
  { browser, check, mode }: Pick<Parts, 'browser' | 'check'> & { readonly mode: string },
): Promise<void> {
  const datadir = mkdtempSync(join(tmpdir(), 'flashnode-page-follower-'))
  const [port, adminPort] = [await freePort(), await freePort()]
  const own = ['--datadir', datadir, '--port', String(port), '--admin-port', String(adminPort)]
  const start = () => startNode([...followed, ...own, ...COMMON], 'follow')
  let node = await start()
  try {
    const { url } = node
    const adminUrl = `http://127.0.0.1:${adminPort}`
    const parts = { browser, check, url, adminUrl, traffic: await openTraffic(url) }
    await checkWay(parts)
    await checkSources(parts, leader, mode)
    await checkRestart(parts, {
      stop: async () => void (await node.stop()),
      start: async () => {
        node = await start()
      },
    })
  } finally {
    await node.stop('SIGKILL')
    rmSync(datadir, { recursive: true, force: true })
  }
}

/**
 * Checks the admin page: mode, upstreams and feeds, each with its status, also while the sources
 * are down.
 */
async function checkSources(
  { browser, check, url, adminUrl }: Parts,
  leader: Leader,
  mode: string,
): Promise<void> {
  const outside = await browser.open(url, WIDE)
  await isDrawn(outside.page)
  check(
    'the public page shows the mode',
    (await outside.page.locator('.badge').innerText()) === mode,
  )
  const visible = await outside.page.locator('.inside, .sources, .development').count()
  check('the public page shows no internals, sources or controls', visible === 0)
  await outside.close()
  const { page, close } = await browser.open(adminUrl, WIDE)
  await isDrawn(page)
  check('the admin page shows the mode', (await page.locator('.badge').innerText()) === mode)
  const { host } = new URL(leader.node.url)
  const upstream = rowOf(page, 'Upstreams', host)
  const feed = rowOf(page, 'Feeds', host)
  await upstream.waitFor()
  await feed.waitFor()
  const [said, received] = [await upstream.innerText(), await feed.innerText()]
  check('the admin page shows the upstream with its head', /\t[\d,]+/.test(said), said)
  check('the admin page shows the feed as connected', /\tyes/.test(received), received)
  await leader.node.stop()
  // The upstream is usually missed first, and alone.
  const reasons = page.locator('.health.degraded li, .health.unready li')
  const ofFeed = reasons.filter({ hasText: 'not connected' }).first()
  await ofFeed.waitFor().catch(() => undefined)
  const why = await page.locator('.health').innerText()
  check(
    'without its sources the node is not ready, and the page gives the reason',
    why.includes('not connected'),
    why,
  )
  const other = await browser.open(url, WIDE)
  await other.page.locator('.health li').first().waitFor()
  const reported = await other.page.locator('.health').innerText()
  check(
    'the public page gives the reason without the name of the source',
    !reported.includes(host),
    reported,
  )
  await other.close()
  await feed.filter({ hasText: 'no' }).waitFor()
  check('the admin page shows the feed as disconnected', true)
  leader.node = await startNode(leader.flags)
  await page.locator('.health.ready').waitFor({ timeout: READY_MS })
  await feed.filter({ hasText: 'yes' }).waitFor()
  check('with its sources back the node is ready again', true)
  await close()
}

const rowOf = (page: Page, heading: string, name: string) =>
  page
    .locator('.sources h3', { hasText: heading })
    .locator('xpath=following-sibling::*[1]')
    .locator('tbody tr', { hasText: name })
