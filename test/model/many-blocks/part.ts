/** Makes 10,000 blocks and kills the node several times. Each start must find the same chain. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { measurement } from '../../kit/checks.ts'
import { call, callMany, type RunningNode, startNode } from '../../kit/node.ts'
import type { Part } from '../part.ts'
import type { Made } from './child.ts'

const CHILD = fileURLToPath(new URL('./child.ts', import.meta.url))
const STARTS = { short: 1, full: 3 }
/** A start that read all blocks would take many times as long as a start on an empty directory. */
const MAX_STARTS = 2
const MAX_LOG_BYTES = 150e6

export const manyBlocks: Part = {
  name: 'a start on many blocks',
  async run({ isShort }, check) {
    const root = mkdtempSync(join(tmpdir(), 'flashnode-blocks-'))
    const folder = join(root, 'many')
    mkdirSync(folder)
    try {
      const empty = await start(join(root, 'none'))
      await empty.node.stop('SIGKILL')
      const startedMs = performance.now()
      const made = await makeBlocks(folder, isShort ? 100 : 10_000)
      const seconds = Math.round((performance.now() - startedMs) / 1000)
      const logs = [logBytes(folder)]
      const starts: Start[] = []
      const found: string[] = []
      const count = isShort ? STARTS.short : STARTS.full
      for (let n = 0; n < count; n++) {
        const started = await start(folder)
        const { node } = started
        starts.push(started)
        found.push(...(await differences(node.url, made)))
        await node.stop('SIGKILL')
        logs.push(logBytes(folder))
      }
      check(
        'each start after a kill finds the same block hashes',
        found.length === 0,
        `${made.blocks} blocks, ${made.transactions} transactions in ${seconds} s, ${made.hashes.length} hashes after each of ${count} kills, ${found.length} differences ${found.slice(0, 3).join('; ')}`,
      )
      check(
        `the write-ahead log stays below ${MAX_LOG_BYTES / 1e6} MB`,
        Math.max(...logs) < MAX_LOG_BYTES,
        `${logs.map((bytes) => (bytes / 1e6).toFixed(1)).join(', ')} MB`,
      )
      const text = ({ readyMs, cpuMs }: Start) => `${readyMs} ms with ${cpuMs} ms of CPU`
      const times = `${starts.map(text).join(', ')}, the first after the longest log; on an empty directory ${text(empty)}`
      check(
        `no start takes ${MAX_STARTS} times the processor time of a start on an empty directory`,
        starts.every(({ cpuMs }) => cpuMs < MAX_STARTS * empty.cpuMs),
      )
      measurement(`starts took ${times}`)
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  },
}

type Start = { readonly node: RunningNode; readonly readyMs: number; readonly cpuMs: number }

async function start(folder: string): Promise<Start> {
  const node = await startNode(['--datadir', folder, '--rate-limit', 'off'])
  return { node, readyMs: Math.round(node.readyMs), cpuMs: cpuMsOf(node.pid) }
}

/** Processor time of all threads so far; 1 where the system does not report it. */
function cpuMsOf(pid: number): number {
  if (process.platform !== 'linux') return 1
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ')
  // Fields 14 and 15 of proc_pid_stat(5), in hundredths of a second.
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Makes the blocks in another process, then kills it, so that nothing is closed. */
async function makeBlocks(folder: string, blocks: number): Promise<Made> {
  const child = fork(CHILD, [folder, `${blocks}`], { execArgv: [] })
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  const ended = once(child, 'exit')
  const first = await Promise.race([once(child, 'message'), ended])
  const [made] = first as [Made]
  if (typeof made !== 'object') throw new Error(`the process that makes blocks ended: ${first}`)
  end()
  await ended
  process.off('exit', end)
  return made
}

const logBytes = (folder: string): number =>
  readdirSync(join(folder, 'state'))
    .filter((name) => name.endsWith('.log'))
    .reduce((sum, name) => sum + statSync(join(folder, 'state', name)).size, 0)

/**
 * Compares the hashes of all blocks, the receipt of the last transaction, and the balance of its
 * recipient. The balance is read at the head and at the block before.
 */
async function differences(
  url: string,
  { blocks, hashes, lastHash, recipient }: Made,
): Promise<string[]> {
  const tagOf = (number: number) => `0x${number.toString(16)}`
  const lists = hashes.map(([number]) => [tagOf(number), false])
  const responses = (await callMany(url, 'eth_getBlockByNumber', lists)) as { hash?: string }[]
  const found = hashes.flatMap(([number, hash], at) =>
    responses[at]?.hash === hash ? [] : [`block ${number} was ${hash}, is ${responses[at]?.hash}`],
  )
  const receipt = (await call(url, 'eth_getTransactionReceipt', [lastHash])) as { status: string }
  if (receipt?.status !== '0x1') found.push(`${lastHash} has no receipt`)
  for (const tag of ['latest', tagOf(blocks - 1)])
    if ((await call(url, 'eth_getBalance', [recipient, tag])) !== '0x1')
      found.push(`${recipient} has another balance at ${tag}`)
  return found
}
