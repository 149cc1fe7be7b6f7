/** `flashnode verify`: opens a directory that nobody has open, has it looked at, and says what is wrong and what to do. */
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { StoredChainError } from '../../../engine/storage/blocks/recover.ts'
import { EmptyStoreError } from '../../../engine/storage/blocks/store.ts'
import { checkJournal } from '../../../engine/storage/directory/journal.ts'
import { openDirectory } from '../../../engine/storage/directory/schema.ts'
import type { Finding } from '../../../engine/verify/findings.ts'
import { journalFinding } from '../../../engine/verify/journals.ts'
import { type Verified, verify } from '../../../engine/verify/verify.ts'
import type { WorkingConfig } from '../../config/options.ts'
import { chainOption, GENESIS_FILE, heldChain } from '../../data/datadir.ts'
import type { JobContext } from '../shared/job.ts'
import { startParts } from '../shared/parts.ts'
import { say } from '../shared/said.ts'
import { table } from '../shared/table.ts'

const CLOSE_MS = 3_000
/** Of a table; all that were kept are in the JSON. */
const SHOWN = 20
const JOURNALS = ['transactions.journal', 'flashblocks.journal'] as const

type VerifyConfig = Pick<WorkingConfig, 'dbCache' | 'engine'> & {
  readonly datadir: string
  readonly sample: number | undefined
  readonly json: boolean
}

/** Their messages say what is wrong. */
export const FAILS = [EmptyStoreError, StoredChainError]

/** Returns the exit status: 1 where something is wrong, or it was stopped before it had seen all. @throws {DirectoryError} {ChainError} {DatabaseError} */
export async function runVerify(config: VerifyConfig, context: JobContext): Promise<number> {
  const { datadir } = config
  const option = chainOption({ choose: (place) => heldChain(undefined, place) }, datadir, 0)
  const chain = chainSpec(option)
  const database = await openDirectory({
    path: datadir,
    chain,
    chainName: GENESIS_FILE,
    cacheBytes: config.dbCache * 2 ** 20,
  })
  const parts = startParts(context)
  try {
    const verified = await verify({
      ...{ database, chain, engine: engineByName(config.engine), sample: config.sample },
      random: () => randomInt(2 ** 47) / 2 ** 47,
      onStep(step) {
        parts.update(step)
        return !context.isStopped()
      },
    })
    parts.stop()
    const journals = JOURNALS.flatMap((name) =>
      journalFinding(name, checkJournal(join(datadir, name))),
    )
    const found = [...verified.findings.kept, ...journals]
    const count = verified.findings.count + journals.length
    await say(config.json ? jsonOf(verified, found, count) : textOf(verified, found, count))
    return count === 0 && verified.isDone ? 0 : 1
  } finally {
    parts.stop()
    await database.close(CLOSE_MS)
  }
}

function jsonOf({ counts, head, isDone }: Verified, found: readonly Finding[], count: number) {
  return `${JSON.stringify({ isRight: count === 0, isDone, head, counts, count, found })}\n`
}

function textOf({ counts, head, isDone }: Verified, found: readonly Finding[], count: number) {
  const looked = Object.entries(counts).filter(([, seen]) => seen > 0)
  const lines = [table(looked.map(([name, seen]) => [NAMES[name] ?? name, seen]))]
  for (const { where, key, block, message, advice } of found.slice(0, SHOWN)) {
    const row = [where, key, block === undefined ? undefined : `(block ${block})`]
    lines.push(`wrong: ${row.filter((part) => part !== undefined).join(' ')}: ${message}\n`)
    lines.push(`       ${advice}\n`)
  }
  if (count > SHOWN) lines.push(`and ${count - SHOWN} more: --json has them\n`)
  const end = isDone ? '' : 'stopped before the end: '
  lines.push(`${end}head ${head}, ${count === 0 ? 'nothing is wrong' : `${count} wrong`}\n`)
  return lines.join('')
}

const NAMES: Readonly<Record<string, string>> = {
  executed: 'executed again',
  notExecuted: 'not executed: what they read is not here',
  history: 'rows of history',
  nodes: 'trie nodes',
  undo: 'blocks that can be undone',
  promises: 'flashblocks in the ledger',
  fetched: 'fetched values',
  unproven: 'fetched by an older version, without a checksum',
}
