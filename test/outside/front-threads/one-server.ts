/**
 * Three front threads are one server: a client's expectations must hold on any of its connections.
 */
import { keccak256 } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { Check } from '../../kit/checks.ts'
import { freePort } from '../../kit/free-port.ts'
import { metricsUrl } from '../../kit/metrics.ts'
import { KEYS, type RunningNode, startNode } from '../../kit/node.ts'
import { type Counts, isLimitedTo, rateText, untilRefused } from '../rate.ts'
import { listen, post, request, result, together } from './client.ts'

const FRONT_THREADS = 3
/** The longest receipt hold that is allowed. */
const HOLD_MS = 10_000
/** A timer may be early by this much. */
const EARLY_MS = 10
/** With this many connections each front thread has some, except once in 10⁷ runs. */
const MANY = 40

export async function oneServer(check: Check): Promise<void> {
  const admin = await freePort()
  const node = await startNode([
    ...['--ephemeral', '--front-threads', String(FRONT_THREADS), '--admin-port', String(admin)],
    ...['--trust-proxy', '127.0.0.0/8', '--rate-limit-of', '127.0.0.0/8=off'],
    ...['--limit-filters-per-client', '10', '--limit-sockets-per-client', '400'],
    // A flashblock may take longer than the default.
    ...['--receipt-hold', String(HOLD_MS), '--limit-shown-hold-ms', '60000'],
    ...['--limit-sync-send-ms', '60000'],
  ])
  try {
    const metrics = metricsUrl(admin)
    await sharesPort(check, node)
    const served = await limits(check, node, metrics)
    await filters(check, node)
    await transactions(check, node)
    await dropped(check, node)
    await controls(check, node)
    await listeners(check, node)
    await seen(check, node, { metrics, served })
  } finally {
    check('the node ends with 0', (await node.stop()) === 0)
  }
}

async function sharesPort(check: Check, { url }: RunningNode): Promise<void> {
  const port = new URL(url).port
  const second = await startNode(['--ephemeral', '--front-threads', '2', '--port', port]).then(
    async (node) => {
      await node.stop()
      return 'it has started'
    },
    (error: Error) => error.message,
  )
  const isRefused = second.includes(`port ${port} of 127.0.0.1 is in use`)
  check('a second node cannot share the port', isRefused, isRefused ? '' : second.slice(-300))
}

/** The default number of points a second. */
const LIMIT = 100
/**
 * Each request has its own connection. Few requests use up the points, so that all come within one
 * second.
 */
const [BATCHES, ITEMS, SINGLES] = [9, 11, 12] as const

/**
 * Checks the limits.
 * @returns the number of served requests
 */
async function limits(check: Check, { url }: RunningNode, metrics: string): Promise<number> {
  const from = (address: string) => ({ 'x-forwarded-for': address })
  let all = 0
  const said = await untilRefused(
    { perSecond: LIMIT, metrics: [metrics] },
    async (attempt): Promise<Counts> => {
      const address = from(`198.18.${attempt}.1`)
      const item = { jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] }
      const batch = Array.from({ length: ITEMS }, () => item)
      const served = async (count: number, body: unknown) =>
        (await together(count, () => post(url, body, address))).filter(
          ({ status }) => status === 200,
        ).length
      const points = (await served(BATCHES, batch)) * ITEMS + (await served(SINGLES, item))
      all += points
      return { sent: BATCHES * ITEMS + SINGLES, served: points }
    },
  )
  check(
    'one address has 100 requests a second over all front threads',
    isLimitedTo(LIMIT, said),
    rateText(said),
  )
  const other = await together(60, () => request(url, 'eth_chainId', [], from('203.0.113.2')))
  check(
    'another address has its own limit',
    other.every(({ status }) => status === 200),
  )
  const made = await together(30, () => request(url, 'eth_newBlockFilter', [], from('203.0.113.3')))
  const taken = made.filter(({ body }) => body.error === undefined).length
  check('filters of an address are counted over all', taken === 10, `${taken} of 10`)
  return all + other.length
}

