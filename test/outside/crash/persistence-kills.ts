/**
 * A persistence thread that leaves branches below its persisted head and prunes is killed inside
 * unwinds and prunes. A development node does these rarely or never.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Hex } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { encodeAccount } from '../../../engine/state/account-codec.ts'
import { fromLatin1 } from '../../../engine/state/words.ts'
import { decodeNumber } from '../../../engine/storage/blocks/block-codec.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { createPersistence } from '../../../engine/storage/persistence/persistence.ts'
import {
  CHILD_LIMITS,
  chainTo,
  intentsOf,
  type KnownWorld,
  readIntents,
} from '../../fixtures/branch-chain.ts'
import type { World } from '../../fixtures/chain-model.ts'
import { openSmall } from '../../fixtures/databases-open.ts'
import {
  GENESIS_NUMBER,
  hex,
  importModelGenesis,
  plainWords,
  stateAt,
  worldState,
} from '../../fixtures/persistence-chain.ts'
import { ALL_KEYS, compareRows, type Rows, trieRowsOf } from '../../fixtures/stored-rows.ts'
import { editedEnv, editedExecArgv } from '../../kit/edits.ts'
import { killAt, PERSISTENCE_POINTS, type Point } from './points.ts'

const CHILD = fileURLToPath(
  new URL('../../fixtures/persistence-branches-child.ts', import.meta.url),
)

export type PersistenceKills = {
  /** The number of kills by the name of the point. */
  readonly kills: ReadonlyMap<string, number>
  readonly found: readonly string[]
  /**
   * The compared states at single heights, and the compared rows of flat state, trie and indexes.
   */
  readonly states: number
  readonly rows: number
}

export async function killPersistence(options: {
  readonly rounds: number
  readonly random: () => number
  readonly isInTime: () => boolean
}): Promise<PersistenceKills> {
  const { rounds, random, isInTime } = options
  const kills = new Map(PERSISTENCE_POINTS.map(({ name }) => [name, 0]))
  const found: string[] = []
  let [states, rows] = [0, 0]
  for (let round = 0; round < rounds && (round === 0 || isInTime()); round++) {
    const folder = mkdtempSync(join(tmpdir(), 'flashnode-persistence-'))
    const path = join(folder, 'state')
    for (const point of PERSISTENCE_POINTS) {
      const last = await runUntilKilled(path, { point, random })
      if (last === undefined) continue
      kills.set(point.name, kills.get(point.name)! + 1)
      try {
        const compared = await compare(path, last)
        states += compared.states
        rows += compared.rows
      } catch (error) {
        found.push(`${point.name}: ${(error as Error).message}`)
      }
    }
    rmSync(folder, { recursive: true })
  }
  return { kills, found, states, rows }
}

/** A point that is not reached within this many blocks is given up. */
const MAX_BLOCKS = 2_000

/**
 * Gives the hash of the last block that the persistence thread acknowledged; undefined: the point
 * was not reached.
 * @throws when the process ends by itself
 */
async function runUntilKilled(
  path: string,
  { point, random }: { readonly point: Point; readonly random: () => number },
): Promise<string | undefined> {
  const edit = killAt(point, 1 + Math.floor(random() * point.times))
  const seed = String(Math.floor(random() * 2 ** 31))
  const child = spawn(process.execPath, [...editedExecArgv, CHILD, path, seed], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: editedEnv([edit]),
  })
  const ended = once(child, 'exit')
  let last = ''
  let blocks = 0
  for await (const line of createInterface(child.stdout)) {
    last = line.split(' ')[1]!
    if (++blocks === MAX_BLOCKS) child.kill('SIGKILL')
  }
  const [code, signal] = await ended
  if (signal !== 'SIGKILL') throw new Error(`a persistence thread ended with ${code ?? signal}`)
  return blocks >= MAX_BLOCKS ? undefined : last
}

/**
 * Compares the database with the chain.
 * @throws {Error} naming the first difference
 */
async function compare(
  path: string,
  acknowledged: string,
): Promise<{ readonly states: number; readonly rows: number }> {
  const database = await openSmall(path)
  try {
    const genesis = importModelGenesis(database)
    const intents = readIntents(intentsOf(path))
    const persistence = createPersistence({
      ...CHILD_LIMITS,
      database,
      words: plainWords(1),
      now: () => performance.now(),
    })
    const { durableHead, persistedHead, dropped } = persistence.opened
    if (dropped.length > 0) throw new Error('appended blocks were dropped for their roots')
    const durable = hex(durableHead.hash)
    // The durable block is the acknowledged one, or the one block that was in progress.
    if (durable !== acknowledged && durable !== intents.at(-1)?.hash && acknowledged !== '')
      throw new Error(`the durable block is ${durable}, answered was ${acknowledged}`)
    const chain = chainTo(genesis, intents, durableHead.hash)
    return {
      states: compareStates(database, chain),
      rows: compareAllRows(database, chain, persistedHead.number),
    }
  } finally {
    await database.close()
  }
}

/** Compares the state at every retained height. */
function compareStates(database: Database, chain: readonly KnownWorld[]): number {
  const store = openStore(database)
  const [from, to] = [store.oldestState(), store.persistedHead().number]
  for (let number = from; number <= to; number++) {
    const { world } = chain[number - GENESIS_NUMBER]!
    const [is, was] = [stateAt(store, number).join(), worldState(world).join()]
    if (is !== was) throw new Error(`the state at ${number} is another`)
  }
  return to - from + 1
}

function compareAllRows(
  database: Database,
  chain: readonly KnownWorld[],
  persisted: number,
): number {
  const flat = flatRows(chain[persisted - GENESIS_NUMBER]!.world)
  let count = compareRows(database, ['accounts', 'slots'], flat)
  count += compareRows(database, ['accountTrie', 'storageTrie'], trieRowsOf(flat))
  const numbers = chain.slice(0, persisted - GENESIS_NUMBER + 1)
  count += compareRows(
    database,
    ['numbers'],
    new Map(numbers.map(({ number, hash }) => [numberKey(number), bytesToHex(hash)])),
  )
  for (const column of ['accountHistory', 'slotHistory'] as const)
    for (const { key } of database.scan(column, ALL_KEYS)) {
      const number = decodeNumber(key, key.length - 8)
      if (number > persisted)
        throw new Error(`${column} has a row of block ${number}, above the fold`)
      count++
    }
  return count
}

const numberKey = (number: number): Hex => `0x${number.toString(16).padStart(16, '0')}`

function flatRows(world: World): Rows {
  const rows = new Map<Hex, Hex>()
  for (const [name, { account, slots }] of world) {
    const address = fromLatin1(name)
    rows.set(bytesToHex(address), bytesToHex(encodeAccount(account)))
    for (const [slot, value] of slots)
      rows.set(bytesToHex(concatBytes(address, fromLatin1(slot))), bytesToHex(value))
  }
  return rows
}
