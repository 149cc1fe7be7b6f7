/** What the process is told by signals reaches every cell: keys that are read again, and an end in which what was begun is answered. */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Check } from '../../kit/checks.ts'
import { startNode } from '../../kit/node.ts'
import { ask, listen, together } from './client.ts'

const [OLD, NEW] = ['partner-key-0123456789', 'partner-key-9876543210'] as const
/** JUMPDEST PUSH0 JUMP, for as long as its gas lasts: some tenths of a second. */
const LOOP = '0x5b5f56'
const PLACE = `0x${'b5'.repeat(20)}`
const BEGUN = 6

export async function told(check: Check): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'flashnode-cells-'))
  const path = join(directory, 'keys.json')
  const keys = (key: string) => JSON.stringify({ partner: { key, rateLimit: 50 } })
  writeFileSync(path, keys(OLD))
  const node = await startNode([
    ...['--ephemeral', '--front-threads', '3', '--api-keys', path],
    ...['--rate-limit-of', '127.0.0.0/8=off', '--log-format', 'json'],
  ])
  const statuses = async (key: string) => {
    const replies = await together(12, () =>
      ask(`${node.url}/`, 'eth_chainId', [], { 'x-api-key': key }),
    )
    return new Set(replies.map(({ status }) => status))
  }
  check('a key is known on every cell', [...(await statuses(OLD))].join() === '200')
  writeFileSync(path, keys(NEW))
  node.child.kill('SIGHUP')
  while (!node.output().includes('the API keys were read again'))
    await once(node.child.stderr!, 'data')
  const [old, young] = [await statuses(OLD), await statuses(NEW)]
  check(
    'after SIGHUP each knows the new one alone',
    [...old].join() === '401' && [...young].join() === '200',
    `${[...old]}, ${[...young]}`,
  )
  const sockets = await together(9, () => listen(`${node.url}/flashblocks`))
  const ends = sockets.map(({ socket }) => once(socket, 'close'))
  const begun = Array.from({ length: BEGUN }, (_, index) =>
    ask(`${node.url}/`, 'eth_call', [
      { to: PLACE, gas: `0x${(40_000_000 + index).toString(16)}` },
      'latest',
      { [PLACE]: { code: LOOP } },
    ]),
  )
  // Their answers are of the cells' pools: a question after them is behind them on no connection, and tells that they have been read.
  await ask(`${node.url}/`, 'eth_chainId')
  const status = node.stop('SIGTERM')
  const answers = await Promise.allSettled(begun)
  const answered = answers.filter(
    (one) => one.status === 'fulfilled' && one.value.body.error !== undefined,
  ).length
  check('what was begun is answered before it ends', answered === BEGUN, `${answered} of ${BEGUN}`)
  const codes = new Set((await Promise.all(ends)).map(([code]) => code))
  check('WebSockets of every cell are told', [...codes].join() === '1001', [...codes].join())
  check('and it ends with 0', (await status) === 0)
  rmSync(directory, { recursive: true })
}
