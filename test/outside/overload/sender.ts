/** This sender signs transactions of the known accounts, one after the other. */
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { call, KEYS } from '../../kit/node.ts'
import { settled } from './overloaded-node.ts'

export type Receipt = { readonly blockNumber: Hex; readonly gasUsed: Hex; readonly status: Hex }
export type Sender = {
  readonly address: Hex
  /**
   * Sends a transaction and gives its hash.
   * @throws {Error} with the node's reason
   */
  send(fields: {
    readonly to: Hex
    readonly gas: bigint
    readonly data?: Hex
    readonly fee?: bigint
    /** The default is the next nonce. */
    readonly nonce?: number
  }): Promise<Hex>
}

/**
 * Makes a sender.
 * @param which of the accounts
 */
export function createSender(url: string, which: number): Sender {
  const account = privateKeyToAccount(KEYS[which]!)
  let next = 0
  return {
    address: account.address,
    async send({ to, gas, data, fee = 10n ** 9n, nonce = next }) {
      const raw = await account.signTransaction({
        type: 'eip1559',
        chainId: 196,
        value: 0n,
        to,
        gas,
        nonce,
        data,
        maxFeePerGas: fee,
        maxPriorityFeePerGas: fee / 1_000n,
      })
      const hash = (await call(`${url}/flashblocks`, 'eth_sendRawTransaction', [raw])) as Hex
      next = Math.max(next, nonce + 1)
      return hash
    },
  }
}

/**
 * Waits for a receipt.
 * @throws when the wait takes longer than a minute
 */
export async function mined(url: string, hash: string, path = '/'): Promise<Receipt> {
  const receipt = await settled(
    () => call(`${url}${path}`, 'eth_getTransactionReceipt', [hash]) as Promise<Receipt | null>,
    (found) => found !== null,
  )
  if (receipt === null) throw new Error(`no receipt of ${hash}`)
  return receipt
}
