/** Short calls that the front runs itself have the answers that the workers give. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePort } from '../kit/free-port.ts'
import { call, callMany, type RunningNode, startNode } from '../kit/node.ts'

/** CALLDATALOAD(0) + SLOAD(0). */
const ADDER = '0x00000000000000000000000000000000000a0001'
const ADDER_CODE = '0x5f355f54015f5260205ff3'
/** As many turns of a loop as CALLDATALOAD(0) says, and SLOAD(0). */
const LOOP = '0x00000000000000000000000000000000000a0002'
const LOOP_CODE = '0x5f355b60019003806002575f545f5260205ff3'
const word = (value: number) => `0x${value.toString(16).padStart(64, '0')}`

let node: RunningNode
let adminPort: number
beforeAll(async () => {
  adminPort = await freePort()
  const near = ['--rate-limit', 'off', '--limit-near-turn-ms', '5']
  node = await startNode(['--ephemeral', '--admin-port', `${adminPort}`, ...near])
  for (const [address, code] of [
    [ADDER, ADDER_CODE],
    [LOOP, LOOP_CODE],
  ])
    await call(node.url, 'anvil_setCode', [address, code])
})
afterAll(() => node.stop())

const near = async () => {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
  const of = (what: string) =>
    Number(new RegExp(`^flashnode_pool_near\\{[^}]*"${what}"\\} (\\d+)$`, 'm').exec(text)?.[1])
  return { answered: of('answered'), passedOn: of('passedOn') }
}
const add = (value: number) => [{ to: ADDER, data: word(value) }, 'latest']

test('it answers with what is read, batches and what is written meanwhile', async () => {
  let stored = 7
  await call(node.url, 'anvil_setStorageAt', [ADDER, word(0), word(stored)])
  let asked = 0
  while ((await near()).answered < 300) {
    if (asked % 100 === 50) {
      stored += 1_000_000
      await call(node.url, 'anvil_setStorageAt', [ADDER, word(0), word(stored)])
    }
    const from = asked
    asked += 10
    const one = await call(node.url, 'eth_call', add(from))
    expect(one).toBe(word(from + stored))
    const batch = Array.from({ length: 9 }, (_, at) => add(from + 1 + at))
    const many = await callMany(node.url, 'eth_call', batch)
    expect(many).toEqual(batch.map((_, at) => word(from + 1 + at + stored)))
  }
})

test('what takes longer than it did goes on to a worker', async () => {
  // What is asked again is not run again.
  let asked = 0
  const turns = (value: number) => `${word(value)}${word(asked++).slice(2)}`
  const { passedOn } = await near()
  // A short one that was slow, as on a busy machine, sends those after it to the workers at once: then short ones are asked again.
  while ((await near()).passedOn === passedOn) {
    const { answered } = await near()
    while ((await near()).answered < answered + 20)
      for (let at = 0; at < 20; at++)
        expect(await call(node.url, 'eth_call', [{ to: LOOP, data: turns(1) }])).toBe(word(0))
    const long = { to: LOOP, data: turns(200_000), gas: '0x2faf080' }
    expect(await call(node.url, 'eth_call', [long])).toBe(word(0))
  }
})
