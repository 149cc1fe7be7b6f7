/**
 * One transaction for each reason of a refusal by a block or the txpool, on a real development
 * chain. It is refused with the reason when it is sent, or waits because it may become valid.
 * Reasons of other rules and limits are tested on a txpool with these.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { invalid, refusal } from '../../../engine/execution/transaction/invalid.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { decodeRlp, encodeRlp, type RlpItem } from '../../../engine/primitives/rlp.ts'
import {
  makeDeposit,
  makePostExec,
  signTransaction,
  type UnsignedTransaction,
} from '../../../engine/primitives/transaction-codec.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import type { TxpoolLimits } from '../../../engine/txpool/limits.ts'
import { createNode, type Hex, type LocalNode } from '../../../workers/package/create-node.ts'
import { blobTransaction } from '../../fixtures/blobs.ts'
import { fresh } from '../../fixtures/dev-node.ts'
import {
  addressOfSender,
  at,
  keyOfSender,
  type PlainHead,
  testPool,
  transfer,
} from '../../fixtures/txpool.ts'

let node: LocalNode
beforeAll(async () => {
  node = await createNode({ port: 'none', feed: 'scripted' })
  const senders = Array.from({ length: SENDERS }, (_, sender) => [
    bytesToHex(addressOfSender(sender)),
    { balance: `0x${(10n ** 20n).toString(16)}` },
  ])
  await request('dev_setState', Object.fromEntries(senders))
})
afterAll(() => node?.close())

/** Each row has its own senders. */
const SENDERS = 60
let used = 0
const nextSender = () => used++

const request = (method: string, ...params: unknown[]) => node.request<unknown>({ method, params })
const GWEI = 10n ** 9n

type Fields = Partial<Omit<UnsignedTransaction & { type: 2 }, 'type'>>
const signed = (sender: number, fields: Fields = {}) =>
  transfer(sender, 0, { chainId: BigInt(node.chainId), maxFeePerGas: GWEI, ...fields })
const plain = (fields?: Fields) => signed(nextSender(), fields).raw
const other = (fields: object): Bytes => {
  const common = { chainId: BigInt(node.chainId), nonce: 0n, to: addressOfSender(0), value: 0n }
  const rest = { gasLimit: 100_000n, input: new Uint8Array(0), accessList: [] }
  const all = { ...common, ...rest, ...fields } as unknown as UnsignedTransaction
  return signTransaction(all, keyOfSender(nextSender())).raw
}
const fees = { maxFeePerGas: GWEI, maxPriorityFeePerGas: 1n }
const blob = () =>
  other({
    ...fees,
    type: 3,
    maxFeePerBlobGas: 1n,
    blobVersionedHashes: [new Uint8Array(32).fill(1)],
  })
const deposit = (): Bytes => {
  const [from, sourceHash] = [new Uint8Array(20), new Uint8Array(32)]
  const fields = { from, to: from, sourceHash, mint: 0n, value: 0n, gasLimit: 21_000n }
  return makeDeposit({ ...fields, isSystemTransaction: true, input: new Uint8Array(0) }).raw
}
/** Makes bytes that cannot be compressed. */
function noise(size: number, seed: number): Bytes {
  let word: Bytes = Uint8Array.of(seed)
  const words: Bytes[] = []
  for (let at = 0; at < size; at += 32) {
    word = keccak256(word)
    words.push(word)
  }
  return concatBytes(...words).subarray(0, size)
}
const large = (bytes: number, seed: number, gasLimit: bigint) =>
  plain({ input: noise(bytes, seed), gasLimit })

/** Sending gives exactly this error. */
type Refused = {
  readonly send: () => Promise<Bytes> | Bytes
  readonly code: number
  readonly expected: string | RegExp
}
/** The transaction waits in the txpool, with visible effects. */
type Waits = { readonly waits: () => Promise<void> }
/** A txpool with other rules and limits gives this result. */
type OfPool = { readonly pool: () => unknown; readonly expected: string }
type Row = Refused | Waits | OfPool | 'of calls alone' | 'of fork blocks alone'

const send = (raw: Bytes) => request('eth_sendRawTransaction', bytesToHex(raw)) as Promise<Hex>
const statusOf = async (hash: Hex) =>
  ((await request('flashblocks_transactionStatus', hash)) as { status: string }).status
type Receipt = { readonly status: Hex; readonly blockNumber: Hex }
const receiptOf = (hash: Hex) =>
  request('eth_getTransactionReceipt', hash) as Promise<Receipt | null>
