/**
 * Measures reads and writes of the memory in which other threads read the txpool. It prints
 * nanoseconds beside the txpool's own responses, and the size of this memory.
 * Usage: npm run bench:waiting -- [--senders 10000] [--rounds 5]
 */
import { parseArgs } from 'node:util'
import { createWaitingMemory } from '../engine/txpool/shared/memory.ts'
import { openWaitingReader, type WaitingReader } from '../engine/txpool/shared/reader.ts'
import { SharedTxpool } from '../engine/txpool/shared/txpool.ts'
import { openWaitingWriter } from '../engine/txpool/shared/writer.ts'
import { Txpool } from '../engine/txpool/txpool.ts'
import { newEntry, type TxpoolOptions } from '../engine/txpool/types.ts'
import { transfer } from '../test/fixtures/txpool.ts'

const { values } = parseArgs({
  options: {
    senders: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '5' },
  },
})
const senders = Number(values.senders)
const rounds = Number(values.rounds)

/**
 * A signed transaction whose hash and sender are replaced for each copy, because signing all would
 * take too long.
 */
const pattern = transfer(0, 0)
const transactions = Array.from({ length: senders }, (_, n) => {
  const from = new Uint8Array(20)
  const hash = new Uint8Array(32)
  for (let at = 0; at < 20; at++) from[at] = (n >> (8 * (at % 3))) ^ (at * 37)
  for (let at = 0; at < 32; at++) hash[at] = (n >> (8 * (at % 3))) ^ (at * 91)
  return { ...pattern, from, hash }
})
const absent = transactions.map(({ hash }) => hash.map((byte) => byte ^ 0xff))

/** Returns nanoseconds of processor time for each of `count` calls. */
function timed(count: number, run: (n: number) => void): number {
  const before = process.cpuUsage()
  for (let n = 0; n < count; n++) run(n)
  const { user, system } = process.cpuUsage(before)
  return (1_000 * (user + system)) / count
}
const reads = (request: WaitingReader) => ({
  nextNonce: timed(senders, (n) => void request.nextNonce(transactions[n]!.from, 0n)),
  expected: timed(senders, (n) => void request.isExpected(transactions[n]!.hash)),
  absent: timed(senders, (n) => void request.isExpected(absent[n]!)),
})
const options: TxpoolOptions = { journal: { append() {}, rewrite() {} }, now: () => 0 }

const table: Record<string, Record<string, number>> = {}
const record = (row: string, of: Record<string, number>) => {
  table[row] ??= {}
  for (const [name, ns] of Object.entries(of))
    table[row][name] = Math.min(table[row][name] ?? Number.POSITIVE_INFINITY, Math.round(ns))
}
for (let round = 0; round < rounds; round++) {
  const memory = createWaitingMemory()
  const writer = openWaitingWriter(memory)
  const entries = transactions.map((one, arrival) =>
    newEntry(one, { cost: 0n, isGasless: false, arrival, addedAtMs: 0 }),
  )
  const write = (has: boolean) => (n: number) => {
    writer.retained(entries[n]!, has)
    writer.open(entries[n]!, has)
    writer.flush()
  }
  record('writes', { coming: timed(senders, write(true)), going: timed(senders, write(false)) })
  const shared = new SharedTxpool(options, writer)
  const own = new Txpool(options)
  record('include', {
    shared: timed(senders, (n) => shared.include(transactions[n]!, 1)),
    alone: timed(senders, (n) => own.include(transactions[n]!, 1)),
  })
  record('reads of another thread', reads(openWaitingReader(memory)))
  record('reads of the txpool', reads(own))
}
console.table(table)
const memory = createWaitingMemory()
const bytes = [memory.expected, memory.senders].reduce((sum, one) => sum + one.buffer.byteLength, 0)
const runs = memory.runs.bounds.byteLength + memory.runs.next.byteLength
console.log(`${((bytes + runs) / 2 ** 20).toFixed(1)} MiB of addresses`)
