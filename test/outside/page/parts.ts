/** What the checks of the page share. */
import type { Page } from 'playwright-core'
import type { Check } from '../../kit/checks.ts'
import type { Browser, OpenedPage } from './browser.ts'
import type { Traffic } from './traffic.ts'

export type Parts = {
  readonly browser: Browser
  readonly check: Check
  readonly url: string
  readonly adminUrl: string
  readonly traffic: Traffic
}

export const WIDE = { width: 1_440, height: 1_000 } as const

/** There is a flashblock to be seen, and figures. */
export async function isDrawn(page: Page): Promise<void> {
  await page.locator('.rows .cell').first().waitFor()
  await page.locator('.tile').first().waitFor()
}

/** Nothing on the console, and nothing asked of another host. */
export function checkQuiet(
  { said, asked }: OpenedPage,
  url: string,
  { check, where }: { readonly check: Check; readonly where: string },
): void {
  const own = [url, url.replace('http', 'ws')].map((one) => `${one}/`)
  const foreign = asked.filter((one) => !own.some((start) => one.startsWith(start)))
  check(`${where}: nothing on the console`, said.length === 0, said.slice(0, 3).join(' | '))
  check(
    `${where}: no other host is asked`,
    foreign.length === 0 && asked.length > 5,
    foreign.join(),
  )
}
