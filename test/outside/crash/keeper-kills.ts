/** A keeper that leaves branches below its fold head and prunes, killed inside unfolds and prunes: what a development node does rarely or never. */
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
import { createKeeper } from '../../../engine/storage/keeper/keeper.ts'
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
} from '../../fixtures/keeper-chain.ts'
import { ALL_KEYS, compareRows, type Rows, trieRowsOf } from '../../fixtures/stored-rows.ts'
import { editedEnv, editedExecArgv } from '../../kit/edits.ts'
import { KEEPER_POINTS, killAt, type Point } from './points.ts'

const CHILD = fileURLToPath(new URL('../../fixtures/keeper-branches-child.ts', import.meta.url))

export type KeeperKills = {
  /** By the name of the place. */
  readonly kills: ReadonlyMap<string, number>
  readonly found: readonly string[]
  /** States at single heights, rows of flat state, trie and indexes. */
  readonly states: number
  readonly rows: number
}

export async function killKeepers(options: {
  readonly rounds: number
  readonly random: () => number
  readonly isInTime: () => boolean
}): Promise<KeeperKills> {
  const { rounds, random, isInTime } = options
  const kills = new Map(KEEPER_POINTS.map(({ name }) => [name, 0]))
  const found: string[] = []
  let [states, rows] = [0, 0]
  for (let round = 0; round < rounds && (round === 0 || isInTime()); round++) {
    const folder = mkdtempSync(join(tmpdir(), 'flashnode-keeper-'))
    const path = join(folder, 'state')
    for (const point of KEEPER_POINTS) {
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

/** Blocks after which a place that never comes is given up. */
const MAX_BLOCKS = 2_000

/** The hash of the last block that the keeper answered for; undefined: it never came to its place. @throws when it ends by itself. */
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
  if (signal !== 'SIGKILL') throw new Error(`a keeper ended with ${code ?? signal}`)
  return blocks >= MAX_BLOCKS ? undefined : last
}

/** @throws {Error} naming the first difference */
async function compare(
  path: string,
  acknowledged: string,
): Promise<{ readonly states: number; readonly rows: number }> {
  const database = await openSmall(path)
  try {
    const genesis = importModelGenesis(database)
    const intents = readIntents(intentsOf(path))
    const keeper = createKeeper({
      ...CHILD_LIMITS,
      database,
      words: plainWords(1),
      now: () => performance.now(),
    })
    const { durableHead, foldHead, dropped } = keeper.opened
    if (dropped.length > 0) throw new Error('appended blocks were dropped for their roots')
    const durable = hex(durableHead.hash)
    // Durable is what was answered, or the one block that was on its way.
    if (durable !== acknowledged && durable !== intents.at(-1)?.hash && acknowledged !== '')
      throw new Error(`the durable block is ${durable}, answered was ${acknowledged}`)
    const chain = chainTo(genesis, intents, durableHead.hash)
    return {
      states: compareStates(database, chain),
      rows: compareAllRows(database, chain, foldHead.number),
    }
  } finally {
    await database.close()
  }
}

/** Every height whose state is kept. */
function compareStates(database: Database, chain: readonly KnownWorld[]): number {
  const store = openStore(database)
  const [from, to] = [store.oldestState(), store.foldHead().number]
  for (let number = from; number <= to; number++) {
    const { world } = chain[number - GENESIS_NUMBER]!
    const [is, was] = [stateAt(store, number).join(), worldState(world).join()]
    if (is !== was) throw new Error(`the state at ${number} is another`)
  }
  return to - from + 1
}

function compareAllRows(database: Database, chain: readonly KnownWorld[], folded: number): number {
  const flat = flatRows(chain[folded - GENESIS_NUMBER]!.world)
  let count = compareRows(database, ['accounts', 'slots'], flat)
  count += compareRows(database, ['accountTrie', 'storageTrie'], trieRowsOf(flat))
  const numbers = chain.slice(0, folded - GENESIS_NUMBER + 1)
  count += compareRows(
    database,
    ['numbers'],
    new Map(numbers.map(({ number, hash }) => [numberKey(number), bytesToHex(hash)])),
  )
  for (const column of ['accountHistory', 'slotHistory'] as const)
    for (const { key } of database.scan(column, ALL_KEYS)) {
      const number = decodeNumber(key, key.length - 8)
      if (number > folded) throw new Error(`${column} has a row of block ${number}, above the fold`)
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
