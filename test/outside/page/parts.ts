/** The checks of the page share these values. */
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

/** Waits until a flashblock and the stats are visible. */
export async function isDrawn(page: Page): Promise<void> {
  await page.locator('.rows .cell').first().waitFor()
  await page.locator('.tile').first().waitFor()
}

/** Checks that the console is empty, and that no other host was contacted. */
export function checkQuiet(
  { said, requested }: OpenedPage,
  url: string,
  { check, where }: { readonly check: Check; readonly where: string },
): void {
  const own = [url, url.replace('http', 'ws')].map((one) => `${one}/`)
  const foreign = requested.filter((one) => !own.some((start) => one.startsWith(start)))
  check(`${where}: the console stays empty`, said.length === 0, said.slice(0, 3).join(' | '))
  check(
    `${where}: the page contacts no other host`,
    foreign.length === 0 && requested.length > 5,
    foreign.join(),
  )
}
