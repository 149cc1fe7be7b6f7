/**
 * Each kind of subscriber has its parameters and the keys of its recorded events. It takes the
 * expected keys from the sealed chain.
 */
import { type Hex, pad, toHex } from 'viem'

export type SealedReceipt = {
  readonly transactionHash: Hex
  readonly blockNumber: Hex
  readonly from: Hex
  readonly to: Hex | null
  readonly logs: readonly {
    readonly address: Hex
    readonly logIndex: Hex
    readonly topics: readonly Hex[]
  }[]
}
export type Kind = {
  /** Makes the parameters of subscriber `at`. */
  params(at: number, world: World): readonly unknown[]
  keysOf(result: unknown): readonly string[]
  /** Lists the keys that subscriber `at` must receive, in order. */
  due(receipt: SealedReceipt, at: number, world: World): readonly string[]
}
export type World = { readonly senders: readonly Hex[]; readonly contract: Hex }

/** One in this many subscribers has no filter. */
const UNFILTERED = 5
const isFiltered = (at: number) => at % UNFILTERED !== 0
const senderOf = (at: number, { senders }: World): Hex => senders[at % senders.length]!
const nobody = (at: number, count: number): Hex[] =>
  Array.from({ length: count }, (_, index) =>
    pad(toHex(0xf00d_0000 + at * 100 + index), { size: 20 }),
  )

/** Calls use this many topics in turn. */
export const TOPICS = 8
export const topicOf = (at: number): Hex => pad(toHex(at % TOPICS), { size: 32 })

const object = (result: unknown) => result as Readonly<Record<string, unknown>>
const logKey = (log: Readonly<Record<string, unknown>>): string =>
  `${log['blockNumber']}/${log['logIndex']}${log['removed'] === true ? ' removed' : ''}`

export const KINDS: Readonly<Record<string, Kind>> = {
  flashblocks: {
    params: (at, world) => [
      'flashblocks',
      isFiltered(at)
        ? { subTxFilter: { subscribeAddresses: [senderOf(at, world), ...nobody(at, 9)] } }
        : {},
    ],
    keysOf: (result) => [String(object(object(result)['transaction'])['txHash'])],
    due: ({ transactionHash, from, to, logs }, at, world) => {
      const touched = [from, to, ...logs.map(({ address }) => address)]
      return !isFiltered(at) || touched.includes(senderOf(at, world)) ? [transactionHash] : []
    },
  },
  newFlashblockTransactions: {
    params: (at) => ['newFlashblockTransactions', at % 2 === 1],
    keysOf: (result) => [typeof result === 'string' ? result : String(object(result)['hash'])],
    due: ({ transactionHash }) => [transactionHash],
  },
  pendingLogs: {
    params: (at, { contract }) => [
      'pendingLogs',
      isFiltered(at) ? { address: contract, topics: [topicOf(at)] } : {},
    ],
    keysOf: (result) => [logKey(object(result))],
    due: ({ logs }, at) =>
      logs
        .filter(({ topics }) => !isFiltered(at) || topics[0] === topicOf(at))
        .map((log) => logKey(log)),
  },
  transactionReceipts: {
    // The filtered hashes are never sent.
    params: (at) => [
      'transactionReceipts',
      isFiltered(at) ? { transactionHashes: [pad(toHex(0xf00d_0000 + at), { size: 32 })] } : {},
    ],
    keysOf: (result) =>
      (result as Readonly<Record<string, unknown>>[]).map((one) => String(one['transactionHash'])),
    due: ({ transactionHash }, at) => (isFiltered(at) ? [] : [transactionHash]),
  },
  /**
   * An event has a partial block; its new transactions are those that the event before did not
   * have.
   */
  newFlashblocks: {
    params: () => ['newFlashblocks'],
    keysOf: (result) => {
      const { number, transactions } = object(result) as {
        readonly number: string
        readonly transactions: readonly { readonly hash: string }[]
      }
      return [[number, ...transactions.map(({ hash }) => hash)].join(' ')]
    },
    due: ({ transactionHash }) => [transactionHash],
  },
}

/**
 * Lists the transactions of partial blocks in order of appearance.
 * @throws when a block does not extend the one before
 */
export function grownTransactions(emitted: readonly string[]): string[] {
  const all: string[] = []
  let before: readonly string[] = []
  for (const block of emitted.map((key) => key.split(' '))) {
    const isSame = block[0] === before[0]
    const known = isSame ? before : [block[0]]
    if (known.some((hash, at) => block[at] !== hash))
      throw new Error(`a block so far is not the one before and more: ${block[0]}`)
    all.push(...block.slice(known.length))
    before = block
  }
  return all
}
