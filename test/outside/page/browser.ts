/** Debian's Chromium, and what a page in it has said and asked for. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BrowserContext, Page } from 'playwright-core'
import { requireFrom } from '../../kit/own-packages.ts'

type Playwright = typeof import('playwright-core')
const PROGRAM = '/usr/bin/chromium'
const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
]

export const hasBrowser = (): boolean => existsSync(PROGRAM)

export type Look = {
  readonly width: number
  readonly height: number
  readonly scheme?: 'dark' | 'light'
  readonly isStill?: boolean
}
export type OpenedPage = {
  readonly page: Page
  /** What it wrote to the console, and errors that nobody caught. */
  readonly said: string[]
  /** URLs that it asked for, WebSockets too. */
  readonly asked: string[]
  close(): Promise<void>
}
export type Browser = {
  open(url: string, look: Look): Promise<OpenedPage>
  close(): Promise<void>
}

/** With a profile of its own that goes with it. */
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
      await page.setViewportSize({ width, height })
      await page.emulateMedia({
        colorScheme: scheme,
        reducedMotion: isStill ? 'reduce' : 'no-preference',
      })
      const [said, asked]: [string[], string[]] = [[], []]
      page.on('console', (message) => said.push(`${message.type()}: ${message.text()}`))
      page.on('pageerror', (error) => said.push(`uncaught: ${error.message}`))
      page.on('request', (request) => asked.push(request.url()))
      page.on('websocket', (socket) => asked.push(socket.url()))
      await page.goto(url)
      return { page, said, asked, close: () => page.close() }
    },
    async close() {
      await context.close()
      rmSync(profile, { recursive: true, force: true })
    },
  }
}

/** Bytes of its heap and elements of its document, without garbage. */
export async function memoryOf(page: Page): Promise<{ bytes: number; nodes: number }> {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  await session.send('Performance.enable')
  const { metrics } = await session.send('Performance.getMetrics')
  await session.detach()
  const of = (name: string) => metrics.find((one) => one.name === name)?.value ?? Number.NaN
  return { bytes: of('JSHeapUsedSize'), nodes: of('Nodes') }
}