/** Waits for the receipt; a busy machine may not include the transaction in the first block. */
async function included(hash: Hex): Promise<Receipt> {
  for (;;) {
    const receipt = await receiptOf(hash)
    if (receipt !== null) return receipt
    await node.feed.seal()
  }
}

const INPUT = -32_000
const REJECTED = -32_003
const refused = (send: Refused['send'], expected: Refused['expected'], code = INPUT): Refused => ({
  send,
  expected,
  code,
})
const noSuchType = (send: Refused['send']) => refused(send, 'transaction type not supported')

const ofPool = (
  expected: string,
  run: (pool: ReturnType<typeof testPool>['pool'], head: PlainHead) => unknown,
  limits: Partial<TxpoolLimits> = {},
): OfPool => ({
  expected,
  pool() {
    const { pool, head } = testPool(limits)
    return run(pool, head)
  },
})
const gasCap = ofPool(
  'transaction gas limit too high (cap: 16777216, tx: 16777217)',
  (pool, head) => {
    head.rules = { ...head.rules, gas: { ...head.rules.gas, limit: 16_777_216n } }
    return pool.submit(transfer(0, 0, { gasLimit: 16_777_217n }).raw, at(head))
  },
)

const nonceTooLow = refused(async () => {
  const sender = nextSender()
  await included(await send(signed(sender).raw))
  return signed(sender, { value: 2n }).raw
}, 'nonce too low: next nonce 1, tx nonce 0')
const initCodeSize = refused(
  () => plain({ to: undefined, input: new Uint8Array(49_153), gasLimit: 3_000_000n }),
  'max initcode size exceeded: code size 49153 limit 49152',
)
const exceedsBlockGasLimit = refused(async () => {
  const { gasLimit } = (await request('eth_getBlockByNumber', 'latest', false)) as { gasLimit: Hex }
  return plain({ gasLimit: BigInt(gasLimit) - 69_999n, maxFeePerGas: GWEI })
}, 'exceeds block gas limit')
const tipAboveFee = refused(
  () => plain({ maxPriorityFeePerGas: GWEI + 1n }),
  'max priority fee per gas higher than max fee per gas',
  REJECTED,
)
const nonceMax = refused(() => plain({ nonce: 2n ** 64n - 1n }), 'nonce has max value', REJECTED)
const senderIsContract = refused(
  async () => {
    const sender = nextSender()
    const address = bytesToHex(addressOfSender(sender))
    await request('dev_setState', { [address]: { balance: '0xde0b6b3a7640000', code: '0x5f5ffd' } })
    return signed(sender).raw
  },
  'sender is not an EOA',
  REJECTED,
)
const chainId = refused(
  () => plain({ chainId: 1n }),
  /^invalid sender: invalid chain id for signer: have 1 want \d+$/,
)
const intrinsicGasTooLow = refused(
  () => plain({ gasLimit: 20_999n }),
  'intrinsic gas too low: gas 20999, minimum needed 21000',
)
/** The balance covers only gas and value, but not the additional fees of an OP chain. */
const funds = refused(
  async () => {
    const sender = nextSender()
    const balance = 21_000n * GWEI + 1n
    const address = bytesToHex(addressOfSender(sender))
    await request('dev_setState', { [address]: { balance: `0x${balance.toString(16)}` } })
    return signed(sender).raw
  },
  /^insufficient funds for gas \* price \+ value: have 21000000000001 want 2\d+$/,
  REJECTED,
)
const noAuthorization = refused(
  () => other({ ...fees, type: 4, authorizationList: [] }),
  'set code tx must have at least one authorization tuple',
)
const delegatingCreation = refused(() => {
  const fields = decodeRlp(other({ ...fees, type: 4, authorizationList: [] }).subarray(1))
  const withoutTo = (fields as readonly RlpItem[]).with(5, new Uint8Array(0))
  return concatBytes(Uint8Array.of(4), encodeRlp(withoutTo))
}, /^rlp: input string too short for common.Address, decoding into \(types.SetCodeTx\).To$/)
const daFootprintTooLarge = refused(async () => {
  await request('evm_setBlockGasLimit', 20_000_000)
  await node.feed.seal()
  await request('evm_setBlockGasLimit', 50_000_000)
  return large(120_000, 9, 6_000_000n)
}, /^DA footprint exceeds block gas limit: footprint \d+, limit 20000000$/)

