/**
 * Stock clients use filters behind HAProxy, and their replica is killed. The check shows which
 * clients recover, and which need instructions.
 */
import { createPublicClient, http } from 'viem'
import { JsonRpcProvider } from '../../clients/ethers.ts'
import { HANGS_MS } from '../../kit/checks.ts'
import { call } from '../../kit/node.ts'
import { startLeader, temporary, until } from '../follow/nodes.ts'
import { hasHaproxy, startBalancer } from './balancer.ts'
import { environment, startReplica } from './proxy.ts'
import type { Checks } from './section.ts'

const POLL_MS = 250
const ALL_LOGS = { topics: [] }

export async function filters({ check, skip }: Checks): Promise<void> {
  if (!hasHaproxy()) return skip('filters behind HAProxy', 'it is not installed')
  const { node: leader, genesis, load } = await startLeader(() => 0.5, 5)
  const replicas = [
    await startReplica(leader, genesis),
    await startReplica(leader, genesis),
  ] as const
  const balancer = await startBalancer(temporary('filters'), environment(replicas))
  const up = async () =>
    Object.values(await balancer.stats()).filter(({ status }) => status.startsWith('UP')).length
  check('HAProxy uses both replicas', await until(async () => (await up()) === 2, HANGS_MS))
  const clients = watchAll(`${balancer.url}/`)
  const areAll = (counts: Counts, names: readonly Name[]) => names.every((name) => counts[name] > 0)
  check(
    'all clients receive logs and blocks',
    await until(async () => areAll(clients.counts, NAMES), HANGS_MS),
    JSON.stringify(clients.counts),
  )
  const id = await call(`${balancer.url}/`, 'eth_newBlockFilter')
  const [one, other] = Object.values(await balancer.stats()).map(({ requests }) => requests)
  const [gone, left] = one! > other! ? replicas : [replicas[1], replicas[0]]
  check('another replica does not know the filter', (await errorOf(left.node.url, id)) === -32_000)
  gone.node.child.kill('SIGKILL')
  check(
    'after a kill the other replica does not know the filter either',
    await until(async () => (await errorOf(balancer.url, id)) === -32_000, HANGS_MS),
  )
  clients.forget()
  const going = NAMES.filter((name) => name !== 'ethersFilter')
  check(
    'after a kill viem, polling ethers and block watchers recover',
    await until(async () => areAll(clients.counts, going), HANGS_MS),
    JSON.stringify(clients.counts),
  )
  // The documents say so; if ethers fixes this, the documents must change.
  check('after a kill a filter of ethers does not recover', clients.counts.ethersFilter === 0)
  clients.stop()
  await balancer.stop()
  await load.stop()
  await left.node.stop()
  await leader.stop()
}

const NAMES = ['viemLogs', 'viemBlocks', 'ethersFilter', 'ethersPolling', 'ethersBlocks'] as const
type Name = (typeof NAMES)[number]
type Counts = Record<Name, number>

/** ethers does not catch a failed poll for logs, which would end this process. */
class PollingProvider extends JsonRpcProvider {
  override getLogs(filter: object) {
    return super.getLogs(filter).catch(() => [])
  }
}

function watchAll(url: string) {
  const counts = Object.fromEntries(NAMES.map((name) => [name, 0])) as Counts
  const counter = (name: Name) => () => void counts[name]++
  // ethers reports its failures on the console.
  const { log } = console
  console.log = (...said) => {
    if (said[0] !== '@TODO') log(...said)
  }
  const client = createPublicClient({ transport: http(url), pollingInterval: POLL_MS })
  const unwatch = [
    client.watchEvent({ onLogs: counter('viemLogs'), onError() {} }),
    client.watchBlocks({ onBlock: counter('viemBlocks'), onError() {} }),
  ]
  const options = { staticNetwork: true, pollingInterval: POLL_MS }
  const byFilter = new JsonRpcProvider(url, undefined, options)
  const polling = new PollingProvider(url, undefined, { ...options, polling: true })
  void byFilter.on(ALL_LOGS, counter('ethersFilter'))
  void polling.on(ALL_LOGS, counter('ethersPolling'))
  void polling.on('block', counter('ethersBlocks'))
  return {
    counts,
    forget() {
      for (const name of NAMES) counts[name] = 0
    },
    stop() {
      for (const end of unwatch) end()
      for (const provider of [byFilter, polling]) provider.destroy()
      console.log = log
    },
  }
}

async function errorOf(url: string, id: unknown): Promise<number | undefined> {
  try {
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'eth_getFilterChanges',
      params: [id],
    })
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${url.replace(/\/$/, '')}/`, { method: 'POST', headers, body })
    return ((await response.json()) as { readonly error?: { readonly code: number } }).error?.code
  } catch {
    return undefined
  }
}
