/**
 * These clients send through HAProxy, each from its own account. An accepted transaction must be in
 * the chain, and its receipt must come.
 */
import type { Hex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { DEV_ACCOUNTS } from '../../../../engine/chainspec/dev-accounts.ts'
import type { Reply } from '../../../kit/batch.ts'
import { bodyOf } from '../../../kit/client.ts'
import { call } from '../../../kit/node.ts'
import { transferTo } from '../../soak/token.ts'
import { type Observations, pause, request } from './observations.ts'

export type Sender = { readonly account: PrivateKeyAccount; nonce: number; readonly from: string }
export type Sending = {
  readonly url: string
  readonly dev: string
  readonly observations: Observations
  readonly token: Hex
  readonly holders: readonly Hex[]
  readonly sent: Hex[]
  readonly random: () => number
  readonly isOver: () => boolean
}

const PACE_MS = 250
const RECEIPT_MS = 15_000
/** After this time a transaction that a dead replica had forwarded is in the txpool, or lost. */
const SETTLED_MS = 1_500

export const createSenders = (count: number): Sender[] =>
  DEV_ACCOUNTS.slice(0, count).map(({ privateKey }, at) => ({
    account: privateKeyToAccount(privateKey as Hex),
    nonce: 0,
    from: `127.0.21.${at + 1}`,
  }))

export const sign = (
  { account, nonce }: Sender,
  fields: { readonly to?: Hex; readonly data?: Hex; readonly value?: bigint },
): Promise<Hex> =>
  account.signTransaction({
    chainId: 196,
    type: 'eip1559',
    nonce,
    gas: 200_000n,
    maxFeePerGas: 10n ** 11n,
    maxPriorityFeePerGas: 1_000_000n,
    ...fields,
  })

export async function send(around: Sending, sender: Sender): Promise<void> {
  while (!around.isOver()) {
    const hash = await sendOne(around, sender)
    if (hash !== undefined) await receiptOf(around, sender, hash)
    await pause(PACE_MS * 2 * around.random())
  }
}

async function sendOne(around: Sending, sender: Sender): Promise<Hex | undefined> {
  const { observations, random, holders, token } = around
  const holder = holders[Math.floor(random() * holders.length)]!
  const raw = await sign(
    sender,
    random() < 0.6 ? { to: token, data: transferTo(holder, 1n) } : { to: holder, value: 1n },
  )
  sender.nonce++
  const started = performance.now()
  const said = await request(observations, {
    url: `${around.url}/flashblocks`,
    body: bodyOf('eth_sendRawTransaction', [raw]),
    from: sender.from,
  })
  if (typeof said?.result === 'string') {
    around.sent.push(said.result as Hex)
    return said.result as Hex
  }
  if (said !== undefined)
    observations.fault(
      'refused',
      `${sender.from} sent nonce ${sender.nonce - 1} at ${observations.seconds(started)}: ${said.text}`,
    )
  await pause(SETTLED_MS)
  const next = await call(`${around.dev}/flashblocks`, 'eth_getTransactionCount', [
    sender.account.address,
    'pending',
  ])
  sender.nonce = Number(next)
  return undefined
}

/** Waits for a receipt, which must stay once it is visible. */
async function receiptOf(around: Sending, { from }: Sender, hash: Hex): Promise<void> {
  const { observations } = around
  const started = performance.now()
  while (performance.now() - started < RECEIPT_MS) {
    const said = await request(observations, {
      url: `${around.url}/flashblocks`,
      body: bodyOf('eth_getTransactionReceipt', [hash]),
      from,
    })
    if (said === undefined) continue
    const { result, error } = JSON.parse(said.text) as Reply
    if (error !== undefined) {
      observations.fault('refused', `${from} asked for the receipt of ${hash}: ${said.text}`)
      return
    }
    if (result !== null) {
      observations.count('receipts')
      const { status } = result as { readonly status: string }
      if (status !== '0x1') observations.fault('wrong', `${from} ${hash} has status ${status}`)
      return
    }
    observations.count('receipts that were not there yet')
    await pause(20)
  }
  observations.fault(
    'wrong',
    `${from} no receipt of ${hash}, taken at ${observations.seconds(started)}`,
  )
}
