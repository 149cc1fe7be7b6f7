/** The node has the keys of these accounts, over a chain of the writer. */
import { describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { recoverAddress } from '../../../engine/primitives/signature.ts'
import { decodeTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { bytesToBigint } from '../../../engine/primitives/words.ts'
import { other, owner, PROBE_ADDRESS, probeChain } from '../../fixtures/probe-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'

const OTHER_KEY = `0x${'00'.repeat(32)}`
type Json = Readonly<Record<string, unknown>>
const { source } = await probeChain()
const rpc = testRpc({ source })

const result = async (method: string, ...params: unknown[]) => {
  const reply = await rpc.request(method, params)
  if (reply.error !== undefined) throw new Error(JSON.stringify(reply.error))
  expect(rpc.bugs).toEqual([])
  return reply.result
}
const failure = async (method: string, ...params: unknown[]) =>
  (await rpc.request(method, params)).error
describe('the accounts of the node', () => {
  const tx = { from: owner.address, to: other.address, value: '0x1' }
  test('are listed and sign messages', async () => {
    expect(await result('eth_accounts')).toEqual(DEV_ACCOUNTS.map(({ address }) => address))
    const signature = hexToBytes((await result('eth_sign', owner.address, '0x1234')) as string)
    const digest = keccak256(
      Buffer.concat([Buffer.from('\x19Ethereum Signed Message:\n2'), Buffer.from('1234', 'hex')]),
    )
    const [r, s] = [signature.subarray(0, 32), signature.subarray(32, 64)].map(bytesToBigint) as [
      bigint,
      bigint,
    ]
    const parity = signature[64] === 27 ? 0 : 1
    expect(bytesToHex(recoverAddress(digest, r, s, parity)!)).toBe(owner.address)
  })
  test('sign long messages, which the pool decodes and hashes like long web3_sha3', async () => {
    const own = testRpc({ source })
    const sign = async (bytes: number) => {
      const message = `0x${'12'.repeat(bytes)}`
      const { result } = await own.request('eth_sign', [owner.address, message])
      const signature = hexToBytes(result as string)
      const prefix = Buffer.from(`\x19Ethereum Signed Message:\n${bytes}`)
      const digest = keccak256(Buffer.concat([prefix, hexToBytes(message)]))
      const [r, s] = [
        bytesToBigint(signature.subarray(0, 32)),
        bytesToBigint(signature.subarray(32, 64)),
      ]
      return bytesToHex(recoverAddress(digest, r, s, signature[64] === 27 ? 0 : 1)!)
    }
    expect(await sign(30_000)).toBe(owner.address)
    expect(own.poolCalls).toEqual([])
    expect(await sign(70_000)).toBe(owner.address)
    const data = `0x${'34'.repeat(40_000)}`
    const hashed = await own.request('web3_sha3', [data])
    expect(hashed.result).toBe(bytesToHex(keccak256(hexToBytes(data))))
    expect((await own.request('web3_sha3', ['0x12'])).error).toBeUndefined()
    expect((await own.request('web3_sha3', [`${data}x`])).error?.code).toBe(-32602)
    expect(own.poolCalls.map(({ method }) => method.name)).toEqual([
      'digestMessage',
      'web3_sha3',
      'web3_sha3',
    ])
    const wrong = await own.request('eth_sign', [owner.address, `${data}x`])
    expect(wrong.error).toMatchObject({
      code: -32602,
      message: expect.stringContaining('invalid argument 1: '),
    })
    const stranger = `0x${'99'.repeat(20)}`
    expect((await own.request('eth_sign', [stranger, data])).error?.message).toBe('unknown account')
  })
  test('send transactions with nonce, gas and fees filled in, each nonce once', async () => {
    const own = testRpc({ source })
    const replies = await Promise.all([0, 1, 2].map(() => own.request('eth_sendTransaction', [tx])))
    expect(replies.map(({ result }) => result)).toEqual(
      own.pool.transactions.map(({ hash }) => bytesToHex(hash)),
    )
    expect(own.pool.transactions.map(({ nonce }) => nonce)).toEqual([4n, 5n, 6n])
    expect(own.pool.transactions[0]).toMatchObject({
      type: 2,
      gasLimit: 21_000n,
      maxPriorityFeePerGas: 1_000_000n,
      chainId: 196n,
    })
    expect(bytesToHex(own.pool.transactions[0]!.from)).toBe(owner.address)
  })
  test('send transactions with the given fields', async () => {
    const own = testRpc({ source })
    await own.request('eth_sendTransaction', [
      { ...tx, gasPrice: '0x77359400', nonce: '0x9', gas: '0x7530', data: '0x01' },
    ])
    expect(own.pool.transactions[0]).toMatchObject({
      type: 0,
      gasPrice: 2_000_000_000n,
      nonce: 9n,
      gasLimit: 30_000n,
    })
    expect(own.poolCalls).toEqual([])
  })
  test('sign transactions without sending them', async () => {
    const fees = { maxFeePerGas: '0x77359400', maxPriorityFeePerGas: '0x1' }
    const answer = (await result('eth_signTransaction', {
      ...tx,
      ...fees,
      gas: '0x5208',
      nonce: '0x0',
    })) as { raw: string; tx: Json }
    const decoded = decodeTransaction(hexToBytes(answer.raw))
    expect(bytesToHex(decoded.from)).toBe(owner.address)
    expect(answer.tx).toMatchObject({ hash: bytesToHex(decoded.hash), blockHash: null })
  })
  test('fill a transaction that another account signs', async () => {
    const from = other.address
    const answer = (await result('eth_fillTransaction', { ...tx, from, nonce: undefined })) as {
      raw: string
      tx: Json
    }
    expect(answer.tx).toMatchObject({
      type: '0x2',
      from,
      gas: '0x5208',
      chainId: '0xc4',
      blockHash: null,
      nonce: '0x1',
      r: '0x0',
      s: '0x0',
      yParity: '0x0',
      maxPriorityFeePerGas: '0xf4240',
    })
    expect(answer.raw).toMatch(/^0x02.*c0808080$/)
  })
  const refused: [method: string, params: unknown[], message: string][] = [
    ['eth_sign', [`0x${'11'.repeat(20)}`, '0x1234'], 'unknown account'],
    ['eth_sendTransaction', [{ ...tx, from: `0x${'11'.repeat(20)}` }], 'unknown account'],
    ['eth_sendTransaction', [{ to: other.address }], 'unknown account'],
    [
      'eth_sendTransaction',
      [{ from: owner.address }],
      'contract creation without any data provided',
    ],
    [
      'eth_sendTransaction',
      [{ ...tx, data: '0x01', input: '0x02' }],
      'both "data" and "input" are set and not equal. Please use "input" to pass transaction call data',
    ],
    [
      'eth_sendTransaction',
      [{ ...tx, maxFeePerGas: '0x1', maxPriorityFeePerGas: '0x2' }],
      'maxFeePerGas (0x1) < maxPriorityFeePerGas (0x2)',
    ],
    ['eth_signTransaction', [tx], 'gas not specified'],
  ]
  test.each(refused)('refuse %s %j', async (method, params, message) => {
    expect(await failure(method, ...params)).toEqual({ code: -32000, message })
  })
  const LONG = `0x${'12'.repeat(131_073)}`
  const long: [name: string, method: string, fields: Json][] = [
    ['sent', 'eth_sendTransaction', { data: LONG }],
    ['signed', 'eth_signTransaction', { data: LONG, gas: '0x1', gasPrice: '0x1', nonce: '0x1' }],
    ['completed', 'eth_fillTransaction', { input: LONG }],
    [
      'sent with a long access list',
      'eth_sendTransaction',
      { accessList: [{ address: other.address, storageKeys: Array(4_096).fill(OTHER_KEY) }] },
    ],
  ]
  test.each(long)(
    'refuse oversized transactions before they are %s',
    async (_name, method, fields) => {
      const own = testRpc({ source })
      const { error } = await own.request(method, [{ ...tx, ...fields }])
      expect(error?.code).toBe(-32000)
      expect(error?.message).toMatch(/^oversized data: transaction size 1310(73|92), limit 131072$/)
      // Even the gas of the transaction is not estimated.
      expect(own.poolCalls).toEqual([])
    },
  )
  test('do not send a transaction that reverts', async () => {
    const own = testRpc({ source })
    const reverting = await own.request('eth_sendTransaction', [
      { from: owner.address, to: PROBE_ADDRESS, data: '0xff' },
    ])
    expect(reverting.error).toMatchObject({ code: 3, data: '0xff' })
    expect(own.pool.transactions).toEqual([])
  })
})