const ofBlocks: Record<keyof typeof invalid, Row> = {
  nonceTooLow,
  intrinsicGasTooLow,
  chainId,
  exceedsBlockGasLimit,
  daFootprintTooLarge,
  exceedsGasCap: gasCap,
  initCodeSize,
  nonceMax,
  senderIsContract,
  tipAboveFee,
  funds,
  nonceTooHigh: {
    async waits() {
      const sender = nextSender()
      const second = await send(signed(sender, { nonce: 1n }).raw)
      await node.feed.seal()
      await node.feed.seal()
      expect(await statusOf(second)).toBe('pooled')
      const first = await send(signed(sender).raw)
      await included(first)
      await included(second)
    },
  },
  feeBelowBaseFee: {
    async waits() {
      const sender = nextSender()
      const cheap = await send(signed(sender, { maxFeePerGas: 1n }).raw)
      await node.feed.seal()
      await node.feed.seal()
      expect(await statusOf(cheap)).toBe('pooled')
      const dearer = await send(signed(sender, { maxPriorityFeePerGas: 2n }).raw)
      await included(dearer)
      expect(await statusOf(cheap)).toBe('replaced')
    },
  },
  exceedsDaFootprintLimit: {
    async waits() {
      // Each has about 20 million, so that a block of 50 million takes two of them.
      const hashes: Hex[] = []
      for (const seed of [1, 2, 3]) hashes.push(await send(large(60_000, seed, 3_000_000n)))
      const blocks: Hex[] = []
      for (const hash of hashes) blocks.push((await included(hash)).blockNumber)
      expect(new Set(blocks).size).toBeGreaterThan(1)
    },
  },
  type: noSuchType(blob),
  blobFee: noSuchType(blob),
  blobGas: noSuchType(blob),
  blobCreation: noSuchType(blob),
  noBlobHash: noSuchType(blob),
  tooManyBlobs: noSuchType(blob),
  blobVersion: noSuchType(blob),
  delegatingCreation,
  noAuthorization,
  systemTransaction: noSuchType(deposit),
  depositsOnly: 'of fork blocks alone',
  unscheduledFork: 'of fork blocks alone',
  afterPostExec: noSuchType(() => makePostExec(1n, [{ index: 1n, gasRefund: 1n }]).raw),
  postExecNotLast: 'of fork blocks alone',
  postExecNumber: 'of fork blocks alone',
  refundTarget: 'of fork blocks alone',
  refundAboveGas: 'of fork blocks alone',
  gasAllowance: 'of calls alone',
  transferFunds: 'of calls alone',
}

const ofTxpool: Record<keyof typeof refusal, Row> = {
  intrinsicGasTooLow,
  chainId,
  initCodeSize,
  noAuthorization,
  type: noSuchType(blob),
  blobFeeTooLow: noSuchType(blob),
  tooManyBlobs: noSuchType(blob),
  sidecar: noSuchType(blob),
  alreadyKnown: refused(async () => {
    const raw = plain()
    await send(raw)
    return raw
  }, 'already known'),
  undecodable: refused(() => Uint8Array.of(...plain(), 0), /rlp/),
  oversized: refused(
    () => plain({ input: new Uint8Array(131_072), gasLimit: 10_000_000n }),
    /^oversized data: transaction size \d+, limit 131072$/,
  ),
  unprotected: refused(
    () => other({ type: 0, chainId: undefined, gasPrice: GWEI }),
    'only replay-protected (EIP-155) transactions allowed over RPC',
  ),
  feeAboveCap: refused(
    () => plain({ maxFeePerGas: 10n ** 15n }),
    'tx fee (21000000000000000000 wei) exceeds the configured cap (1000000000000000000 wei)',
  ),
  floorGasTooLow: refused(
    () => plain({ input: new Uint8Array(100).fill(1), gasLimit: 24_000n }),
    'insufficient gas for floor data gas cost: gas 24000, minimum needed 25000',
  ),
  replacementUnderpriced: refused(async () => {
    const sender = nextSender()
    await send(signed(sender).raw)
    return signed(sender, { value: 2n }).raw
  }, 'replacement transaction underpriced'),
  accountLimit: refused(async () => {
    const sender = nextSender()
    const hashes = [...Array(64).keys()].map((gap) => signed(sender, { nonce: BigInt(gap + 1) }))
    for (const { raw } of hashes) await send(raw)
    return signed(sender, { nonce: 65n }).raw
  }, 'account limit exceeded: pooled 64 txs'),
  dropped: ofPool('transaction was dropped: takes too long for its gas', (pool, head) => {
    const { raw, hash } = transfer(0, 0)
    pool.submit(raw, at(head))
    pool.rejected([{ hash, reason: 'takes too long for its gas', isFinal: true }])
    return pool.submit(raw, at(head))
  }),
  tipTooLow: ofPool(
    'transaction underpriced: gas tip cap 1, minimum needed 2',
    (pool, head) => pool.submit(transfer(0, 0).raw, at(head)),
    { minimumTip: 2n },
  ),
  reserved: ofPool('address already reserved', (pool, head) => {
    const blobs = { target: 3n, max: 6n, updateFraction: 1n }
    head.rules = { ...head.rules, blobs, isOptimism: false }
    expect(pool.restore(blobTransaction(0, 0, [new Uint8Array(48)]).raw, head)).toBe(true)
    return pool.submit(transfer(0, 1).raw, at(head))
  }),
  underpriced: ofPool(
    'transaction underpriced',
    (pool, head) => {
      pool.submit(transfer(0, 0, { maxPriorityFeePerGas: 9n }).raw, at(head))
      return pool.submit(transfer(1, 0).raw, at(head))
    },
    { total: 1 },
  ),
  full: ofPool(
    'txpool is full',
    (pool, head) => {
      pool.submit(transfer(0, 0).raw, at(head))
      return pool.submit(transfer(1, 5).raw, at(head))
    },
    { total: 1 },
  ),
}

