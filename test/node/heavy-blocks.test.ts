/**
 * A transaction uses a whole block's gas for the opcodes that are most expensive for their gas. A
 * node with its default flags must include it.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { openSocket } from '../fixtures/sockets.ts'
import { assemble } from '../kit/assemble.ts'
import { call, startNode } from '../kit/node.ts'
import { createSender, mined } from '../outside/overload/sender.ts'

/** The gas is more than one round takes. */
const REMAINING_GAS = 200_000
/** Makes a program that repeats the body until this gas is left. */
function untilSpent(body: string, before = ''): string {
  const start = assemble(before).length
  return `${before} JUMPDEST ${body} GAS ${REMAINING_GAS} LT ${start} JUMPI STOP`
}
const word = (byte: string) => `0x${byte.repeat(32)}`
/** PUSH1 32 PUSH0 RETURN creates a contract of 32 bytes. */
const INIT = `0x60205ff3${'00'.repeat(28)}`

const PROGRAMS: Readonly<Record<string, string>> = {
  MULMOD: untilSpent(`${word('fd')} ${word('fb')} ${word('f7')} MULMOD POP `.repeat(64)),
  EXP: untilSpent(`${word('ff')} 3 EXP POP `.repeat(16)),
  KECCAK256: untilSpent('64 0 KECCAK256 0 MSTORE '.repeat(64)),
  SSTORE: untilSpent('GAS GAS SSTORE'),
  LOG: untilSpent('1 2 3 4 1024 0 LOG4'),
  CREATE: untilSpent('4 0 0 CREATE POP', `${INIT} 0 MSTORE`),
}
const addressOf = (number: number) =>
  `0x${(0xc0de00 + number).toString(16).padStart(40, '0')}` as const

const directory = mkdtempSync(join(tmpdir(), 'flashnode-whole-block-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

type Block = { readonly number: string; readonly gasLimit: string }

test('transactions that fill a block with an expensive opcode are included', async () => {
  const names = Object.keys(PROGRAMS)
  const alloc = names.map((name, number) => {
    const code = bytesToHex(assemble(PROGRAMS[name]!))
    return [addressOf(number), { balance: '0x0', code }]
  })
  const path = join(directory, 'alloc.json')
  writeFileSync(path, JSON.stringify(Object.fromEntries(alloc)))
  const node = await startNode(['--ephemeral', '--rate-limit', 'off', '--genesis-alloc', path])
  const latest = async () =>
    (await call(node.url, 'eth_getBlockByNumber', ['latest', false])) as Block
  await expect.poll(async () => Number((await latest()).number)).toBeGreaterThan(0)
  // The txpool reserves 70,000 gas for the deposit before the transactions.
  const gas = BigInt((await latest()).gasLimit) - 70_000n
  const hashes = []
  for (const number of names.keys())
    hashes.push(await createSender(node.url, number).send({ to: addressOf(number), gas }))
  const seen = await Promise.all(
    hashes.map(async (hash, at) => {
      const { status, gasUsed: used, blockNumber } = await mined(node.url, hash)
      expect(status, names[at]).toBe('0x1')
      expect(Number(gas - BigInt(used)), names[at]).toBeLessThan(2 * REMAINING_GAS)
      return Number(blockNumber)
    }),
  )
  expect(new Set(seen).size).toBe(names.length)
  const newest = Math.max(...seen)
  const feed = await openSocket(`${node.url.replace('http', 'ws')}/feed`)
  // The flashblocks are more than those of one block.
  for (let flashblocks = 0; flashblocks < 12; flashblocks++) await feed.next()
  await expect.poll(async () => Number((await latest()).number)).toBeGreaterThan(newest + 1)
  expect((await fetch(`${node.url}/readyz`)).status).toBe(200)
  expect(await node.stop('SIGTERM')).toBe(0)
})
