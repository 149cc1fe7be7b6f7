/**
 * This check runs the status page in a browser. The page must load soon, write nothing to the
 * console and request nothing from others. It must display the progress of a transaction. It must
 * survive a restart and stay small over an hour of blocks. It must be usable by keyboard and on any
 * screen.
 * Usage: npm run page [-- --only SECTION,…] [--write] (the screenshots of docs/)
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { checks } from '../kit/checks.ts'
import { freePort } from '../kit/free-port.ts'
import { type RunningNode, startNode } from '../kit/node.ts'
import { checkAppearance, checkSizes } from './page/appearance.ts'
import { type Browser, hasBrowser, openBrowser } from './page/browser.ts'
import { checkControls } from './page/controls.ts'
import { checkFollowers } from './page/follower.ts'
import { checkHour, checkReplayed } from './page/hour.ts'
import { checkInside } from './page/inside.ts'
import { checkOutside, checkRestart } from './page/outside.ts'
import { openTraffic } from './page/traffic.ts'
import { checkWay } from './page/way.ts'

const { values } = parseArgs({
  options: {
    write: { type: 'boolean', default: false },
    only: { type: 'string' },
  },
})
const { check, skip, close } = checks('page')

async function run(browser: Browser): Promise<void> {
  const datadir = mkdtempSync(join(tmpdir(), 'flashnode-page-'))
  const [port, adminPort] = [await freePort(), await freePort()]
  const flags = ['--datadir', datadir, '--port', String(port), '--admin-port', String(adminPort)]
  const start = (): Promise<RunningNode> => startNode([...flags, '--rate-limit', 'off'])
  let node = await start()
  try {
    const adminUrl = `http://127.0.0.1:${adminPort}`
    const traffic = await openTraffic(node.url)
    const parts = { browser, check, url: node.url, adminUrl, traffic }
    const repeated = {
      stop: async () => void (await node.stop()),
      start: async () => {
        node = await start()
      },
    }
    const sections: Readonly<Record<string, () => Promise<void>>> = {
      outside: () => checkOutside(parts),
      way: () => checkWay(parts),
      controls: () => checkControls(parts),
      inside: () => checkInside(parts),
      sizes: () => checkSizes(parts),
      appearance: () => checkAppearance(parts, values.write),
      hour: () => checkHour(parts),
      replayed: () => checkReplayed(parts),
      restart: () => checkRestart(parts, repeated),
      follower: () => checkFollowers(parts),
    }
    const wanted = values.only?.split(',') ?? Object.keys(sections)
    for (const name of wanted)
      await sections[name]!().catch((error: Error) => check(name, false, error.message))
  } finally {
    await node.stop('SIGKILL')
    rmSync(datadir, { recursive: true, force: true })
  }
}

if (hasBrowser()) {
  const browser = await openBrowser()
  try {
    await run(browser)
  } finally {
    await browser.close()
  }
} else skip('the page', 'there is no /usr/bin/chromium')
close()
