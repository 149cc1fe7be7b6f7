/** Subscribers of a chain whose promises are broken under load: what they add up is the chain in the end. */
import type { Check } from '../../kit/checks.ts'
import { call } from '../../kit/node.ts'
import { type Subscriber, subscribe } from './client.ts'
import { KINDS, type SealedReceipt, type World } from './kinds.ts'

/** Without a filter. */
const AT = 0
const EACH = 3
const TOLD = ['flashblocks', 'newFlashblockTransactions', 'transactionReceipts'] as const
const BETWEEN_MS = 700
const BREAKS: readonly (readonly [method: string, params: readonly unknown[]])[] = [
  ['dev_reorg', [{ depth: 0, keep: true }]],
  ['dev_reorg', [{ depth: 1, keep: true }]],
  ['dev_reorg', [{ depth: 3, keep: true }]],
  ['dev_equivocate', [{ keep: true }]],
  ['dev_gap', []],
]

export async function breakPromises(
  check: Check,
  around: {
    readonly url: string
    readonly world: World
    readonly random: () => number
    /** Sends transactions meanwhile. */
    readonly load: () => Promise<unknown>
    /** The newest block of all that is pending now, when it is sealed. */
    readonly last: () => Promise<number>
    readonly sealed: (first: number, last: number) => Promise<readonly SealedReceipt[]>
    readonly first: () => Promise<number>
  },
): Promise<void> {
  const { url, world, random } = around
  const socket = `${url.replace('http', 'ws')}/flashblocks`
  const open = (name: string) => {
    const kind = KINDS[name]!
    return Promise.all(
      Array.from({ length: EACH }, () => subscribe(socket, kind.params(AT, world), kind.keysOf)),
    )
  }
  const logs = await open('pendingLogs')
  const told = await Promise.all(TOLD.map(open))
  const first = await around.first()
  const done = new AbortController()
  const breaking = breakNow(url, random, done.signal)
  await around.load()
  done.abort()
  const broken = await breaking
  const last = await around.last()
  const all = [...logs, ...told.flat()]
  await Promise.all(all.map((one) => one.reached()))
  const receipts = await around.sealed(first, last)
  check('promises were broken', broken >= 3, `${broken} times`)
  const due = receipts.flatMap((receipt) => KINDS['pendingLogs']!.due(receipt, AT, world))
  const sums = logs.map((one) => sumOf(one, { first, last }))
  const removed = Math.min(...sums.map((sum) => sum.removed))
  check(
    'logs less those removed are those of the chain',
    sums.every((sum) => sum.wrong === undefined && sum.left.join() === due.join()) &&
      removed > 0 &&
      due.length > 0,
    sums.find((sum) => sum.wrong !== undefined)?.wrong ??
      `${due.length} in blocks ${first} to ${last}, ${removed} were removed, ${sums.map(({ left }) => left.length)} are left`,
  )
  const wanted = receipts.map(({ transactionHash }) => transactionHash)
  const orders = told.flat().map((one) => lastOf(one.told, wanted))
  check(
    'the transactions of the chain were told last in its order, by each kind',
    orders.every((order) => order.join() === wanted.join()),
    `${wanted.length} of the chain, ${orders.map(({ length }) => length)} told`,
  )
  for (const one of all) one.close()
}

async function breakNow(url: string, random: () => number, signal: AbortSignal): Promise<number> {
  let broken = 0
  while (!signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, BETWEEN_MS))
    const [method, params] = BREAKS[Math.floor(random() * BREAKS.length)]!
    // There may be nothing to break at the moment.
    const isDone = await call(url, method, params).then(
      () => true,
      () => false,
    )
    if (isDone) broken++
  }
  return broken
}

/** Logs of blocks `first` to `last` that are left when each removed one is taken off the end. */
function sumOf(
  { told }: Subscriber,
  { first, last }: { readonly first: number; readonly last: number },
): { readonly left: readonly string[]; readonly removed: number; readonly wrong?: string } {
  const left: string[] = []
  let removed = 0
  for (const key of told) {
    if (!key.endsWith(' removed')) {
      left.push(key)
      continue
    }
    removed++
    const newest = left.pop()
    if (`${newest} removed` !== key) return { left, removed, wrong: `${key} after ${newest}` }
  }
  const isWithin = (key: string) => {
    const number = Number(key.split('/', 1)[0])
    return number >= first && number <= last
  }
  return { left: left.filter(isWithin), removed }
}

/** The wanted ones by where each was told last. */
function lastOf(told: readonly string[], wanted: readonly string[]): string[] {
  const set = new Set(wanted)
  const order = new Set<string>()
  for (const hash of told) {
    if (!set.has(hash)) continue
    order.delete(hash)
    order.add(hash)
  }
  return [...order]
}
