/** Honest clients send these requests, each with a weight and a check of its response. */
import { getContractAddress, type Hex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { KEYS } from '../../kit/node.ts'
import { balanceOf, TOKEN_CREATION, transferTo } from '../soak/token.ts'

export type Question = {
  readonly method: string
  readonly params: readonly unknown[]
  readonly isRight: (result: unknown) => boolean
}
/** Sends a request and gives the result, if the result is right. */
export type Put = (question: Question) => Promise<unknown>

const SENDER: PrivateKeyAccount = privateKeyToAccount(KEYS[1])
const TOKEN = getContractAddress({ from: SENDER.address, nonce: 0n })

const isHex = (result: unknown): boolean => typeof result === 'string' && result.startsWith('0x')
const isWord = (result: unknown): boolean => isHex(result) && (result as string).length === 66
const question = (
  method: string,
  params: readonly unknown[],
  isRight: Question['isRight'],
): Question => ({ method, params, isRight })

const holderOf = (random: () => number) =>
  `0x${Math.floor(random() * 2 ** 48)
    .toString(16)
    .padStart(40, '0')}` as Hex

const countOfSender = question('eth_getTransactionCount', [SENDER.address, 'pending'], isHex)

/** Sends transfers one after the other from one account; each must be accepted. */
export function createTransfers(put: Put, random: () => number) {
  let nonce = 0
  let isSending = false
  async function send(what: { to?: Hex; data: Hex; gas: bigint }): Promise<unknown> {
    isSending = true
    const raw = await SENDER.signTransaction({
      chainId: 196,
      type: 'eip1559',
      nonce,
      ...what,
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: 1_000_000n,
    })
    const hash = await put(question('eth_sendRawTransaction', [raw], isWord))
    // A transaction whose response was lost may be in the pool.
    const count = hash ?? (await put(countOfSender))
    if (hash !== undefined) nonce++
    else if (count !== undefined) nonce = Number(count)
    isSending = false
    return hash
  }
  return {
    get isSending() {
      return isSending
    },
    deploy: () => send({ data: TOKEN_CREATION, gas: 300_000n }),
    /** Sends a transfer and gives its hash. */
    send: () => send({ to: TOKEN, data: transferTo(holderOf(random), 1n), gas: 100_000n }),
  }
}

export const receiptOf = (hash: unknown): Question =>
  question(
    'eth_getTransactionReceipt',
    [hash],
    (result) => (result as { transactionHash?: string } | null)?.transactionHash === hash,
  )

/**
 * Makes a mix of requests.
 * @param receipt of a transaction that is in a block
 */
export function questionMix(receipt: Question, random: () => number): () => Question {
  const call = () => ({ to: TOKEN, data: balanceOf(holderOf(random)) })
  const transfer = () => ({
    from: SENDER.address,
    to: TOKEN,
    data: transferTo(holderOf(random), 1n),
  })
  const isBlock = (result: unknown) => isHex((result as { hash?: string } | null)?.hash)
  const kinds: readonly (readonly [weight: number, make: () => Question])[] = [
    [8, () => question('eth_blockNumber', [], isHex)],
    [8, () => question('eth_getBalance', [holderOf(random), 'latest'], isHex)],
    [10, () => question('eth_call', [call(), 'latest'], isWord)],
    [5, () => receipt],
    [5, () => question('eth_getBlockByNumber', ['latest', random() < 0.3], isBlock)],
    [3, () => question('eth_estimateGas', [transfer()], isHex)],
  ]
  const total = kinds.reduce((sum, [weight]) => sum + weight, 0)
  return () => {
    let at = random() * total
    for (const [weight, make] of kinds) {
      at -= weight
      if (at < 0) return make()
    }
    return receipt
  }
}
