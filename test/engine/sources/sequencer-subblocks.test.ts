/**
 * The embedded chain has the form of OP's sequencers: the tests check its feed, and a start on its
 * journal.
 */
import { describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { MESSAGE_PASSER } from '../../../engine/chainspec/genesis.ts'
import { decodePacket, encodePacket } from '../../../engine/flashblocks/codec.ts'
import { decodeSideData } from '../../../engine/flashblocks/metadata.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { decodeTransaction, signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { brokenRules } from '../../fixtures/feed-rules.ts'
import { send } from '../../fixtures/producer.ts'
import { type SequencedChain, sequencedChain, testChain } from '../../fixtures/sequenced-chain.ts'

const ZEROS = `0x${'00'.repeat(32)}`
const subblocks = (options: Parameters<typeof sequencedChain>[0] = {}) =>
  sequencedChain({ form: 'subblocks', ...options })
const rulesBroken = ({ sent }: SequencedChain, from = 0n) =>
  brokenRules(
    sent.map(({ message }) => message),
    from,
  )
const jsonOf = (packet: Bytes) => JSON.parse(Buffer.from(packet).toString())

describe('a feed in subblock form', () => {
  test('has no hash, root, target or End, and keeps all other rules', async () => {
    const chain = subblocks()
    chain.offer([send(0, 0).raw, send(1, 0).raw])
    await chain.until(() => chain.blocks.length > 4)
    expect(rulesBroken(chain)).toEqual([])
    expect(chain.counts).toEqual([])
    for (const { packet } of chain.sent) {
      const { diff, target_index, metadata } = jsonOf(packet)
      const { block_hash, state_root, withdrawals_root, withdrawals } = diff
      expect([block_hash, state_root, withdrawals_root, withdrawals, target_index]).toEqual([
        ...[ZEROS, ZEROS, ZEROS, [], undefined],
      ])
      expect(Object.keys(metadata)).toEqual(['block_number', 'new_account_balances', 'receipts'])
    }
  })

  test('has the receipts of its transactions and the resulting balances', async () => {
    const chain = subblocks()
    await chain.until(() => chain.blocks.length > 1)
    chain.offer([send(0, 0).raw, send(0, 1).raw])
    await chain.until(() => chain.blocks.length > 3)
    const packets = chain.sent.filter(({ packet }) => jsonOf(packet).metadata.block_number === 2)
    const reported = packets.map(({ packet }) => {
      const decoded = decodePacket(packet)
      if (!('message' in decoded) || decoded.message.type === 'end') throw new Error('not sent')
      const side = decodeSideData(decoded.metadata!)
      if ('refuse' in side) throw new Error(side.refuse)
      return { raws: decoded.message.delta.transactions, ...side.sides }
    })
    for (const { raws, receipts } of reported)
      expect(Object.keys(receipts!)).toEqual(
        raws.map((raw) => bytesToHex(decodeTransaction(raw).hash)),
      )
    expect(Object.values(reported[0]!.receipts!)).toMatchObject([
      { type: '0x7e', status: true, depositNonce: '0x1', depositReceiptVersion: '0x1', logs: [] },
    ])
    const sent = reported.filter(({ raws }) => raws.length > 0).slice(1)
    const balances = sent.flatMap(({ newAccountBalances }) => {
      const balance = newAccountBalances![DEV_ACCOUNTS[9]!.address.toLowerCase()]
      return balance === undefined ? [] : [BigInt(balance)]
    })
    const before = chain.chain.alloc!.get(DEV_ACCOUNTS[9]!.address.toLowerCase() as `0x${string}`)!
    expect(balances.at(-1)).toBe(before.balance + 2n)
  })
})

describe('a restart in subblock form', () => {
  test('in the middle of a block sends the same flashblocks again and continues', async () => {
    const chain = subblocks()
    chain.offer([send(0, 0).raw])
    await chain.until(() => chain.sent.length === 4)
    const before = chain.sent.map(({ packet }) => packet)
    chain.sent.length = 0
    chain.restart()
    await chain.until(() => chain.blocks.length > 2)
    expect(chain.sent.slice(0, 4).map(({ packet }) => packet)).toEqual(before)
    expect([chain.counts, rulesBroken(chain)]).toEqual([[], []])
  })

  test('after a seal seals the same block, although the feed has no End', async () => {
    const chain = subblocks()
    chain.offer([send(0, 0).raw])
    await chain.until(() => chain.sealed.length > 0)
    const [first] = chain.sealed
    chain.restart()
    chain.offer([send(1, 0).raw])
    await chain.until(() => chain.blocks.length > 1)
    expect(chain.sealed[1]).toEqual(first)
    expect(chain.sent.some(({ message }) => message.type === 'end')).toBe(false)
  })

  test('in the other form states the withdrawals root that subblocks leave out', async () => {
    const code = hexToBytes('0x60015f55')
    const chain = subblocks({
      chain: testChain(new Map([[MESSAGE_PASSER, { balance: 0n, code }]])),
    })
    chain.offer([callOfPasser()])
    await chain.until(() => chain.sent.length === 3)
    chain.sent.length = 0
    chain.restart(chain.journal.packets, 'xlayer')
    await chain.until(() => chain.blocks.length > 1)
    const reported = chain.flashblocks(1n).map(({ delta }) => delta.withdrawalsRoot)
    const { withdrawalsRoot } = chain.blocks[1]!.header
    expect(withdrawalsRoot).not.toEqual(chain.chain.genesisHeader.withdrawalsRoot)
    expect(reported.at(-1)).toEqual(withdrawalsRoot)
    expect([chain.counts, rulesBroken(chain)]).toEqual([[], []])
  })

  test('restarts the block when a journalled subblock has a wrong receipts root', async () => {
    const chain = subblocks()
    await chain.until(() => chain.sent.length === 3)
    const spoilt = chain.sent.map(({ packet, message }) =>
      message.type === 'flashblock' && message.index === 1
        ? encodePacket(
            { ...message, delta: { ...message.delta, receiptsRoot: new Uint8Array(32).fill(7) } },
            'subblocks',
          )
        : packet,
    )
    chain.restart(spoilt)
    await chain.step()
    expect(chain.counts).toEqual(['journal_mismatch'])
  })
})

const callOfPasser = (): Bytes =>
  signTransaction(
    {
      type: 2,
      chainId: 196n,
      nonce: 0n,
      to: hexToBytes(MESSAGE_PASSER),
      value: 0n,
      gasLimit: 100_000n,
      input: new Uint8Array(0),
      accessList: [],
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 1n,
    },
    hexToBytes(DEV_ACCOUNTS[0]!.privateKey),
  ).raw