async function check(row: Row): Promise<void> {
  if (row === 'of calls alone' || row === 'of fork blocks alone') return
  if ('waits' in row) return row.waits()
  if ('pool' in row) {
    expect(row.pool()).toMatchObject({ error: { message: row.expected } })
    return
  }
  const raw = await row.send()
  const expected =
    row.expected instanceof RegExp ? expect.stringMatching(row.expected) : row.expected
  const error = { code: row.code, message: expected }
  for (const method of ['eth_sendRawTransaction', 'eth_sendRawTransactionSync'])
    await expect(request(method, bytesToHex(raw))).rejects.toMatchObject(error)
}

describe('each reason of a block', () => {
  test('has a test case', () =>
    expect(Object.keys(ofBlocks).toSorted()).toEqual(Object.keys(invalid).toSorted()))
  test.each(Object.keys(ofBlocks) as (keyof typeof ofBlocks)[])('has its effect: %s', (reason) =>
    check(ofBlocks[reason]),
  )
})
describe('each reason of the txpool', () => {
  test('has a test case', () =>
    expect(Object.keys(ofTxpool).toSorted()).toEqual(Object.keys(refusal).toSorted()))
  test.each(Object.keys(ofTxpool) as (keyof typeof ofTxpool)[])('has its effect: %s', (reason) =>
    check(ofTxpool[reason]),
  )
})

describe('a waiting transaction', () => {
  /** The sender of the waiting transaction has no balance left when the next block is made. */
  test('that becomes invalid ends the request for its receipt with the reason', async () => {
    const sender = nextSender()
    const { raw, hash } = signed(sender)
    const sent = request('eth_sendRawTransactionSync', bytesToHex(raw))
    const outcome = expect(sent).rejects.toMatchObject({
      code: REJECTED,
      message: 'transaction was dropped: sender is not an EOA',
      data: bytesToHex(hash),
    })
    const code = { balance: '0xde0b6b3a7640000', code: '0x5f5ffd' }
    await request('dev_setState', { [bytesToHex(addressOfSender(sender))]: code })
    await node.feed.seal()
    await outcome
    expect(await statusOf(bytesToHex(hash))).toBe('dropped')
  })

  test('that a developer drops ends the request for its receipt', async () => {
    const { raw, hash } = signed(nextSender(), { nonce: 1n })
    const sent = request('eth_sendRawTransactionSync', bytesToHex(raw))
    const outcome = expect(sent).rejects.toThrow('transaction was dropped: it was dropped')
    while ((await statusOf(bytesToHex(hash))) !== 'pooled') await new Promise(setImmediate)
    await request('anvil_dropTransaction', bytesToHex(hash))
    await outcome
  })

  test('of a sender with a delegation is included', async () => {
    const sender = nextSender()
    const address = bytesToHex(addressOfSender(sender))
    const code = `0xef0100${fresh().slice(2)}`
    await request('dev_setState', { [address]: { balance: '0xde0b6b3a7640000', code } })
    expect(await included(await send(signed(sender).raw))).toMatchObject({ status: '0x1' })
  })
})
