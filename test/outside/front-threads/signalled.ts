/**
 * Signals to the process reach every front thread: keys are read again, and at the end all started
 * requests get responses.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Check } from '../../kit/checks.ts'
import { freePort } from '../../kit/free-port.ts'
import { metricsUrl, readMetrics, sumOfMetrics } from '../../kit/metrics.ts'
import { startNode } from '../../kit/node.ts'
import { listen, request, together } from './client.ts'

const [OLD, NEW] = ['partner-key-0123456789', 'partner-key-9876543210'] as const
/** JUMPDEST PUSH0 JUMP loops until its gas is used up, which takes some tenths of a second. */
const LOOP = '0x5b5f56'
const LOOP_ADDRESS = `0x${'b5'.repeat(20)}`
const STARTED = 6

export async function signalled(check: Check): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'flashnode-cells-'))
  const path = join(directory, 'keys.json')
  const keys = (key: string) => JSON.stringify({ partner: { key, rateLimit: 50 } })
  writeFileSync(path, keys(OLD))
  const admin = await freePort()
  const node = await startNode([
    ...['--ephemeral', '--front-threads', '3', '--admin-port', String(admin), '--api-keys', path],
    ...['--rate-limit-of', '127.0.0.0/8=off', '--log-format', 'json'],
  ])
  const statuses = async (key: string) => {
    const replies = await together(12, () =>
      request(`${node.url}/`, 'eth_chainId', [], { 'x-api-key': key }),
    )
    return new Set(replies.map(({ status }) => status))
  }
  check('every front thread accepts an API key', [...(await statuses(OLD))].join() === '200')
  writeFileSync(path, keys(NEW))
  node.child.kill('SIGHUP')
  while (!node.output().includes('the API keys were read again'))
    await once(node.child.stderr!, 'data')
  const [old, young] = [await statuses(OLD), await statuses(NEW)]
  check(
    'after SIGHUP every front thread accepts the new key alone',
    [...old].join() === '401' && [...young].join() === '200',
    `${[...old]}, ${[...young]}`,
  )
  const sockets = await together(9, () => listen(`${node.url}/flashblocks`))
  const ends = sockets.map(({ socket }) => once(socket, 'close'))
  let ended = 0
  const started = Array.from({ length: STARTED }, (_, index) =>
    request(`${node.url}/`, 'eth_call', [
      { to: LOOP_ADDRESS, gas: `0x${(40_000_000 + index).toString(16)}` },
      'latest',
      { [LOOP_ADDRESS]: { code: LOOP } },
    ]).finally(() => ended++),
  )
  // The calls run in the pools of the front threads. All of them must have been read before the
  // signal, because a request that arrives later is refused.
  const inFlight = async () =>
    sumOfMetrics(await readMetrics(metricsUrl(admin)), /^flashnode_front\{.*what="inFlight"/)
  while ((await inFlight()) + ended < STARTED) {}
  const status = node.stop('SIGTERM')
  const responses = await Promise.allSettled(started)
  const responded = responses.filter(
    (one) => one.status === 'fulfilled' && one.value.body.error !== undefined,
  ).length
  check(
    'started requests get responses before the node ends',
    responded === STARTED,
    `${responded} of ${STARTED}`,
  )
  const codes = new Set((await Promise.all(ends)).map(([code]) => code))
  check(
    'WebSockets of every front thread close with 1001',
    [...codes].join() === '1001',
    [...codes].join(),
  )
  check('the node ends with 0', (await status) === 0)
  rmSync(directory, { recursive: true })
}
