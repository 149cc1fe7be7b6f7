/**
 * `import --fork-time` executes blocks with the given times, and the directory stores the times.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { devChain } from '../../../engine/chainspec/dev-genesis.ts'
import { genesisFileOf } from '../../../engine/chainspec/genesis-writer.ts'
import { NETWORKS, NEWEST_AT_0 } from '../../../engine/chainspec/networks.ts'
import { encodeBlock } from '../../../engine/primitives/block-codec.ts'
import { readMarker } from '../../../engine/storage/directory/marker.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'
import { createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'
import { runToEnd } from '../../kit/node.ts'

const GENESIS = 1_700_000_000
const KARST = GENESIS + 2
/** The chain's own file has no time for Karst. */
const chain = devChain({
  name: 'test',
  blockTime: 1,
  timestamp: BigInt(GENESIS),
  parameters: NETWORKS.get('xlayer')!.parameters,
  schedule: NEWEST_AT_0,
})
const producer = createProducer(chain)
const first = await producer.build(producer.genesis, 1, [[send(0, 0)]])
const folder = temporaryDirectory()
const genesis = join(folder, 'genesis.json')
writeFileSync(genesis, genesisFileOf(chain))

function fileOf(name: string, blocks: readonly ProducedBlock[]): string {
  const encoded = blocks.map(({ header, upstreamBlock: { transactions } }) =>
    encodeBlock({ header, transactions, ommers: [], withdrawals: [] }),
  )
  const path = join(folder, name)
  writeFileSync(path, Buffer.concat(encoded))
  return path
}
const imported = (file: string, datadir: string, ...more: string[]) =>
  runToEnd(['import', '--genesis', genesis, '--chain', file, '--datadir', datadir, ...more])

test('the first block of a fork is judged by the given time', async () => {
  const file = fileOf('signed.rlp', [first, await producer.build(first, 2, [[send(0, 1)]])])
  const at = `--fork-time=karst=${KARST}`
  await expect(imported(file, join(folder, 'karst'), at)).rejects.toThrow(
    /block 2: transaction 1 .*the first block of a fork takes deposits only/,
  )
  await imported(file, join(folder, 'jovian'))
})

test('a directory resumes only with the fork times of its blocks', async () => {
  const datadir = join(folder, 'data')
  const second = await producer.build(first, 2, [[]])
  const third = await producer.build(second, 3, [[send(0, 1)]])
  const at = `--fork-time=karst=${KARST}`
  await imported(fileOf('two.rlp', [first, second]), datadir, at)
  expect(readMarker(datadir)?.forkTimes).toEqual({ karst: KARST })
  const all = fileOf('three.rlp', [first, second, third])
  await expect(imported(all, datadir)).rejects.toThrow(
    `executed with karst=${KARST}, not karst=off: give --fork-time karst=${KARST}, or give --datadir`,
  )
  await imported(all, datadir, at)
})

test.each([
  [['karst=soon'], 'karst: '],
  [['karst=1,karst=2'], '--fork-time names karst twice: leave one out'],
  [['amsterdam=1'], 'this version does not support Amsterdam'],
  [['jovian=off,karst=5'], 'karst is set, jovian is not'],
])('invalid fork times are refused before the import starts: %j', async ([times], why) => {
  const datadir = join(folder, 'refused')
  await expect(
    imported(fileOf('one.rlp', [first]), datadir, '--fork-time', times!),
  ).rejects.toThrow(why)
  expect(readMarker(datadir)).toBe(undefined)
})
