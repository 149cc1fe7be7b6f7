/** A cell that ends under load: its connections end, the answers of the others are right, and another one takes its place. */
import type { Check } from '../../kit/checks.ts'
import type { Edit } from '../../kit/edits.ts'
import { freePort } from '../../kit/free-port.ts'
import { startNode } from '../../kit/node.ts'
import { ask, listen, result } from './client.ts'
import { INSPECTED, inspect } from './inspector.ts'

const MODULE = 'workers/cells/cell.ts'
const CELLS = 3
const ENDS = 3
const SENDERS = 8
/** Of which the cell that ends has none once in 10⁵ times. */
const SOCKETS = 30

/** A test need not wait as long as a busy machine may have to. */
const SOON_ENDED: readonly Edit[] = [
  { file: 'workers/cells/cells.ts', find: 'MOST_SILENT = 20', replace: 'MOST_SILENT = 5' },
]
/** It gives back what it is given. */
const IDENTITY = `0x${'04'.padStart(40, '0')}`

type Counted = { right: number; wrong: string[]; ended: number }

export async function ended(check: Check): Promise<void> {
  const admin = await freePort()
  const before = process.env['NODE_OPTIONS']
  process.env['NODE_OPTIONS'] = `${before ?? ''} ${INSPECTED}`.trim()
  const node = await startNode(
    [
      ...['--ephemeral', '--front-threads', String(CELLS), '--admin-port', String(admin)],
      ...['--rate-limit', 'off'],
    ],
    'dev',
    SOON_ENDED,
  )
  if (before === undefined) delete process.env['NODE_OPTIONS']
  else process.env['NODE_OPTIONS'] = before
  const inspector = await inspect(node, MODULE, CELLS)
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
      // The last one does not end by itself: its loop stands still.
      inspector.run(MODULE, end < ENDS ? 'process.exit(3)' : 'for (;;);')
      await replaced(admin, end)
      const left = sockets.length - closed
      check(
        `end ${end}: sockets of that cell have ended, and no others`,
        closed > 0 && left > 0,
        `${closed} of ${sockets.length}`,
      )
      const { body } = await ask(node.url, 'eth_getFilterChanges', [filter])
      check(
        `end ${end}: a filter is there, or says that it is gone`,
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
  check('no answer is wrong', counted.wrong.length === 0, counted.wrong.slice(0, 3).join('; '))
  const most = ENDS * SENDERS
  check(
    'none but the requests on the cells that ended are lost',
    counted.ended <= most && counted.right > 100,
    `${counted.right} right, ${counted.ended} ended with their cell, at most ${most}`,
  )
  check('it ends when it is told to', (await node.stop()) === 0)
}

async function one(url: string, index: number, counted: Counted): Promise<void> {
  const data = `0x${String(counted.right).padStart(8, '0')}${String(index).padStart(8, '0')}`
  try {
    const { body } = await ask(url, 'eth_call', [{ to: IDENTITY, data }, 'latest'])
    if (body.result === data) counted.right++
    else counted.wrong.push(JSON.stringify(body))
  } catch {
    counted.ended++
  }
}

/** The node has said that it has replaced so many, and answers from all of its cells. */
async function replaced(admin: number, count: number): Promise<void> {
  for (;;) {
    const text = await (await fetch(`http://127.0.0.1:${admin}/metrics`)).text()
    const said = /^flashnode_mishaps\{what="cell_replaced"\} (\d+)$/m.exec(text)
    const cells = text.match(/^flashnode_pool_threads\{cell="\d"\}/gm)?.length ?? 0
    if (Number(said?.[1] ?? 0) >= count && cells === CELLS) return
  }
}
