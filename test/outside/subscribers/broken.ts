/**
 * These subscribers follow a chain whose promises are broken under load. The sum of their events
 * must be the chain in the end.
 */
import type { Check } from '../../kit/checks.ts'
import { call } from '../../kit/node.ts'
import { type Subscriber, subscribe } from './client.ts'
import { KINDS, type SealedReceipt, type World } from './kinds.ts'

/** The subscription at this index has no filter. */
const AT = 0
const EACH = 3
const EMITTED_KINDS = ['flashblocks', 'newFlashblockTransactions', 'transactionReceipts'] as const
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
    /** Gives the newest block that is pending now, once it is sealed. */
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
  const emitted = await Promise.all(EMITTED_KINDS.map(open))
  const first = await around.first()
  const done = new AbortController()
  const breaking = breakNow(url, random, done.signal)
  await around.load()
  done.abort()
  const broken = await breaking
  const last = await around.last()
  const all = [...logs, ...emitted.flat()]
  await Promise.all(all.map((one) => one.reached()))
  const receipts = await around.sealed(first, last)
  check('promises were broken during the load', broken >= 3, `${broken} times`)
  const due = receipts.flatMap((receipt) => KINDS['pendingLogs']!.due(receipt, AT, world))
  const sums = logs.map((one) => sumOf(one, { first, last }))
  const removed = Math.min(...sums.map((sum) => sum.removed))
  check(
    'logs less the removed ones are those of the chain',
    sums.every((sum) => sum.wrong === undefined && sum.left.join() === due.join()) &&
      removed > 0 &&
      due.length > 0,
    sums.find((sum) => sum.wrong !== undefined)?.wrong ??
      `${due.length} in blocks ${first} to ${last}, ${removed} were removed, ${sums.map(({ left }) => left.length)} are left`,
  )
  const wanted = receipts.map(({ transactionHash }) => transactionHash)
  const orders = emitted.flat().map((one) => lastOf(one.emitted, wanted))
  check(
    "each kind last emitted the chain's transactions in the chain's order",
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
    // The chain may have nothing to break at the moment.
    const isDone = await call(url, method, params).then(
      () => true,
      () => false,
    )
    if (isDone) broken++
  }
  return broken
}

/**
 * Lists the logs of blocks `first` to `last` that remain when each removed log is taken off the
 * end.
 */
function sumOf(
  { emitted }: Subscriber,
  { first, last }: { readonly first: number; readonly last: number },
): { readonly left: readonly string[]; readonly removed: number; readonly wrong?: string } {
  const left: string[] = []
  let removed = 0
  for (const key of emitted) {
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

/** Orders the wanted transactions by their last events. */
function lastOf(emitted: readonly string[], wanted: readonly string[]): string[] {
  const set = new Set(wanted)
  const order = new Set<string>()
  for (const hash of emitted) {
    if (!set.has(hash)) continue
    order.delete(hash)
    order.add(hash)
  }
  return [...order]
}
