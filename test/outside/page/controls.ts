/**
 * The page controls a development chain, and must show the results; the page must also work by
 * keyboard alone.
 */
import type { Page } from 'playwright-core'
import { post } from '../../kit/client.ts'
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
  await checkKeyboard(page, { check, url })
  await close()
}

/** The keys move over two blocks that this check makes: a sealed block and one flashblock above. */
async function checkKeyboard(
  page: Page,
  { check, url }: Pick<Parts, 'check' | 'url'>,
): Promise<void> {
  await controlChain(url, 'dev_pause')
  await controlChain(url, 'dev_step')
  const { number } = await controlChain(url, 'dev_step')
  await controlChain(url, 'dev_seal')
  await controlChain(url, 'dev_step')
  const tile = (block: number, index: number) =>
    page.locator(`[data-flashblock="${block}:${index}"]`).waitFor()
  await tile(number, 1)
  await tile(number + 1, 0)

  await page.getByRole('button', { name: 'Freeze' }).focus()
  await page.keyboard.press('Enter')
  await page.keyboard.press('Tab')
  const focusedAfter = async (key?: string) => {
    if (key !== undefined) await page.keyboard.press(key)
    return page.evaluate(() => (document.activeElement as HTMLElement).dataset['flashblock'])
  }
  const first = await focusedAfter()
  // The key goes to the closest tile of the row below, which may be the first one or the last.
  const below = await focusedAfter('ArrowDown')
  const isAtIndex0 = below === `${number}:0`
  const beside = await focusedAfter(isAtIndex0 ? 'ArrowRight' : 'ArrowLeft')
  check(
    'arrow keys move from flashblock to flashblock',
    first === `${number + 1}:0` &&
      below?.startsWith(`${number}:`) === true &&
      beside === `${number}:${isAtIndex0 ? 1 : Number(below.split(':')[1]) - 1}`,
    `${first} ${below} ${beside}`,
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
  await controlChain(url, 'dev_resume')
}

/** @returns the number of the block that the method names; NaN if it names none */
async function controlChain(url: string, method: string): Promise<{ readonly number: number }> {
  const { text } = await post(url, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: [] }))
  const { result, error } = JSON.parse(text)
  if (error !== undefined) throw new Error(`${method}: ${error.message}`)
  return { number: Number(result?.number) }
}
