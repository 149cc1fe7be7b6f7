/**
 * Measures a flashblock of 200 transactions. The sequencer's share goes from the txpool's list to
 * the packet, the follower's from the packet to visible state.
 * It runs in one process with state in memory, and without speculative execution. Engines take
 * turns on chains of their own; results are medians.
 * Usage: npm run bench:flashblock -- [--blocks 5, of five flashblocks] [--only TEXT]
 */
import { rmSync } from 'node:fs'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { DEV_ACCOUNTS } from '../engine/chainspec/dev-accounts.ts'
import { chainSpec } from '../engine/chainspec/registry.ts'
import type { Engine } from '../engine/evm/engine.ts'
import { ENGINE_NAMES, type EngineName } from '../engine/evm/engines/names.ts'
import { engineByName } from '../engine/evm/engines/registry.ts'
import { openBlock } from '../engine/execution/block/block.ts'
import { decodePacket, encodePacket } from '../engine/flashblocks/codec.ts'
import type { Bytes, Hex } from '../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../engine/primitives/hex.ts'
import type { SignedEnvelope } from '../engine/primitives/transaction.ts'
import { attributesDeposit, nextAttributes } from '../engine/sources/sequencer/attributes.ts'
import { createFiller } from '../engine/sources/sequencer/fill.ts'
import { openPayload, type Payload, payloadIdOf } from '../engine/sources/sequencer/payload.ts'
import { L1_FEE_INPUTS } from '../test/fixtures/l1-fee-inputs.ts'
import { WriterWorld } from '../test/fixtures/writer-world.ts'
import { multicall, swap, transfer } from './workloads/calldata.ts'
import { writeGenesis } from './workloads/genesis.ts'
import { type Draft, SENDERS, sign } from './workloads/signed.ts'
import { holder, MULTICALL, ROUTER, TEN_18, TOKENS } from './workloads/world.ts'

const { values } = parseArgs({
  options: { blocks: { type: 'string', default: '5' }, only: { type: 'string', default: '' } },
})
/** The quota is enough for five flashblocks of swaps, and never ends a flashblock by time. */
const QUOTA = { gas: 500_000_000n, ms: 60_000, now: () => performance.now(), cpuMs: () => 0 }

const at = (n: number): Hex => holder((n * 7_919) % 1_000)
const drafts: Readonly<Record<string, (n: number) => Pick<Draft, 'to' | 'data'>>> = {
  transfers: (n) => ({ to: at(n), data: '0x' }),
  'ERC-20 transfers': (n) => ({ to: TOKENS[0], data: transfer(at(n), 1n) }),
  'swaps over 3 hops': (n) => ({
    to: MULTICALL,
    data: multicall([{ to: ROUTER, data: swap(TEN_18 + BigInt(n), MULTICALL) }]),
  }),
}
const { allocFile, genesisFile } = writeGenesis({ flashnode: 1_000, anvil: 0 })
const dev = { genesisTimestamp: 1_700_000_000, gasLimit: Number(QUOTA.gas), allocFile }
const chain = chainSpec({ name: 'xlayer', dev })
for (const file of [allocFile, genesisFile]) rmSync(file)

const SHARES = ['follower', 'follower, senders known', 'sequencer'] as const
/** A sequencer and its follower, each with its own engine, as their threads have. */
class Side {
  readonly #world: WriterWorld
  readonly #engine: Engine
  readonly #filler = createFiller()
  samples: (readonly [share: string, ms: number, cpuMs: number])[] = []

  constructor(name: EngineName) {
    this.#engine = engineByName(name)
    this.#world = new WriterWorld({ chain, engine: engineByName(name), bytes: 2 ** 28 })
  }

