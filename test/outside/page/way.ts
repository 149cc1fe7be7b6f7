/**
 * These checks paste a transaction's hash to see its course, and require that texts of a contract
 * stay texts.
 */
import { measurement } from '../../kit/checks.ts'
import { checkQuiet, isDrawn, type Parts, WIDE } from './parts.ts'
import { WORDS } from './traffic.ts'

const SENT = 3

export async function checkWay({ browser, check, url, traffic }: Parts): Promise<void> {
  const opened = await browser.open(url, WIDE)
  const { page } = opened
  await isDrawn(page)
  const paste = async (hash: string) => {
    await page.getByLabel('Transaction hash').fill(hash)
    await page.keyboard.press('Enter')
  }
  const visible: number[] = []
  const sealed: number[] = []
  for (let sent = 0; sent < SENT; sent++) {
    const { hash, at } = await traffic.send()
    await paste(hash)
    const state = (names: readonly string[]) =>
      page
        .locator(names.map((name) => `[data-hash="${hash}"][data-status="${name}"]`).join())
        .waitFor()
    await state(['preconfirmed', 'sealed'])
    visible.push(performance.now() - at)
    await state(['sealed'])
    sealed.push(performance.now() - at)
  }
  check(
    'the page shows each transaction in its flashblock and then in its block',
    sealed.length === SENT,
  )
  measurement(
    `in its flashblock ${visible.map(Math.round)} ms after sending, in its block ${sealed.map(Math.round)}`,
  )
  await page.locator('.calls .call').first().waitFor()
  check(
    'the page shows the calls of a transaction',
    (await page.locator('.call .kind').first().innerText()) === 'CALL',
  )

  await paste(await traffic.fail())
  await page.locator('.call.failed').first().waitFor()
  const said = await page.locator('.call.failed').first().innerText()
  check(
    'the page shows the revert text of a contract as text',
    said.includes(WORDS),
    said.slice(0, 200),
  )
  const made = await page.locator('.call img, .call script').count()
  check('the revert text creates no element', made === 0 && (await page.title()) === 'flashnode')
  await paste('nonsense')
  await page.getByText('A transaction hash is 0x and 64 hex digits.').waitFor()
  check('the page rejects a text that is no hash', true)
  checkQuiet(opened, url, { check, where: 'path of a transaction' })
  await opened.close()
}
