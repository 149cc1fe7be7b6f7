/** What a leader may tell wrong, in the words of docs/feed-enriched.md, and what finds it. */

import { type Hex, parseTransaction } from 'viem'

/** Messages that a plant may look back at: more than one block is told in. */
export const LOOKS_BACK = 32
/**
 * The message as it is sent then; undefined: it has nothing that fits.
 * @param before the last `LOOKS_BACK` messages before it, the newest last
 */
export type Plant = (text: string, before: readonly string[]) => string | undefined

type Told = {
  seq: number
  run: string
  snapshot: boolean
  flashblocks: {
    number: number
    index: number
    payload_id: string | null
    header: { parentHash: string }
    transactions: { raw: Hex; from: string }[]
    receipts: {
      status: string
      gasUsed: string
      cumulativeGasUsed: string
      logs: { data: string }[]
    }[]
    accounts: {
      account: { nonce: string; balance: string } | null
      slots: [string, string][]
    }[]
  }[]
}
type Flashblock = Told['flashblocks'][number]

export type Planted = {
  readonly name: string
  readonly plant: Plant
  /** As the log names what has found it. */
  readonly kind: string
  /** It fits where two accounts send with the same nonce. */
  readonly needsPair?: true
}

/** In a flashblock that fits, with transactions of users; not in what a reader begins with. */
const inFlashblock =
  (
    fits: (one: Flashblock, before: readonly string[]) => boolean,
    spoil: (one: Flashblock, before: readonly string[]) => void,
  ): Plant =>
  (text, before) => {
    const told = JSON.parse(text) as Told
    const one = told.snapshot
      ? undefined
      : told.flashblocks.find(
          (each) => each.index > 0 && each.transactions.length > 0 && fits(each, before),
        )
    if (one === undefined) return undefined
    spoil(one, before)
    return JSON.stringify(told)
  }
const always = () => true
const nonceOf = ({ raw }: Flashblock['transactions'][number]) =>
  raw.startsWith('0x7e') ? undefined : parseTransaction(raw).nonce
/**
 * Its sender has nothing else in the flashblock, and no other of the block has its nonce so far. A further one of a nonce is recovered where it is
 * applied, and an account whose nonce went two up for one transaction is found first.
 */
function loneOne(
  { number, transactions }: Flashblock,
  before: readonly string[],
): Flashblock['transactions'][number] | undefined {
  const block = before
    .flatMap((text) => (JSON.parse(text) as Told).flashblocks)
    .filter((one) => one.number === number)
    .flatMap((one) => one.transactions)
  return transactions.find((one) => {
    const nonce = nonceOf(one)
    const others = transactions.filter((two) => two !== one)
    return (
      nonce !== undefined &&
      [...block, ...others].every((two) => nonceOf(two) !== nonce) &&
      others.every(({ from }) => from !== one.from)
    )
  })
}
function pairOf(transactions: Flashblock['transactions']) {
  const nonceAt = (at: number) => nonceOf(transactions[at]!)
  for (const one of transactions) {
    const nonce = nonceOf(one)
    const two = transactions.find(({ from }, at) => from !== one.from && nonceAt(at) === nonce)
    if (nonce !== undefined && two !== undefined) return [one, two] as const
  }
  return undefined
}
const hex = (value: bigint) => `0x${value.toString(16)}`
const other = (word: string) => `${word.slice(0, -1)}${word.endsWith('1') ? '2' : '1'}`

export const PLANTED: readonly Planted[] = [
  {
    name: 'a balance',
    kind: 'balance',
    plant: inFlashblock(always, ({ accounts }) => {
      const { account } = accounts.find((one) => one.account !== null)!
      account!.balance = hex(BigInt(account!.balance) + 1n)
    }),
  },
  {
    name: 'a nonce',
    kind: 'nonce',
    plant: inFlashblock(always, ({ accounts }) => {
      for (const { account } of accounts)
        if (account !== null && account.nonce !== '0x0')
          account.nonce = hex(BigInt(account.nonce) + 1n)
    }),
  },
  {
    name: 'an account that is left out',
    kind: 'before',
    plant: inFlashblock(always, ({ accounts }) => void accounts.shift()),
  },
  {
    name: 'a status',
    kind: 'receiptsRoot',
    plant: inFlashblock(always, ({ receipts }) => {
      receipts[0]!.status = receipts[0]!.status === '0x1' ? '0x0' : '0x1'
    }),
  },
  {
    name: 'a log',
    kind: 'receiptsRoot',
    plant: inFlashblock(
      ({ receipts }) => receipts.some(({ logs }) => logs.length > 0),
      ({ receipts }) => {
        const { logs } = receipts.find((one) => one.logs.length > 0)!
        logs[0]!.data = other(logs[0]!.data)
      },
    ),
  },
  {
    name: 'gas',
    kind: 'gasUsed',
    plant: inFlashblock(always, ({ receipts }) => {
      receipts[0]!.gasUsed = hex(BigInt(receipts[0]!.gasUsed) + 1n)
    }),
  },
  {
    name: 'another payload',
    kind: 'payload',
    plant: inFlashblock(always, (one) => {
      one.payload_id = other(one.payload_id!)
    }),
  },
  {
    name: 'a slot',
    kind: 'root',
    plant: inFlashblock(
      ({ accounts }) => accounts.some(({ slots }) => slots.length > 0),
      ({ accounts }) => {
        const { slots } = accounts.find((one) => one.slots.length > 0)!
        slots[0]![1] = other(slots[0]![1])
      },
    ),
  },
]

/** No root has them. */
export const MISSENT: readonly Planted[] = [
  {
    name: 'a sender',
    kind: 'account',
    plant: inFlashblock(
      (flashblock, before) => loneOne(flashblock, before) !== undefined,
      (flashblock, before) => {
        const one = loneOne(flashblock, before)!
        one.from = other(one.from)
      },
    ),
  },
  {
    name: 'two senders with one nonce, swapped',
    kind: 'sender',
    needsPair: true,
    plant: inFlashblock(
      ({ transactions }) => pairOf(transactions) !== undefined,
      ({ transactions }) => {
        const [one, two] = pairOf(transactions)!
        const { from } = one
        one.from = two.from
        two.from = from
      },
    ),
  },
]

/** Of the messages themselves: each is found when it is read. */
export const MISTOLD: readonly Planted[] = [
  {
    name: 'another parent',
    kind: 'parent',
    plant: inFlashblock(always, ({ header }) => {
      header.parentHash = other(header.parentHash)
    }),
  },
  {
    name: 'another index',
    kind: 'index',
    plant: inFlashblock(always, (one) => {
      one.index++
    }),
  },
  {
    name: 'a run that is over',
    kind: 'run',
    plant: inRunning((told) => JSON.stringify({ ...told, run: other(told.run) })),
  },
  { name: 'a message twice', kind: 'sequence', plant: inRunning((_, before) => before.at(-1)) },
  {
    name: 'half a message',
    kind: 'malformed',
    plant: inRunning((told) => JSON.stringify(told).slice(0, -100)),
  },
]

function inRunning(spoil: (told: Told, before: readonly string[]) => string | undefined): Plant {
  return (text, before) => {
    const told = JSON.parse(text) as Told
    return told.snapshot || before.length === 0 ? undefined : spoil(told, before)
  }
}
