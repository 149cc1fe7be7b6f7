/** A recording is replayed several times, each time with the same result. */
import type { Check } from '../../kit/checks.ts'
import type { Edit } from '../../kit/edits.ts'
import { startNode } from '../../kit/node.ts'
import { temporary } from '../follow/nodes.ts'
import { runJson } from '../operate/command.ts'
import type { PlantedResponse } from './planted.ts'
import { ledgerOf, type Recorded, readNode } from './world.ts'

export type Ended = {
  readonly frames: number
  readonly blocks: number
  readonly held: number
  readonly isCut: boolean
  readonly shown: { readonly canonical: number; readonly pending: number; readonly index: number }
  readonly differs: string | null
  readonly requests: {
    readonly asked: number
    readonly different: number
    readonly differences: readonly {
      readonly method: string
      readonly place: string | null
      readonly was: string
      readonly is: string
    }[]
  }
}

export async function checkReplays(
  recorded: Recorded,
  { check, times }: { readonly check: Check; readonly times: number },
): Promise<void> {
  const { name, file, read, ledger, first } = recorded
  const dropped = ledger.split('"dropped"').length + ledger.split('"reordered"').length - 2
  check(`${name}: promises were broken during the recording`, dropped > 0, `${dropped}`)
  for (let time = 1; time <= times; time++) {
    const datadir = temporary('replay')
    const limits = ['--rate-limit', 'off', '--pool-threads', '2', '--datadir', datadir]
    const node = await startNode([...limits, '--stay', file], 'replay')
    const repeated = await readNode(node.url, first)
    const said = node.output()
    check(`${name}, time ${time}: the replay ends with 0`, (await node.stop()) === 0)
    check(
      `${name}, time ${time}: the replay shows the same views as the recording`,
      said.includes('the same results as the recording'),
      said.includes('the same results as the recording') ? '' : said.slice(-2_000),
    )
    const [requested, same, different] = COUNTED.map((row) => countIn(said, row))
    check(
      `${name}, time ${time}: each request gets the recorded response`,
      different === 0 && same === requested && same! >= MIN_REQUESTED,
      `${differenceIn(said)}${countsIn(said)}`,
    )
    const other = repeated.blocks.findIndex((block, at) => block !== read.blocks[at])
    check(
      `${name}, time ${time}: blocks and receipts are the same, even of pending`,
      repeated.head === read.head && other < 0 && read.blocks.length > 5,
      other < 0 ? `${read.blocks.length}` : `${read.blocks[other]} is ${repeated.blocks[other]}`,
    )
    check(
      `${name}, time ${time}: each transaction has the same statuses`,
      repeated.statuses.join() === read.statuses.join() && read.statuses.length > 0,
      `${read.statuses.length}`,
    )
    const ours = await ledgerOf(datadir, read, first)
    check(
      `${name}, time ${time}: the ledger is the same`,
      ours === ledger && ledger.length > 1_000,
      ours === ledger ? `${ledger.length} characters` : otherIn(ledger, ours),
    )
  }
}

/**
 * Gives the first request with another response, with both responses; '' where no response differs.
 */
function differenceIn(said: string): string {
  const found = /^.*\n {2}was .*\n {2}is .*$/m.exec(said)
  return found === null ? '' : `${found[0].replaceAll(/\n */g, ', ')}; `
}
const countsIn = (said: string): string | undefined =>
  /^requests repeated[\s\S]*?(?=canonical \d)/m
    .exec(said)?.[0]
    .replaceAll(/ *\n/g, '; ')
    .replaceAll(/ {2,}/g, ' ')

const MIN_REQUESTED = 50
const COUNTED = ['requests repeated', 'with the same answer', 'with another answer']
const countIn = (said: string, row: string): number =>
  Number(new RegExp(`^${row} +([\\d,]+)$`, 'm').exec(said)?.[1]?.replaceAll(',', '') ?? Number.NaN)

function otherIn(a: string, b: string): string {
  const at = [...a].findIndex((letter, index) => letter !== b[index])
  return `${a.slice(at - 200, at + 100)} is ${b.slice(at - 200, at + 100)}`
}

/**
 * Checks that a build with wrong responses is found by the clients' responses, and by nothing else.
 */
export async function checkPlanted(
  { name, file }: Recorded,
  planted: PlantedResponse,
  check: Check,
): Promise<void> {
  const { status, result } = await replayed(file, [], planted.edits)
  const { different, differences } = result.requests
  check(
    `${name}: ${planted.name}: replay finds and names it with both responses, and ends with 1`,
    status === 1 &&
      result.differs === null &&
      different > 0 &&
      differences.every(({ method, was, is }) => planted.methods.test(method) && was !== is) &&
      differences.every(({ place }) => place !== null),
    `${different} of ${result.requests.asked}; ${JSON.stringify(differences[0])}`,
  )
}

export const replayed = (file: string, more: readonly string[] = [], edits: readonly Edit[] = []) =>
  runJson<Ended>(['replay', file, ...more, '--log-level', 'fatal'], edits)
