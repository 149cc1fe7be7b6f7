/** `verify`: a directory that a node has left is right, and whatever of it is spoilt is named. */
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { openJournal } from '../../../engine/storage/directory/journal.ts'
import type { Finding } from '../../../engine/verify/findings.ts'
import { verify } from '../../../engine/verify/verify.ts'
import { chainOption, heldChain } from '../../../workers/data/datadir.ts'
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
type Directories = { readonly whole: string; readonly lazy: string }

export async function checkVerify(
  { whole, lazy }: Directories,
  {
    check,
    random,
    rows,
  }: {
    readonly check: Check
    readonly random: () => number
    /** Rows of each column that are spoilt, one after the other. */
    readonly rows: number
  },
): Promise<void> {
  for (const [name, path] of [
    ['a whole directory', whole],
    ['a lazy one', lazy],
  ] as const) {
    const { status, result } = await runJson<Result>(['verify', '--datadir', path])
    check(
      `verify: ${name} is right`,
      status === 0 && result.isRight && result.counts['executed']! > 0,
      `${JSON.stringify(result.counts)} ${told(result.found)}`,
    )
  }
  const sampled = await runJson<Result>(['verify', '--datadir', whole, '--sample', '5'])
  check(
    'verify --sample: the same, of some blocks',
    sampled.status === 0 && sampled.result.counts['blocks']! < sampled.result.head,
    `${JSON.stringify(sampled.result.counts)} ${told(sampled.result.found)}`,
  )
  for (const kind of SPOILT) {
    const missed: string[] = []
    for (let row = 0; row < rows; row++) {
      const { key, found } = await spoilt(whole, (database) => spoil(database, kind, random))
      const isNamed = found.some((one) => one.where === kind.column && one.key === key)
      if (!isNamed) missed.push(`${key}: ${told(found)}`)
    }
    check(
      `verify: a value of ${kind.column} that is another is named`,
      missed.length === 0,
      missed.join('; '),
    )
  }
  for (const [column, length] of [
    ['accounts', 80],
    ['slots', 40],
  ] as const) {
    const missed: string[] = []
    for (let row = 0; row < rows; row++) {
      const fetched = {
        column,
        isHeld: ({ value }: { value: Uint8Array }) => value.length === length,
      }
      const { key, found } = await spoilt(lazy, (database) => spoil(database, fetched, random))
      if (!found.some((one) => one.where === column && one.key === key)) missed.push(told(found))
    }
    check(
      `verify: a fetched value of ${column} that is another is named`,
      missed.length === 0,
      missed.join('; '),
    )
  }
  await checkCommand(whole, check, random)
}

/** What the command says of a spoilt directory, and of journals. */
async function checkCommand(whole: string, check: Check, random: () => number): Promise<void> {
  const copy = `${whole}.spoilt`
  cpSync(whole, copy, { recursive: true })
  const database = await openSmall(join(copy, 'state'))
  const { key } = spoil(database, SPOILT[0]!, random)
  await database.close()
  const { status, out } = await run(['verify', '--datadir', copy])
  check(
    'verify: ends with 1, names the row and says what to do',
    status === 1 && out.includes(`accounts ${key}`) && out.includes('make it again'),
    out,
  )
  rmSync(copy, { recursive: true })
  cpSync(whole, copy, { recursive: true })
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
    'verify: a record of a journal that is another is named',
    spoiltJournal.status === 1 && spoiltJournal.result.found[0]?.where === 'transactions.journal',
    told(spoiltJournal.result.found),
  )
  rmSync(copy, { recursive: true })
}

/** Of a copy, in this process: starting one for each takes longer than the look at it. */
async function spoilt<T extends object>(
  path: string,
  change: (database: Awaited<ReturnType<typeof openSmall>>) => T,
): Promise<T & { readonly found: readonly Finding[] }> {
  const copy = `${path}.spoilt`
  cpSync(path, copy, { recursive: true })
  const database = await openSmall(join(copy, 'state'))
  try {
    const changed = change(database)
    const option = chainOption({ choose: (place) => heldChain(undefined, place) }, copy, 0)
    const { findings } = await verify({
      ...{ database, chain: chainSpec(option), engine: engineByName('fast'), random: Math.random },
      sample: undefined,
      onStep: () => true,
    })
    return { ...changed, found: findings.kept }
  } finally {
    await database.close()
    rmSync(copy, { recursive: true })
  }
}

const told = (found: readonly Finding[]): string =>
  `${found.length} found ${found
    .slice(0, 3)
    .map(({ where, key, message }) => `${where} ${key ?? ''} ${message}`.slice(0, 200))
    .join(' | ')}`
