/**
 * `flashnode verify`: opens a directory that no process has open, verifies it, and reports findings
 * with advice.
 */
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { StoredChainError } from '../../../engine/storage/blocks/recover.ts'
import { EmptyStoreError } from '../../../engine/storage/blocks/store.ts'
import { checkJournal } from '../../../engine/storage/directory/journal.ts'
import { openDirectory } from '../../../engine/storage/directory/schema.ts'
import { type Finding, journalFinding } from '../../../engine/verify/findings.ts'
import { type Verified, verify } from '../../../engine/verify/verify.ts'
import type { WorkingConfig } from '../../config/options.ts'
import { chainOption, GENESIS_FILE, storedChain } from '../../data/datadir.ts'
import type { JobContext } from '../shared/job.ts'
import { startParts } from '../shared/parts.ts'
import { print } from '../shared/print.ts'
import { table } from '../shared/table.ts'

const CLOSE_MS = 3_000
/** Rows of the table; the JSON has all retained findings. */
const LISTED = 20
const JOURNALS = ['transactions.journal', 'flashblocks.journal'] as const

type VerifyConfig = Pick<WorkingConfig, 'dbCache' | 'engine'> & {
  readonly datadir: string
  readonly sample: number | undefined
  readonly json: boolean
}

/** Messages of these errors name the cause. */
export const FAILS = [EmptyStoreError, StoredChainError]

/**
 * Returns the exit status: 1 if there is a finding, or if it was stopped early.
 * @throws {DirectoryError} {ChainError} {DatabaseError}
 */
export async function runVerify(config: VerifyConfig, context: JobContext): Promise<number> {
  const { datadir } = config
  const option = chainOption(
    { choose: (chainDirectory) => storedChain(undefined, chainDirectory) },
    datadir,
    0,
  )
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
      database,
      chain,
      engine: engineByName(config.engine),
      sample: config.sample,
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
    const found = [...verified.findings.retained, ...journals]
    const count = verified.findings.count + journals.length
    await print(config.json ? jsonOf(verified, found, count) : textOf(verified, found, count))
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
  const nonZero = Object.entries(counts).filter(([, seen]) => seen > 0)
  const lines = [table(nonZero.map(([name, seen]) => [NAMES[name] ?? name, seen]))]
  for (const { where, key, block, message, advice } of found.slice(0, LISTED)) {
    const row = [where, key, block === undefined ? undefined : `(block ${block})`]
    lines.push(`wrong: ${row.filter((part) => part !== undefined).join(' ')}: ${message}\n`)
    lines.push(`       ${advice}\n`)
  }
  if (count > LISTED) lines.push(`and ${count - LISTED} more: --json lists them\n`)
  const end = isDone ? '' : 'stopped before the end: '
  lines.push(`${end}head ${head}, ${count === 0 ? 'nothing is wrong' : `${count} wrong`}\n`)
  return lines.join('')
}

const NAMES: Readonly<Record<string, string>> = {
  executed: 'executed again',
  notExecuted: 'not executed, because they read state that is not in the directory',
  history: 'rows of history',
  nodes: 'trie nodes',
  undo: 'blocks that can be unwound',
  promises: 'flashblocks in the ledger',
  fetched: 'fetched values',
  unproven: 'values that an older version fetched, without a checksum',
}
