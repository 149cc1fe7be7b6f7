/**
 * Recorded responses of OP Mainnet nodes are compared with our own JSON-RPC over the same blocks
 * and trie nodes.
 */
import { describe, expect, test } from 'vitest'
import { decodeL1Attributes } from '../../../engine/chainspec/l1-attributes.ts'
import { l1FeeParameters } from '../../../engine/chainspec/l1-fee.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { bloomOf } from '../../../engine/primitives/receipt-codec.ts'
import { decodeTransaction } from '../../../engine/primitives/transaction-codec.ts'
import {
  conformance,
  headerOfJson,
  isAbsent,
  type JsonBlock,
  type RecordedResponse,
  readBlocks,
  readResponses,
} from '../../fixtures/blocks.ts'
import { execute, log } from '../../fixtures/executed.ts'
import { type MemoryBlock, memoryChain } from '../../fixtures/memory-chain.ts'
import { memoryReader } from '../../fixtures/memory-reader.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { openWitness } from '../../fixtures/witness.ts'

type Json = Readonly<Record<string, unknown>>
const BLOCKS = 'op-blocks/op-mainnet-blocks.json.gz'
const RESPONSES = 'op-blocks/op-mainnet-rpc-answers.json.gz'
const WRONG = '0x0000F90827F1C53a10cb7A02335B175320002935'
const chain = chainSpec({ name: 'op-mainnet' })

/**
 * Makes a block with invented receipts; only the nonces of deposits are real, because their
 * transactions show them.
 */
function blockOf(json: JsonBlock): MemoryBlock {
  const transactions = json.rawTransactions.map((raw) => decodeTransaction(hexToBytes(raw)))
  const receipts = execute(transactions).map(({ transaction, receipt }, at) =>
    transaction.type === 0x7e
      ? { ...receipt, depositNonce: BigInt(json.transactions[at]!.nonce) }
      : receipt,
  )
  return {
    header: headerOfJson(json as unknown as Json),
    hash: hexToBytes(json.hash),
    parent: undefined,
    transactions,
    receipts,
    state: memoryReader(),
    index: undefined,
    id: 1,
    payloadId: '0x0000000000000001',
    before: [],
  }
}

function rpcOver(block: MemoryBlock) {
  const memory = memoryChain()
  memory.publish({ canonical: block })
  return testRpc({ memory, chain, limits: { responseBytes: 50_000_000 } })
}
async function resultOf(
  rpc: ReturnType<typeof testRpc>,
  method: string,
  params: readonly unknown[],
) {
  const reply = await rpc.request(method, params, { endpoint: 'standard' })
  expect(rpc.bugs).toEqual([])
  expect(reply.error).toBeUndefined()
  return reply.result
}

describe.skipIf(isAbsent(BLOCKS))(`blocks of ${conformance(BLOCKS)}`, () => {
  const blocks = isAbsent(BLOCKS) ? [] : readBlocks(BLOCKS)

  test.each(blocks.map((block) => [Number(block.number), block] as const))(
    'block %i equals the recorded one, with full transactions and with hashes',
    async (_number, { rawTransactions, ...recorded }) => {
      const rpc = rpcOver(blockOf({ ...recorded, rawTransactions }))
      // Older nodes did not give this field.
      const blockTimestamp = recorded.timestamp
      const transactions = recorded.transactions.map((one) => ({ blockTimestamp, ...one }))
      expect(await resultOf(rpc, 'eth_getBlockByNumber', [recorded.number, true])).toEqual({
        ...recorded,
        transactions,
      })
      expect(await resultOf(rpc, 'eth_getBlockByHash', [recorded.hash, false])).toEqual({
        ...recorded,
        transactions: transactions.map(({ hash }) => hash),
      })
      for (const [at, one] of transactions.entries()) {
        expect(await resultOf(rpc, 'eth_getTransactionByHash', [one.hash])).toEqual(one)
        expect(await resultOf(rpc, 'eth_getRawTransactionByHash', [one.hash])).toBe(
          rawTransactions[at],
        )
      }
    },
  )
})

