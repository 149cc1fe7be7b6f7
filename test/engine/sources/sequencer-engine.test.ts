/**
 * A sequencer runs on an engine that fails repeatedly. Its chain must be that of an engine that
 * does not fail.
 */
import { expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import type { Engine } from '../../../engine/evm/engine.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { referenceEngine } from '../../fixtures/engine.ts'
import { failingEngine } from '../../fixtures/failing-engine.ts'
import { sequencedChain, testChain } from '../../fixtures/sequenced-chain.ts'

const COUNTER = '0x00000000000000000000000000000000000000aa'
/** The contract increments slot 0 and emits an empty log. */
const CODE = '0x5f54600101' + '5f555f5fa0'
const DEV = DEV_ACCOUNTS[0]!

const chain = testChain(
  new Map([
    [COUNTER, { balance: 0n, code: hexToBytes(CODE) }],
    [DEV.address, { balance: 10n ** 21n }],
  ]),
)

const count = (nonce: number): Bytes =>
  signTransaction(
    {
      type: 2,
      chainId: 196n,
      nonce: BigInt(nonce),
      to: hexToBytes(COUNTER),
      value: 0n,
      gasLimit: 100_000n,
      input: new Uint8Array(0),
      maxFeePerGas: 1_000_000_000n,
      maxPriorityFeePerGas: 1_000_000n,
      accessList: [],
    },
    hexToBytes(DEV.privateKey),
  ).raw

async function run(engine: Engine) {
  const sequenced = sequencedChain({ chain, engine })
  const all = Array.from({ length: 24 }, (_, nonce) => count(nonce))
  for (const nonce of all.keys()) {
    sequenced.offer(all.slice(0, nonce + 1))
    const { length } = sequenced.sent
    await sequenced.until(() => sequenced.sent.length > length)
  }
  const { length } = sequenced.blocks
  await sequenced.until(() => sequenced.blocks.length > length)
  sequenced.close()
  const { blocks, sent, rejected } = sequenced
  return {
    blocks: blocks.slice(0, length + 1).map(({ hash }) => bytesToHex(hash)),
    packets: sent.map(({ packet }) => bytesToHex(packet)),
    rejected: rejected.map(({ reason }) => reason),
    included: blocks.flatMap(({ transactions }) => transactions.filter((raw) => raw[0] === 2)),
  }
}

test.each([7, 40, 101])('the chain is unaffected when each %i. host call fails', async (every) => {
  const failing = failingEngine()
  failing.failEvery(every)
  const found = await run(failing.engine)
  expect(found).toEqual(await run(referenceEngine))
  expect(found.included.length).toBeGreaterThan(10)
  expect(failing.reported.length).toBeGreaterThan(0)
})

test('the chain is unaffected when the engine fails to give a diff', async () => {
  const failing = failingEngine()
  failing.failIn('diff')
  expect(await run(failing.engine)).toEqual(await run(referenceEngine))
  expect(failing.reported).toHaveLength(1)
})
