/**
 * These checks cover the appearance of the page: dark and light, on a phone and on a large screen.
 */
import { mkdirSync } from 'node:fs'
import type { Page } from 'playwright-core'
import type { Check } from '../../kit/checks.ts'
import type { Appearance } from './browser.ts'
import { isDrawn, type Parts } from './parts.ts'

const FOLDER = 'docs/images'
const SCREENS: readonly (Appearance & { readonly name: string; readonly isInside?: boolean })[] = [
  { name: 'page-dark', width: 1_440, height: 1_000, scheme: 'dark' },
  { name: 'page-light', width: 1_440, height: 1_000, scheme: 'light' },
  { name: 'page-narrow', width: 400, height: 860, scheme: 'dark' },
  { name: 'page-inside', width: 1_440, height: 1_000, scheme: 'light', isInside: true },
  { name: 'page-wall', width: 3_840, height: 2_160, scheme: 'dark', isInside: true },
]
/** The page shows this many blocks with times of their own. */
const ROWS = 12
const MIN_CONTRAST = 4.5
const MIN_TEXT_PX = 8.5

/**
 * Checks the appearance.
 * @param isWritten whether the screenshots of docs/ are written again
 */
export async function checkAppearance(parts: Parts, isWritten: boolean): Promise<void> {
  const { browser, check, url, adminUrl, traffic } = parts
  const stop = traffic.start()
  mkdirSync(FOLDER, { recursive: true })
  for (const screen of SCREENS) {
    const { name, width } = screen
    const { page, said, close } = await browser.open(screen.isInside === true ? adminUrl : url, {
      ...screen,
      isStill: true,
    })
    await isDrawn(page)
    await page.locator('.row.done').nth(ROWS).waitFor()
    const { hash } = await traffic.send()
    await page.getByLabel('Transaction hash').fill(hash)
    await page.keyboard.press('Enter')
    await page.locator('[data-status="sealed"]').waitFor()
    await page.getByLabel('Transaction hash').blur()
    checkSize({ name, width, check }, await sizesOf(page))
    await checkContrast(name, page, check)
    check(`${name}: the console stays empty`, said.length === 0, said.slice(0, 3).join(' | '))
    // Plots over time need some samples.
    if (screen.isInside) await page.locator('.inside .plot canvas').nth(1).waitFor()
    await page.evaluate(() => {
      const inside = document.querySelector('main > .part')
      scrollTo(0, 0)
      scrollTo({
        top: inside === null ? 0 : inside.getBoundingClientRect().top - 16,
        behavior: 'instant',
      })
    })
    if (isWritten && screen.width < 3_000) await page.screenshot({ path: `${FOLDER}/${name}.png` })
    await close()
  }
  await stop()
}

/**
 * Checks only the sizes of one page that takes each screen size in turn. A browser has much less
 * work than for `checkAppearance`.
 */
export async function checkSizes({ browser, check, adminUrl }: Parts): Promise<void> {
  const { page, close } = await browser.open(adminUrl, { ...SCREENS[0]!, isStill: true })
  await isDrawn(page)
  await page.locator('.row.done').first().waitFor()
  for (const { name, width, height, scheme } of SCREENS) {
    await page.setViewportSize({ width, height })
    await page.emulateMedia({ colorScheme: scheme ?? 'light' })
    checkSize({ name, width, check }, await sizesOf(page))
    await checkContrast(name, page, check)
  }
  await close()
}

function checkSize(
  { name, width, check }: { readonly name: string; readonly width: number; readonly check: Check },
  { overflow, smallest }: Awaited<ReturnType<typeof sizesOf>>,
): void {
  check(`${name}: no element is wider than the screen`, overflow <= 0, `${overflow} px at ${width}`)
  const min = MIN_TEXT_PX * Math.max(1, width / 2_400)
  check(`${name}: the smallest text is legible`, smallest >= min, `${smallest} px`)
}

async function checkContrast(name: string, page: Page, check: Check): Promise<void> {
  const faint = await faintest(page)
  check(`${name}: text has enough contrast`, faint >= MIN_CONTRAST, faint.toFixed(2))
}

const sizesOf = (page: Page) =>
  page.evaluate(() => {
    const sizes = [...document.querySelectorAll<HTMLElement>('main *')]
      .filter((one) =>
        [...one.childNodes].some(
          (node) => node.nodeType === Node.TEXT_NODE && node.textContent?.trim() !== '',
        ),
      )
      .filter((one) => one.offsetParent !== null && !one.classList.contains('spoken'))
      .map((one) => Number.parseFloat(getComputedStyle(one).fontSize))
    return {
      overflow: document.documentElement.scrollWidth - innerWidth,
      smallest: Math.min(...sizes),
    }
  })

/** Measures the minimum contrast of faint text with its panel (WCAG 2.2, 1.4.3). */
const faintest = (page: Page) =>
  page.evaluate(() => {
    const canvas = document.createElement('canvas')
    const brush = canvas.getContext('2d', { willReadFrequently: true })!
    const channel = (value: number) =>
      value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
    const luminance = (color: string) => {
      brush.fillStyle = color
      brush.fillRect(0, 0, 1, 1)
      const [r, g, b] = [...brush.getImageData(0, 0, 1, 1).data].map((one) => channel(one / 255))
      return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!
    }
    const contrast = (a: string, b: string) => {
      const [one, other] = [luminance(a), luminance(b)]
      return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)
    }
    const panel = getComputedStyle(document.querySelector('.panel')!).backgroundColor
    const texts = ['.note', '.panel h2', '.cell span', '.transactions', 'dt', 'dd'].flatMap(
      (one) => {
        const found = document.querySelector(one)
        return found === null ? [] : [getComputedStyle(found).color]
      },
    )
    return Math.min(...texts.map((color) => contrast(color, panel)))
  })