describe.skipIf(isAbsent(RESPONSES))(`responses of ${conformance(RESPONSES)}`, () => {
  const responses = isAbsent(RESPONSES) ? [] : readResponses(RESPONSES)
  const blocks = isAbsent(BLOCKS) ? [] : readBlocks(BLOCKS)
  const of = (method: string) => responses.filter((one) => one.method === method)
  const blockAt = (number: unknown) => blocks.find((one) => one.number === number)!
  // The file has the proof of 0x000f3df6… in place of this account's.
  const proofs = of('eth_getProof').filter(({ params }) => params[0] !== WRONG)
  const proven = new Map(
    proofs.map(({ params, result }) => [params[0], result as Json & { accountProof: string[] }]),
  )

  /** Makes a state from the recorded proofs and codes. */
  function rpcOverState() {
    const json = blockAt('0x87917ef')
    const block = blockOf(json)
    const nodes = proofs.flatMap(
      ({ result }) => (result as { accountProof: string[] }).accountProof,
    )
    const codes = of('eth_getCode').map(({ result }) => result as string)
    const { reader, trie } = openWitness({
      stateRoot: block.header.stateRoot,
      preimages: [...nodes, ...codes].map(hexToBytes),
      parent: { number: block.header.number - 1n, hash: block.header.parentHash },
    })
    const version = trie.base()
    const prove = (address: Uint8Array, keys: readonly Uint8Array[]) =>
      trie.prove(version, address, keys)
    return rpcOver({ ...block, state: reader, prove })
  }

  test('equal those of eth_getProof', async () => {
    const rpc = rpcOverState()
    expect(proofs).toHaveLength(15)
    for (const { method, params, result } of proofs)
      expect(await resultOf(rpc, method, params)).toEqual(result)
  })
  test('equal those of eth_getCode, eth_getBalance and eth_getTransactionCount', async () => {
    const rpc = rpcOverState()
    const codes = of('eth_getCode').filter(({ params }) => proven.has(params[0]))
    expect(codes).toHaveLength(9)
    for (const { method, params, result } of codes)
      expect(await resultOf(rpc, method, params)).toBe(result)
    for (const [who, { balance, nonce }] of proven) {
      const params = [who, '0x87917ef']
      expect(await resultOf(rpc, 'eth_getBalance', params)).toBe(balance)
      expect(await resultOf(rpc, 'eth_getTransactionCount', params)).toBe(nonce)
    }
  })
  test('equal those of eth_getStorageAt for an account without storage', async () => {
    const rpc = rpcOverState()
    const [{ params, result }] = of('eth_getStorageAt') as [RecordedResponse]
    expect(await resultOf(rpc, 'eth_getStorageAt', params)).toBe(result)
  })
  test('for the storage of L1Block agree with the first transaction of the block', () => {
    const json = blockAt('0x87917ef')
    const slots = new Map(
      of('eth_getStorageAt')
        .filter(({ params }) => params[0] === '0x4200000000000000000000000000000000000015')
        .map(({ params, result }) => [BigInt(params[1] as string), result as string]),
    )
    const rules = chain.rulesAt(BigInt(json.number), BigInt(json.timestamp))
    const stored = l1FeeParameters(rules, (slot) =>
      hexToBytes(slots.get(BigInt(slot)) ?? `0x${'00'.repeat(32)}`),
    )
    const { attributes } = decodeL1Attributes(hexToBytes(json.transactions[0]!.input))!
    const { baseFee, blobBaseFee, baseFeeScalar, blobBaseFeeScalar } = stored
    expect(baseFee).toBeGreaterThan(0n)
    expect(attributes).toMatchObject({ baseFee, blobBaseFee, baseFeeScalar, blobBaseFeeScalar })
  })
  test('equal those of eth_getLogs', async () => {
    const [{ params, result }] = of('eth_getLogs') as [RecordedResponse]
    const [recorded] = result as [Json & { topics: string[] }]
    const block = blockOf(blockAt(params[0]))
    const [logIndex, transactionIndex] = [recorded['logIndex'], recorded['transactionIndex']].map(
      Number,
    ) as [number, number]
    const own = {
      address: hexToBytes(recorded['address'] as string),
      topics: recorded.topics.map(hexToBytes),
      data: hexToBytes(recorded['data'] as string),
    }
    // Any logs may come before this one.
    const before = Array.from({ length: logIndex }, () => log())
    const receipts = block.receipts.map((receipt, at) => {
      const logs = at === 0 ? before : at === transactionIndex ? [own] : []
      return { ...receipt, logs, logsBloom: bloomOf(logs) }
    })
    const [fromBlock, toBlock] = params
    const query = { fromBlock, toBlock, address: recorded['address'] }
    expect(await resultOf(rpcOver({ ...block, receipts }), 'eth_getLogs', [query])).toEqual(result)
  })
  test('equal those of eth_chainId', async () => {
    const [{ params, result }] = of('eth_chainId') as [RecordedResponse]
    const rpc = rpcOver(blockOf(blocks[0]!))
    expect(await resultOf(rpc, 'eth_chainId', params)).toBe(result)
  })
})
