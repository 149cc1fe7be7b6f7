/** Debian's Chromium, with the console messages and the requests of a page. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BrowserContext, Page } from 'playwright-core'
import { requireFrom } from '../../kit/own-packages.ts'

type Playwright = typeof import('playwright-core')
const PROGRAM = '/usr/bin/chromium'
/** A page that takes longer hangs. A busy machine needs more than playwright's 30 seconds. */
const HANGING_MS = 300_000
const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
]

export const hasBrowser = (): boolean => existsSync(PROGRAM)

export type Appearance = {
  readonly width: number
  readonly height: number
  readonly scheme?: 'dark' | 'light'
  readonly isStill?: boolean
}
export type OpenedPage = {
  readonly page: Page
  /** Messages on the console, and uncaught errors. */
  readonly said: string[]
  /** The requested URLs, including WebSockets. */
  readonly requested: string[]
  close(): Promise<void>
}
export type Browser = {
  open(url: string, appearance: Appearance): Promise<OpenedPage>
  close(): Promise<void>
}

/** Opens a browser with its own profile, which is deleted with it. */
export async function openBrowser(): Promise<Browser> {
  const { chromium } = requireFrom(new URL('./', import.meta.url))('playwright-core') as Playwright
  const profile = mkdtempSync(join(tmpdir(), 'flashnode-chromium-'))
  const context: BrowserContext = await chromium.launchPersistentContext(profile, {
    executablePath: PROGRAM,
    args: FLAGS,
    viewport: null,
  })
  return {
    async open(url, { width, height, scheme = 'light', isStill = false }) {
      const page = await context.newPage()
      page.setDefaultTimeout(HANGING_MS)
      await page.setViewportSize({ width, height })
      await page.emulateMedia({
        colorScheme: scheme,
        reducedMotion: isStill ? 'reduce' : 'no-preference',
      })
      const [said, requested]: [string[], string[]] = [[], []]
      page.on('console', (message) => said.push(`${message.type()}: ${message.text()}`))
      page.on('pageerror', (error) => said.push(`uncaught: ${error.message}`))
      page.on('request', (request) => requested.push(request.url()))
      page.on('websocket', (socket) => requested.push(socket.url()))
      await page.goto(url)
      return { page, said, requested, close: () => page.close() }
    },
    async close() {
      await context.close()
      rmSync(profile, { recursive: true, force: true })
    },
  }
}

/** Measures the page's heap in bytes and its document elements, after a garbage collection. */
export async function memoryOf(page: Page): Promise<{ bytes: number; nodes: number }> {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  await session.send('Performance.enable')
  const { metrics } = await session.send('Performance.getMetrics')
  await session.detach()
  const of = (name: string) => metrics.find((one) => one.name === name)?.value ?? Number.NaN
  return { bytes: of('JSHeapUsedSize'), nodes: of('Nodes') }
}
