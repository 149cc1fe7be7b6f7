/**
 * This module sends transactions like an application: transfers, calls of a contract, and one that
 * fails with its own text.
 */
import { type Account, createWalletClient, type Hex, http, publicActions } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { xLayer } from 'viem/chains'
import { KEYS } from '../../kit/node.ts'

/** The contract logs its calldata and stores a word. */
const BUSY_CODE = '0x366000600037366000a0600160005401600055'
const PACE_MS = 40

/** A contract returns this text, which must not become markup. */
export const WORDS = '<img src=x onerror="document.title=1"><script>document.title=2</script>'

const clientOf = (url: string, account: Account) =>
  createWalletClient({
    account,
    chain: xLayer,
    transport: http(`${url}/flashblocks`),
  }).extend(publicActions)

export type Traffic = {
  /** Sends another transfer and gives its hash and time. */
  send(): Promise<{ readonly hash: `0x${string}`; readonly at: number }>
  /** Sends a transaction that fails with WORDS. */
  fail(): Promise<`0x${string}`>
  /** Starts to send; gives a function that ends it, and that resolves after all responses. */
  start(): () => Promise<void>
}

/** Opens traffic on a node with `--rate-limit off`: a development chain, or its follower. */
export async function openTraffic(url: string): Promise<Traffic> {
  const [first, ...others] = KEYS.map((key) => clientOf(url, privateKeyToAccount(key)))
  // No edits are used, because a follower halts on them.
  const made = async (code: Hex): Promise<Hex> => {
    const hash = await first!.sendTransaction({ data: creationOf(code), gas: 300_000n })
    return (await first!.waitForTransactionReceipt({ hash })).contractAddress!
  }
  const [busy, angry] = [await made(BUSY_CODE), await made(revertingWith(WORDS))]
  return {
    async send() {
      const wanted = { to: busy, value: 1n, data: '0xa9059cbb' } as const
      const request = await first!.prepareTransactionRequest(wanted)
      const serializedTransaction = await first!.signTransaction(request)
      const at = performance.now()
      return { hash: await first!.sendRawTransaction({ serializedTransaction }), at }
    },
    fail: () => first!.sendTransaction({ to: angry, gas: 100_000n }),
    start() {
      let isOver = false
      const senders = others.map(async (client, at) => {
        for (let sent = 0; !isOver; sent++) {
          const data = `0x${'ab'.repeat((37 * sent) % 200)}` as const
          await client.sendTransaction({ to: at % 2 === 0 ? busy : client.account.address, data })
          await new Promise((resolve) => setTimeout(resolve, PACE_MS * (1 + (sent % 7))))
        }
      })
      return async () => {
        isOver = true
        await Promise.all(senders)
      }
    },
  }
}

/** Makes init code that copies the following code to memory and returns it. */
function creationOf(code: Hex): Hex {
  const length = ((code.length - 2) / 2).toString(16).padStart(4, '0')
  return `0x61${length}80600a5f395ff3${code.slice(2)}`
}

/** Makes code that reverts with Error(string). */
function revertingWith(text: string): Hex {
  const word = (value: number) => value.toString(16).padStart(64, '0')
  const bytes = Buffer.from(text)
  const padded = Buffer.alloc(32 * Math.ceil(bytes.length / 32))
  bytes.copy(padded)
  const data = `08c379a0${word(32)}${word(bytes.length)}${padded.toString('hex')}`
  const length = (data.length / 2).toString(16).padStart(2, '0')
  // The code copies the following bytes to memory and reverts with them.
  return `0x60${length}600c60003960${length}6000fd${data}`
}