  /** Makes a block and executes it up to its canonical state. @returns the packets */
  async block(lists: readonly (readonly SignedEnvelope[])[]): Promise<string> {
    const { view, release } = this.#world.reader.lease('flashblocks')
    const parent = view.block({ tag: 'latest' })!
    const timestamp = parent.header.timestamp + 1n
    const attributes = nextAttributes(chain, parent, { timestamp })
    const on = { engine: this.#engine, chain, reader: view.state(parent), attributes }
    const payload = await openPayload({
      id: payloadIdOf(attributes),
      execution: openBlock(on),
      withdrawalsRoot: parent.header.withdrawalsRoot,
      roots: async () => undefined,
    })
    await payload.execution.execute(attributesDeposit(chain, attributes, L1_FEE_INPUTS))
    await this.#follow(encodePacket(await payload.cut(0)))
    const packets: Bytes[] = []
    for (const list of lists) {
      const isKnown = (Number(attributes.number) + packets.length) % 2
      const packet = await this.#timed('sequencer', () => this.#cut(payload, list))
      if (isKnown) for (const one of list) this.#world.writer.expect(one)
      await this.#timed(SHARES[isKnown]!, () => this.#follow(packet))
      if (this.#world.heads().pending[1] !== payload.index) throw new Error('it is not shown')
      packets.push(packet)
    }
    if (payload.execution.executed.some(({ receipt }) => receipt.status !== 1))
      throw new Error('a transaction failed')
    payload.close()
    release()
    await this.#world.settle()
    await this.#world.apply({ type: 'sealed', block: payload.upstreamBlock() })
    await this.#world.settle()
    return packets.map(bytesToHex).join()
  }

  async #cut(payload: Payload, list: readonly SignedEnvelope[]): Promise<Bytes> {
    const filling = this.#filler.start(payload.execution, QUOTA)
    await filling.offer(list)
    const { executed } = await filling.finish()
    if (executed !== list.length) throw new Error(`${executed} of ${list.length} executed`)
    return encodePacket(await payload.cut(5))
  }

  async #follow(packet: Bytes): Promise<void> {
    const decoded = decodePacket(packet)
    if ('message' in decoded) await this.#world.packet(decoded.message)
  }

  async #timed<T>(share: string, work: () => Promise<T>): Promise<T> {
    const [started, cpu] = [performance.now(), process.cpuUsage()]
    const done = await work()
    const { user, system } = process.cpuUsage(cpu)
    this.samples.push([share, performance.now() - started, (user + system) / 1_000])
    return done
  }
}

async function measure(name: string): Promise<void> {
  const sides = ENGINE_NAMES.map((engine) => new Side(engine))
  let next = 0
  const signed = (): SignedEnvelope => {
    const [account, nonce] = [next % SENDERS, Math.floor(next / SENDERS)]
    const more = { value: 0n, gasLimit: 400_000n }
    const { raw } = sign({ ...drafts[name]!(next++), ...more }, { account, nonce })
    return { raw: hexToBytes(raw), from: hexToBytes(DEV_ACCOUNTS[account]!.address) }
  }
  // The first block warms up and is not counted.
  for (let block = 0; block <= Number(values.blocks); block++) {
    const lists = Array.from({ length: 5 }, () => Array.from({ length: 200 }, signed))
    const packets = new Set<string>()
    for (const side of sides) packets.add(await side.block(lists))
    if (packets.size !== 1) throw new Error(`${name}: the engines differ`)
    if (block === 0) for (const side of sides) side.samples = []
  }
  for (const share of SHARES) {
    const medians = sides.flatMap(({ samples }) =>
      ([1, 2] as const).map((of) => {
        const list = samples.filter((one) => one[0] === share).map((one) => one[of])
        return list.toSorted((a, b) => a - b)[list.length >> 1]!
      }),
    )
    const ratio = (medians[1]! / medians[3]!).toPrecision(3)
    const fields = medians.map((ms) => ms.toFixed(1))
    console.log(`| ${name}, ${share} | ${fields.join(' | ')} | ${ratio} |`)
  }
}

console.log(`${cpus().length} cores, Node ${process.version}, ${values.blocks} blocks of 5\n`)
const columns = ENGINE_NAMES.flatMap((name) => [`${name} ms`, `${name} CPU-ms`])
console.log(`| share | ${columns.join(' | ')} | ratio, CPU |\n|${'---|'.repeat(6)}`)
for (const name of Object.keys(drafts)) if (name.includes(values.only)) await measure(name)
