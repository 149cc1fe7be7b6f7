/** A record runs again, each time to the same end. */
import type { Check } from '../checks.ts'
import { temporary } from '../follow/nodes.ts'
import { startNode } from '../node-process.ts'
import { runJson } from '../operate/command.ts'
import { ledgerOf, type Recorded, readNode } from './world.ts'

export type Ended = {
  readonly frames: number
  readonly blocks: number
  readonly held: number
  readonly isCut: boolean
  readonly shown: { readonly canonical: number; readonly pending: number; readonly index: number }
  readonly differs: string | null
}

export async function checkReplays(
  recorded: Recorded,
  { check, times }: { readonly check: Check; readonly times: number },
): Promise<void> {
  const { name, file, read, ledger, first } = recorded
  const dropped = ledger.split('"dropped"').length + ledger.split('"reordered"').length - 2
  check(`${name}: promises were broken`, dropped > 0, `${dropped}`)
  for (let time = 1; time <= times; time++) {
    const datadir = temporary('replay')
    const limits = ['--rate-limit', 'off', '--pool-threads', '2', '--datadir', datadir]
    const node = await startNode([...limits, '--stay', file], 'replay')
    const again = await readNode(node.url, first)
    const said = node.output()
    check(`${name}, time ${time}: ends with 0`, (await node.stop()) === 0)
    check(
      `${name}, time ${time}: all that was shown is shown again`,
      said.includes('the same as it was recorded'),
      said.slice(-400),
    )
    const other = again.blocks.findIndex((block, at) => block !== read.blocks[at])
    check(
      `${name}, time ${time}: the same blocks and receipts, pending too`,
      again.head === read.head && other < 0 && read.blocks.length > 5,
      other < 0 ? `${read.blocks.length}` : `${read.blocks[other]} is ${again.blocks[other]}`,
    )
    check(
      `${name}, time ${time}: the same words of each transaction`,
      again.statuses.join() === read.statuses.join() && read.statuses.length > 0,
      `${read.statuses.length}`,
    )
    const ours = await ledgerOf(datadir, read, first)
    check(
      `${name}, time ${time}: the same ledger`,
      ours === ledger && ledger.length > 1_000,
      ours === ledger ? `${ledger.length} characters` : otherIn(ledger, ours),
    )
  }
}

function otherIn(a: string, b: string): string {
  const at = [...a].findIndex((letter, index) => letter !== b[index])
  return `${a.slice(at - 200, at + 100)} is ${b.slice(at - 200, at + 100)}`
}

export const replayed = (file: string, more: readonly string[] = []) =>
  runJson<Ended>(['replay', file, ...more, '--log-level', 'fatal'])
