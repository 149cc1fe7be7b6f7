/**
 * This load runs on a node from its start to its end. It records everything visible, which a kill
 * may not take back.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { encodeAbiParameters, getContractAddress, type Hex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { call, KEYS, type RunningNode } from '../../kit/node.ts'

export type Receipt = {
  readonly transactionHash: Hex
  readonly blockNumber: Hex
  readonly blockHash: Hex
  readonly transactionIndex: Hex
  readonly gasUsed: Hex
  readonly cumulativeGasUsed: Hex
  readonly status: Hex
  readonly contractAddress: Hex | null
  readonly logs: readonly { readonly logIndex: Hex; readonly topics: readonly Hex[] }[]
}
export type VisibleBlock = {
  readonly number: Hex
  readonly hash: Hex
  readonly transactions: readonly Hex[]
}

/** The records cover all runs of a node. */
export type Seen = {
  /** The raw transactions by hash whose submission succeeded. */
  readonly accepted: Map<Hex, Hex>
  /** The first visible receipt of each transaction, by /flashblocks. */
  readonly receipts: Map<Hex, Receipt>
  /** The balance by account of successful edits; no other part of the test uses these accounts. */
  readonly edits: Map<Hex, Hex>
  /** The hash by number: `latest` of / and of /flashblocks. */
  readonly canonical: Map<number, Hex>
  readonly complete: Map<number, Hex>
  /** The pending blocks of the newest run, by their partial hash. */
  readonly pending: Map<Hex, VisibleBlock>
}
export const nothingSeen = (): Seen => ({
  accepted: new Map(),
  receipts: new Map(),
  edits: new Map(),
  canonical: new Map(),
  complete: new Map(),
  pending: new Map(),
})

/**
 * The contract writes a number of slots with one value from a slot on, and logs where it stopped.
 * The calldata is (start, count, value), 32 bytes each. A block of such calls is persisted in
 * several slices.
 */
const SPREADER_CODE = '60003560203581015b8082106016578060006000a1005b60403582559060010190600856'
const SPREADER: Hex = `0x602480600b6000396000f3${SPREADER_CODE}`
const SPREAD_SLOTS = 900
/** The contract reverts at once. */
const REVERTER: Hex = '0x600580600b6000396000f360006000fd'

const BACK_OFF_MS = 500
/** Each edit makes a block. */
const BETWEEN_EDITS_MS = 700

type Sender = { readonly account: PrivateKeyAccount; nonce: number }

export type Load = {
  /**
   * Sends and reads until the process has ended. `isExpected` names errors that are no faults of
   * the node.
   */
  run(node: RunningNode, isExpected?: (error: unknown) => boolean): Promise<void>
  readonly seen: Seen
}

export function createLoad(random: () => number): Load {
  const seen = nothingSeen()
  const senders: Sender[] = KEYS.map((key) => ({ account: privateKeyToAccount(key), nonce: 0 }))
  const spreader = getContractAddress({ from: senders[0]!.account.address, nonce: 0n })
  const reverter = getContractAddress({ from: senders[0]!.account.address, nonce: 1n })

  /**
   * Makes the next transaction. The first account creates the contracts; half of the accounts fill
   * slots, the others send transfers and reverts.
   */
  function next(sender: Sender): { readonly to?: Hex; readonly data?: Hex; readonly gas: bigint } {
    if (senders.indexOf(sender) % 2 === 1) {
      if (random() < 0.1) return { to: reverter, gas: 50_000n }
      return { to: '0x00000000000000000000000000000000000000f1', gas: 21_000n }
    }
    if (sender === senders[0] && sender.nonce === 0) return { data: SPREADER, gas: 200_000n }
    if (sender === senders[0] && sender.nonce === 1) return { data: REVERTER, gas: 200_000n }
    // The count is small enough for a flashblock's time, also on a busy machine.
    const count = 20 + Math.floor(random() * 60)
    const start = Math.floor(random() * (SPREAD_SLOTS - count))
    // A third of the calls clears the slots that it meets.
    const value = Math.max(0, Math.floor(random() * 300) - 100)
    const word = { type: 'uint256' } as const
    const data = encodeAbiParameters([word, word, word], [start, count, value].map(BigInt) as never)
    return { to: spreader, data, gas: 60_000n + 23_000n * BigInt(count) }
  }

  async function send(node: RunningNode, sender: Sender): Promise<void> {
    const raw = await sender.account.signTransaction({
      chainId: 196,
      type: 'eip1559',
      nonce: sender.nonce,
      value: 0n,
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: 1_000_000n,
      ...next(sender),
    })
    const flashblocks = `${node.url}/flashblocks`
    const hash = (await call(flashblocks, 'eth_sendRawTransaction', [raw])) as Hex
    seen.accepted.set(hash, raw)
    sender.nonce++
    const receipt = (await call(flashblocks, 'eth_getTransactionReceipt', [hash])) as Receipt | null
    if (receipt !== null) seen.receipts.set(hash, receipt)
    // On a busy machine the pool would grow for as long as the load lasts.
    else await sleep(BACK_OFF_MS)
  }

  async function edit(node: RunningNode): Promise<void> {
    await sleep(BETWEEN_EDITS_MS)
    const address = `0xed${bytesOf(random).toString('hex')}` as const
    const balance = `0x${(1 + Math.floor(random() * 2 ** 40)).toString(16)}` as const
    await call(node.url, 'anvil_setBalance', [address, balance])
    seen.edits.set(address, balance)
  }

  async function watch(node: RunningNode): Promise<void> {
    const block = async (path: string, tag: string) =>
      (await call(`${node.url}${path}`, 'eth_getBlockByNumber', [tag, false])) as VisibleBlock
    const canonical = await block('/', 'latest')
    seen.canonical.set(Number(canonical.number), canonical.hash)
    const complete = await block('/flashblocks', 'latest')
    seen.complete.set(Number(complete.number), complete.hash)
    const pending = await block('/flashblocks', 'pending')
    seen.pending.set(pending.hash, pending)
    await sleep(20)
  }

  return {
    seen,
    async run(node, isExpected = isCut) {
      const isGone = () => node.child.exitCode !== null || node.child.signalCode !== null
      const whileAlive = async (step: () => Promise<void>) => {
        while (!isGone())
          try {
            await step()
          } catch (error) {
            if (!isExpected(error)) throw error
            await sleep(20)
          }
      }
      seen.pending.clear()
      // A transaction may be accepted although the kill lost the response, so the node's own nonce
      // is read.
      for (const sender of senders)
        sender.nonce = Number(
          await call(`${node.url}/flashblocks`, 'eth_getTransactionCount', [
            sender.account.address,
            'pending',
          ]),
        )
      await Promise.all([
        ...senders.map((sender) => whileAlive(() => send(node, sender))),
        whileAlive(() => edit(node)),
        whileAlive(() => watch(node)),
      ])
    },
  }
}

const bytesOf = (random: () => number) =>
  Buffer.from(Array.from({ length: 19 }, () => Math.floor(random() * 256)))

/** Whether the error comes from a cut connection, because a killed node cuts its connections. */
export const isCut = (error: unknown): boolean =>
  /fetch failed|terminated|other side closed|ECONNRE/.test(String(error))
