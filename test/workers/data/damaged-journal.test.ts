/** A start with a damaged journal of transactions loses one of them, and reports the damage. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import { call, KEYS, startNode } from '../../kit/node.ts'

const datadir = mkdtempSync(join(tmpdir(), 'flashnode-damaged-'))
afterAll(() => rmSync(datadir, { recursive: true, force: true }))

/** Nonces after a gap, so that the transactions stay in the txpool. */
const NONCES = [5, 6, 7, 8, 9]
const JOURNAL = 'transactions.journal'

async function signed(): Promise<readonly string[]> {
  const account = privateKeyToAccount(KEYS[0])
  const transaction = { chainId: 196, to: account.address, gas: 21_000n, gasPrice: 10n ** 10n }
  return Promise.all(NONCES.map((nonce) => account.signTransaction({ ...transaction, nonce })))
}

test('a flipped bit in the journal costs one transaction, and a copy is reported', async () => {
  const flags = ['--datadir', datadir]
  const first = await startNode(flags)
  const raws = await signed()
  const hashes = await Promise.all(
    raws.map((raw) => call(first.url, 'eth_sendRawTransaction', [raw])),
  )
  await first.stop('SIGKILL')

  const path = join(datadir, JOURNAL)
  const bytes = readFileSync(path)
  // The damaged byte is in the middle of the second record.
  const second = bytes.indexOf(Buffer.from(raws[1]!.slice(2), 'hex'))
  bytes[second + 50]! ^= 1
  writeFileSync(path, bytes)

  const node = await startNode(flags)
  const known = await Promise.all(
    hashes.map((hash) => call(node.url, 'eth_getTransactionByHash', [hash])),
  )
  const copy = `${path}.damaged-1`
  await expect.poll(() => node.output()).toContain('"what":"journal_damaged"')
  expect(node.output()).toContain(copy)
  await node.stop('SIGKILL')
  expect(readFileSync(copy)).toEqual(bytes)
  expect(readdirSync(datadir)).toContain(JOURNAL)
  expect(known.map((transaction) => transaction !== null)).toEqual([true, false, true, true, true])
})
