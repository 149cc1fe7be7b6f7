/** `verify` must find a stopped node's directory right, and must name whatever is spoilt. */
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { openJournal } from '../../../engine/storage/directory/journal.ts'
import type { Finding } from '../../../engine/verify/findings.ts'
import { verify } from '../../../engine/verify/verify.ts'
import { chainOption, storedChain } from '../../../workers/data/datadir.ts'
import { openSmall } from '../../fixtures/databases-open.ts'
import type { Check } from '../../kit/checks.ts'
import { run, runJson } from './command.ts'
import { SPOILT, spoil } from './spoil.ts'

type Result = {
  readonly isRight: boolean
  readonly head: number
  readonly counts: Readonly<Record<string, number>>
  readonly count: number
  readonly found: readonly Finding[]
}
type Directories = { readonly full: string; readonly lazy: string }

export async function checkVerify(
  { full, lazy }: Directories,
  {
    check,
    random,
    rows,
  }: {
    readonly check: Check
    readonly random: () => number
    /** The number of rows that are spoilt in each column, one after the other. */
    readonly rows: number
  },
): Promise<void> {
  for (const [name, path] of [
    ['a directory with full state', full],
    ['a directory with lazy state', lazy],
  ] as const) {
    const { status, result } = await runJson<Result>(['verify', '--datadir', path])
    check(
      `verify finds no fault in ${name}`,
      status === 0 && result.isRight && result.counts['executed']! > 0,
      `${JSON.stringify(result.counts)} ${summaryOf(result.found)}`,
    )
  }
  const sampled = await runJson<Result>(['verify', '--datadir', full, '--sample', '5'])
  check(
    'verify --sample finds no fault, and checks only some blocks',
    sampled.status === 0 && sampled.result.counts['blocks']! < sampled.result.head,
    `${JSON.stringify(sampled.result.counts)} ${summaryOf(sampled.result.found)}`,
  )
  for (const kind of SPOILT) {
    const missed: string[] = []
    for (let row = 0; row < rows; row++) {
      const { key, found } = await spoilt(full, (database) => spoil(database, kind, random))
      const isNamed = found.some((one) => one.where === kind.column && one.key === key)
      if (!isNamed) missed.push(`${key}: ${summaryOf(found)}`)
    }
    check(`verify names a changed value of ${kind.column}`, missed.length === 0, missed.join('; '))
  }
  for (const [column, length] of [
    ['accounts', 80],
    ['slots', 40],
  ] as const) {
    const missed: string[] = []
    for (let row = 0; row < rows; row++) {
      const fetched = {
        column,
        isChecked: ({ value }: { value: Uint8Array }) => value.length === length,
      }
      const { key, found } = await spoilt(lazy, (database) => spoil(database, fetched, random))
      if (!found.some((one) => one.where === column && one.key === key))
        missed.push(summaryOf(found))
    }
    check(
      `verify names a changed fetched value of ${column}`,
      missed.length === 0,
      missed.join('; '),
    )
  }
  await checkCommand(full, check, random)
}

/** Checks the command's report on a spoilt directory, and on journals. */
async function checkCommand(full: string, check: Check, random: () => number): Promise<void> {
  const copy = `${full}.spoilt`
  cpSync(full, copy, { recursive: true })
  const database = await openSmall(join(copy, 'state'))
  const { key } = spoil(database, SPOILT[0]!, random)
  await database.close()
  const { status, out } = await run(['verify', '--datadir', copy])
  check(
    'verify ends with 1, names the changed row and gives advice',
    status === 1 && out.includes(`accounts ${key}`) && out.includes('make it again'),
    out,
  )
  rmSync(copy, { recursive: true })
  cpSync(full, copy, { recursive: true })
  const path = join(copy, 'transactions.journal')
  rmSync(path, { force: true })
  const journal = openJournal(path, { ifDamaged: 'refuse' })
  for (const record of [1, 2, 3]) journal.append(new Uint8Array(100).fill(record))
  journal.close()
  const { openSync, writeSync, closeSync } = await import('node:fs')
  const file = openSync(path, 'r+')
  writeSync(file, Uint8Array.of(9), 0, 1, 160)
  closeSync(file)
  const spoiltJournal = await runJson<Result>(['verify', '--datadir', copy, '--sample', '1'])
  check(
    'verify names a journal with a changed record',
    spoiltJournal.status === 1 && spoiltJournal.result.found[0]?.where === 'transactions.journal',
    summaryOf(spoiltJournal.result.found),
  )
  rmSync(copy, { recursive: true })
}

/**
 * Verifies a spoilt copy in this process, because starting a process for each takes longer than the
 * verification.
 */
async function spoilt<T extends object>(
  path: string,
  change: (database: Awaited<ReturnType<typeof openSmall>>) => T,
): Promise<T & { readonly found: readonly Finding[] }> {
  const copy = `${path}.spoilt`
  cpSync(path, copy, { recursive: true })
  const database = await openSmall(join(copy, 'state'))
  try {
    const changed = change(database)
    const option = chainOption(
      { choose: (chainDirectory) => storedChain(undefined, chainDirectory) },
      copy,
      0,
    )
    const { findings } = await verify({
      database,
      chain: chainSpec(option),
      engine: engineByName('fast'),
      random: Math.random,
      sample: undefined,
      onStep: () => true,
    })
    return { ...changed, found: findings.retained }
  } finally {
    await database.close()
    rmSync(copy, { recursive: true })
  }
}

const summaryOf = (found: readonly Finding[]): string =>
  `${found.length} found ${found
    .slice(0, 3)
    .map(({ where, key, message }) => `${where} ${key ?? ''} ${message}`.slice(0, 200))
    .join(' | ')}`
