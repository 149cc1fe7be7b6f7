/**
 * The page controls a development chain, and must show the results; the page must also work by
 * keyboard alone.
 */
import type { Page } from 'playwright-core'
import { isDrawn, type Parts, WIDE } from './parts.ts'

export async function checkControls({ browser, check, url, traffic }: Parts): Promise<void> {
  const { page, said, close } = await browser.open(url, WIDE)
  await isDrawn(page)
  const control = async (name: string) => {
    await page.getByRole('button', { name, exact: true }).click()
    await page
      .locator('.development .said', { hasText: `${name}: ` })
      .first()
      .waitFor()
    return page.locator('.development .said').first().innerText()
  }
  check('Pause reports its effect', /^Pause: /.test(await control('Pause')))
  const { hash } = await traffic.send()
  await control('Step')
  await control('Step')
  await page.getByLabel('Transaction hash').fill(hash)
  await page.keyboard.press('Enter')
  await page.locator(`[data-hash="${hash}"][data-status="preconfirmed"]`).waitFor()
  check('Step puts a transaction into a flashblock', true)
  await control('Equivocate')
  await control('Step')
  await page.locator('.cell.replaced, .mark').first().waitFor()
  check('Equivocate shows the replaced flashblock', true)
  await control('Resume')
  await control('Gap')
  await page.locator('.cell.late, .mark').first().waitFor()
  check('Gap shows the missing flashblock', true)
  await control('Reorg')
  await page.locator('.cell.replaced').first().waitFor()
  check('Reorg shows the replaced block', true)

  await page
    .getByLabel('Address', { exact: true })
    .fill('0x00000000000000000000000000000000000000fa')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await page.locator('[data-status="preconfirmed"], [data-status="sealed"]').waitFor()
  check('the faucet sends, and the page follows its transaction', true)
  await page.getByText('Accounts', { exact: true }).click()
  await page.locator('.development tbody tr').nth(9).waitFor()
  check('the page lists ten accounts', (await page.locator('.development tbody tr').count()) === 10)
  check('controls: the console stays empty', said.length === 0, said.join(' | '))
  await checkKeyboard(page, check)
  await close()
}

async function checkKeyboard(page: Page, check: Parts['check']): Promise<void> {
  await page.getByRole('button', { name: 'Freeze' }).focus()
  await page.keyboard.press('Enter')
  await page.keyboard.press('Tab')
  const focused = () =>
    page.evaluate(() => (document.activeElement as HTMLElement).dataset['flashblock'])
  const first = await focused()
  // The newest block may have one flashblock when the chain is paused; the block below is complete.
  await page.keyboard.press('ArrowDown')
  const below = await focused()
  await page.keyboard.press('ArrowRight')
  const right = await focused()
  check(
    'arrow keys move from flashblock to flashblock',
    new Set([first, below, right]).size === 3 && right !== undefined,
    `${first} ${below} ${right}`,
  )
  await page.keyboard.press('Enter')
  await page.locator('.flashblock .facts').waitFor()
  check('Enter opens the flashblock', true)
  await page.keyboard.press('Tab')
  const names = await page.evaluate(
    () =>
      [...document.querySelectorAll('button, input')].filter(
        (one) =>
          (one as HTMLElement).innerText.trim() === '' &&
          one.ariaLabel === null &&
          ((one as HTMLInputElement).labels?.length ?? 0) === 0,
      ).length,
  )
  check('every button and field has a name', names === 0, String(names))
}