async function filters(check: Check, { url }: RunningNode): Promise<void> {
  const id = await result<string>(url, 'eth_newBlockFilter')
  const from = BigInt(await result<string>(url, 'eth_blockNumber'))
  for (;;) if (BigInt(await result<string>(url, 'eth_blockNumber')) >= from + 2n) break
  const polled = await together(MANY, () => result<string[]>(url, 'eth_getFilterChanges', [id]))
  const hashes = polled.flat()
  const isOnce = new Set(hashes).size === hashes.length && hashes.length >= 2
  check(
    'a filter can be polled on every front thread, and reports each block once',
    isOnce,
    String(hashes.length),
  )
  const logs = await result<string>(url, 'eth_newFilter', [{ fromBlock: '0x0' }])
  const found = await together(12, () => request(url, 'eth_getFilterLogs', [logs]))
  check(
    'eth_getFilterLogs works on every front thread',
    found.every(({ body }) => Array.isArray(body.result)),
  )
  const removed = await together(12, () => result<boolean>(url, 'eth_uninstallFilter', [id]))
  check('a filter is removed only once', removed.filter(Boolean).length === 1)
  const gone = await together(12, () => request(url, 'eth_getFilterChanges', [id]))
  const said = new Set(gone.map(({ body }) => body.error?.message))
  const foreign = await together(6, () =>
    request(url, 'eth_getFilterChanges', [`0x${'de'.repeat(16)}`]),
  )
  for (const { body } of foreign) said.add(body.error?.message)
  check(
    'after the removal every front thread answers filter not found',
    said.size === 1 && said.has('filter not found'),
    [...said].join(),
  )
}

/** Checks that a transaction sent on one connection is visible on all others at once. */
async function transactions(check: Check, { url }: RunningNode): Promise<void> {
  const account = privateKeyToAccount(KEYS[1])
  const preconf = `${url}/flashblocks`
  const nonceOn = (to: string) =>
    result<string>(to, 'eth_getTransactionCount', [account.address, 'pending'])
  let wrong = 0
  let unknown = 0
  let lost = 0
  let early = 0
  for (let nonce = 0; nonce < 20; nonce++) {
    const raw = await account.signTransaction({
      nonce,
      gas: 21_000n,
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 10n ** 9n,
      to: account.address,
      value: 1n,
      chainId: 196,
      type: 'eip1559',
    })
    const hash = await result<string>(preconf, 'eth_sendRawTransaction', [raw])
    const [nonces, found, receipts] = await Promise.all([
      together(6, () => nonceOn(preconf)),
      together(3, () => result(preconf, 'eth_getTransactionByHash', [hash])),
      together(3, () => waitsForReceipt(preconf, hash)),
    ])
    wrong += nonces.filter((one) => Number(one) !== nonce + 1).length
    unknown += found.filter((one) => one === null).length
    lost += receipts.filter((isThere) => !isThere).length
    const latest = await together(3, () =>
      result<string>(preconf, 'eth_getTransactionCount', [account.address, 'latest']),
    )
    early += latest.filter((one) => Number(one) !== nonce + 1).length
  }
  check(
    'a nonce counts transactions that other connections have sent',
    wrong === 0,
    `${wrong} of 120 wrong`,
  )
  check('every front thread finds a pending transaction', unknown === 0, `${unknown} of 60`)
  check(
    'every front thread holds a receipt request until the receipt exists',
    lost === 0,
    `${lost} of 60 were null`,
  )
  check(
    'a read of latest has the block of every receipt that a front thread has returned',
    early === 0,
    `${early} of 60`,
  )
}

/** Checks that a wait for a receipt ends when the transaction leaves the txpool. */
async function dropped(check: Check, { url }: RunningNode): Promise<void> {
  const account = privateKeyToAccount(KEYS[4])
  const all = await together(9, (index) =>
    account.signTransaction({
      // Nonce 0 is missing, so that no block includes these.
      nonce: index + 1,
      gas: 21_000n,
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 10n ** 9n,
      to: account.address,
      chainId: 196,
      type: 'eip1559',
    }),
  )
  const replies = together(9, (index) => request(url, 'eth_sendRawTransactionSync', [all[index]]))
  for (const hash of all.map((raw) => keccak256(raw))) {
    while ((await result(url, 'eth_getTransactionByHash', [hash])) === null) {}
    await result(url, 'anvil_dropTransaction', [hash])
  }
  const messages = new Set((await replies).map(({ body }) => body.error?.message))
  check(
    'every front thread ends the wait for a dropped transaction with the reason',
    messages.size === 1 && messages.has('transaction was dropped: it was dropped'),
    [...messages].join(),
  )
}

/** Waits for a receipt, and repeats the request after each full hold. */
async function waitsForReceipt(url: string, hash: string): Promise<boolean> {
  for (;;) {
    const started = performance.now()
    if ((await result(url, 'eth_getTransactionReceipt', [hash])) !== null) return true
    if (performance.now() - started < HOLD_MS - EARLY_MS) return false
  }
}

