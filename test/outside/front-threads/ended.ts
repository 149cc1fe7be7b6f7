/**
 * A front thread ends under load. Its connections end, the responses of the others are right, and a
 * new thread replaces it.
 */
import { type Check, HANGS_MS } from '../../kit/checks.ts'
import { freePort } from '../../kit/free-port.ts'
import { metricsUrl, readMetrics } from '../../kit/metrics.ts'
import { startNode } from '../../kit/node.ts'
import { listen, request, result } from './client.ts'
import { INSPECTED, inspect } from './inspector.ts'

const MODULE = 'workers/front-threads/front-thread.ts'
const FRONT_THREADS = 3
const ENDS = 3
const SENDERS = 8
/** With this many sockets, the front thread that ends has none only once in 10⁵ runs. */
const SOCKETS = 30

/** The identity contract returns its input. */
const IDENTITY = `0x${'04'.padStart(40, '0')}`

type Counted = { right: number; wrong: string[]; ended: number }

export async function ended(check: Check): Promise<void> {
  const admin = await freePort()
  const before = process.env['NODE_OPTIONS']
  process.env['NODE_OPTIONS'] = `${before ?? ''} ${INSPECTED}`.trim()
  const node = await startNode(
    [
      ...['--ephemeral', '--front-threads', String(FRONT_THREADS), '--admin-port', String(admin)],
      // On a busy machine a call may wait for longer than the default of 5 s.
      ...['--rate-limit', 'off', '--limit-call-ms', String(HANGS_MS)],
    ],
    'dev',
  )
  if (before === undefined) delete process.env['NODE_OPTIONS']
  else process.env['NODE_OPTIONS'] = before
  const inspector = await inspect(node, MODULE, FRONT_THREADS)
  const counted: Counted = { right: 0, wrong: [], ended: 0 }
  let isOver = false
  const load = Array.from({ length: SENDERS }, async (_, index) => {
    while (!isOver) await one(node.url, index, counted)
  })
  try {
    for (let end = 1; end <= ENDS; end++) {
      const filter = await result<string>(node.url, 'eth_newBlockFilter')
      const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => listen(node.url)))
      let closed = 0
      for (const { socket } of sockets) socket.once('close', () => closed++)
      // The last front thread does not end by itself, because its loop stands still.
      inspector.run(MODULE, end < ENDS ? 'process.exit(3)' : 'for (;;);')
      await replaced(admin, end)
      const left = sockets.length - closed
      check(
        `end ${end}: sockets of that front thread have closed, and no others`,
        closed > 0 && left > 0,
        `${closed} of ${sockets.length}`,
      )
      const { body } = await request(node.url, 'eth_getFilterChanges', [filter])
      check(
        `end ${end}: a filter still works, or the node reports that it is gone`,
        Array.isArray(body.result) || body.error?.message === 'filter not found',
        JSON.stringify(body).slice(0, 200),
      )
      for (const { socket } of sockets) socket.terminate()
    }
  } finally {
    isOver = true
    await Promise.all(load)
    inspector.close()
  }
  check('no response is wrong', counted.wrong.length === 0, counted.wrong.slice(0, 3).join('; '))
  const max = ENDS * SENDERS
  check(
    'only the open requests of the ended front threads are lost',
    counted.ended <= max && counted.right > 100,
    `${counted.right} right, ${counted.ended} ended with their front thread, at most ${max}`,
  )
  check('the node ends with 0', (await node.stop()) === 0)
}

async function one(url: string, index: number, counted: Counted): Promise<void> {
  const data = `0x${String(counted.right).padStart(8, '0')}${String(index).padStart(8, '0')}`
  try {
    const { body } = await request(url, 'eth_call', [{ to: IDENTITY, data }, 'latest'])
    if (body.result === data) counted.right++
    else counted.wrong.push(JSON.stringify(body))
  } catch {
    counted.ended++
  }
}

/** Waits until the node reports this many replacements, and all of its front threads respond. */
async function replaced(admin: number, count: number): Promise<void> {
  for (;;) {
    const metrics = await readMetrics(metricsUrl(admin))
    const said = metrics.get('flashnode_mishaps{what="cell_replaced"}') ?? 0
    const frontThreads = [...metrics.keys()].filter((name) =>
      /^flashnode_pool_threads\{cell="\d"\}$/.test(name),
    )
    if (said >= count && frontThreads.length === FRONT_THREADS) return
  }
}
