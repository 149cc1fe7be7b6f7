/**
 * The process is killed in the middle of appends and persists, repeatedly, on a real disk. Nothing
 * acknowledged may be lost, and nothing may be torn.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { createPersistence } from '../../../../engine/storage/persistence/persistence.ts'
import { temporaryDirectory } from '../../../fixtures/databases.ts'
import { openSmall } from '../../../fixtures/databases-open.ts'
import {
  actionsOf,
  childOf,
  GENESIS_NUMBER,
  hex,
  importModelGenesis,
  type ModelBlock,
  plainWords,
  stateAt,
  worldState,
} from '../../../fixtures/persistence-chain.ts'

const CHILD = fileURLToPath(new URL('../../../fixtures/persistence-child.ts', import.meta.url))
/** Each process is killed after this many blocks. */
const KILLS = [9, 30, 1, 17, 44]

test('kill -9, five times on one database, loses no acknowledged block', async () => {
  const path = join(temporaryDirectory(), 'state')
  const chain: ModelBlock[] = []
  for (const blocks of KILLS) {
    const last = await runUntilKilled(path, blocks)
    const database = await openSmall(path)
    if (chain.length === 0) chain.push(importModelGenesis(database))
    const words = plainWords(1)
    const { opened } = createPersistence({
      database,
      words,
      now: () => performance.now(),
      foldDepth: 2,
    })
    const { durableHead, persistedHead, dropped } = opened
    expect(durableHead.number).toBeGreaterThanOrEqual(last.number)
    expect(dropped).toEqual([])
    while (chain.at(-1)!.number < durableHead.number)
      chain.push(childOf(chain.at(-1)!, actionsOf(chain.at(-1)!.number), chain.length + 1))
    const at = (number: number) => chain[number - GENESIS_NUMBER]!
    expect(hex(durableHead.hash)).toBe(hex(at(durableHead.number).hash))
    expect(hex(at(last.number).hash)).toBe(last.hash)
    const store = openStore(database)
    for (let number = GENESIS_NUMBER; number <= persistedHead.number; number++) {
      expect(stateAt(store, number)).toEqual(worldState(at(number).world))
      expect(hex(store.hashOfNumber(number)!)).toBe(hex(at(number).hash))
    }
    await database.close()
  }
  expect(chain.length).toBeGreaterThan(KILLS.reduce((sum, blocks) => sum + blocks))
})

/** Gives the last line of the process before its death. */
async function runUntilKilled(
  path: string,
  blocks: number,
): Promise<{ number: number; hash: string }> {
  const child = spawn(process.execPath, [CHILD, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exit = once(child, 'exit')
  let seen = 0
  let last = { number: 0, hash: '' }
  for await (const line of createInterface(child.stdout)) {
    const [number, hash] = line.split(' ')
    if (number === 'open') continue
    last = { number: Number(number), hash: hash! }
    if (++seen === blocks) child.kill('SIGKILL')
  }
  expect(await exit).toEqual([null, 'SIGKILL'])
  return last
}