/** Checks methods of the main thread, requested on any front thread. */
async function controls(check: Check, { url }: RunningNode): Promise<void> {
  const from = privateKeyToAccount(KEYS[2]).address
  const hashes = await together(MANY, () =>
    result<string>(url, 'eth_sendTransaction', [{ from, to: from, value: '0x1' }]),
  )
  const all = await Promise.all(
    hashes.map((hash) =>
      result<{ nonce: string }>(`${url}/flashblocks`, 'eth_getTransactionByHash', [hash]),
    ),
  )
  const nonces = new Set(all.map(({ nonce }) => Number(nonce)))
  check('simultaneous sends without a nonce get different nonces', nonces.size === MANY)
  const who = `0x${'77'.repeat(20)}`
  await result(url, 'anvil_impersonateAccount', [who])
  await result(url, 'anvil_setBalance', [who, '0xde0b6b3a7640000'])
  const sent = await together(6, () =>
    request(url, 'eth_sendTransaction', [{ from: who, to: from, value: '0x1', gas: '0x5208' }]),
  )
  check(
    'every front thread sends for an impersonated account',
    sent.every(({ body }) => typeof body.result === 'string'),
    JSON.stringify(sent.find(({ body }) => body.error !== undefined)?.body.error ?? ''),
  )
  const bad = await together(6, () => request(url, 'anvil_setBalance', [who, 'much']))
  const codes = new Set(bad.map(({ body }) => body.error?.code))
  check(
    'every front thread gives the same error for a wrong control call',
    codes.size === 1 && codes.has(-32602),
  )
}

async function listeners(check: Check, { url }: RunningNode): Promise<void> {
  const sockets = await together(12, () => listen(`${url}/flashblocks`))
  await Promise.all(sockets.map(({ call }) => call('eth_subscribe', ['newPendingTransactions'])))
  const account = privateKeyToAccount(KEYS[3])
  const hashes = new Set<string>()
  for (let nonce = 0; nonce < 5; nonce++) {
    const raw = await account.signTransaction({
      nonce,
      gas: 21_000n,
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 10n ** 9n,
      to: account.address,
      value: 1n,
      chainId: 196,
      type: 'eip1559',
    })
    hashes.add(await result<string>(url, 'eth_sendRawTransaction', [raw]))
  }
  const hasAll = (received: readonly unknown[]) =>
    [...hashes].every((hash) => received.includes(hash))
  await Promise.all(sockets.map(({ until }) => until(hasAll)))
  check('newPendingTransactions reach subscribers on every front thread', true)
  for (const { socket } of sockets) socket.close()
  await feeds(check, url)
}

type Enriched = { readonly run: string; readonly seq: number; readonly snapshot: boolean }

async function feeds(check: Check, url: string): Promise<void> {
  const readers = await together(9, () => listen(`${url}/feed?enrich=1`))
  await Promise.all(readers.map(({ until }) => until((received) => received.length >= 8)))
  const texts = new Map<string, Set<string>>()
  let runs = new Set<string>()
  for (const { received, socket } of readers) {
    for (const message of received as Enriched[]) {
      runs = runs.add(message.run)
      if (message.snapshot) continue
      const key = `${message.run} ${message.seq}`
      texts.set(key, (texts.get(key) ?? new Set()).add(JSON.stringify(message)))
    }
    socket.close()
  }
  const isSame = [...texts.values()].every(({ size }) => size === 1)
  check(
    'every front thread serves the same feed with the same numbers',
    runs.size === 1 && isSame,
    isSame
      ? [...runs].join()
      : JSON.stringify([...texts].find(([, all]) => all.size > 1)).slice(0, 600),
  )
}

async function seen(
  check: Check,
  { url }: RunningNode,
  { metrics, served }: { readonly metrics: string; readonly served: number },
): Promise<void> {
  const text = await (await fetch(metrics)).text()
  const calls = [
    ...text.matchAll(
      /^flashnode_rpc_calls_total\{method="eth_chainId",code="0",cell="(\d)"\} (\d+)/gm,
    ),
  ]
  const sum = calls.reduce((total, [, , count]) => total + Number(count), 0)
  check(
    'one scrape has the calls of each front thread',
    calls.length === FRONT_THREADS && sum === served,
    calls.map(([, frontThread, count]) => `${frontThread}: ${count}`).join(', '),
  )
  const helps = text.match(/^# HELP flashnode_rpc_calls_total/gm)?.length
  check('a metric has one HELP line in the scrape', helps === 1)
  const ready = await together(12, async () => (await fetch(`${url}/readyz`)).status)
  check(
    '/readyz is 200 on every front thread',
    new Set(ready).size === 1 && ready[0] === 200,
    ready.join(),
  )
}
