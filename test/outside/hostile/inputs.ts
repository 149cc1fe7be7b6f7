/**
 * These requests cost a front as much as possible: as long, as deep, as many as its limits allow,
 * and a little more.
 */

import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { KEYS } from '../../kit/node.ts'

export type Input = {
  readonly name: string
  readonly body: string
  /** The number of WebSockets used at once, and of messages on each; undefined: over HTTP. */
  readonly over?: { readonly sockets: number; readonly times: number } | undefined
}
/** The inputs name these blocks and transactions. */
export type Subject = {
  readonly block: string
  readonly transaction: string
  readonly chainId: number
}

/** The default of `--limit-body-bytes`. */
const BODY_BYTES = 2_000_000
const CAPACITY = 200

const request = (method: string, params: unknown, id = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
})
const text = (method: string, params: unknown) => JSON.stringify(request(method, params))
/** Makes a transaction of chain 196 with a plausible signature, whose sender has no balance. */
const someTransaction = (at: number): string => {
  const to = at.toString(16).padStart(40, '0')
  return `0x02f86c81c480843b9aca00843b9aca008398968094${to}8080c001a0${'7a'.repeat(32)}a0${'1b'.repeat(32)}`
}

const batch = (count: number, one: (at: number) => { method: string; params: unknown }) =>
  JSON.stringify(
    Array.from({ length: count }, (_, at) => {
      const { method, params } = one(at)
      return request(method, params, at)
    }),
  )
const address = (at: number) => `0x${at.toString(16).padStart(40, '0')}`
const word = (at: number) => `0x${at.toString(16).padStart(64, '0')}`
const many = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))
/** Makes parameters that fill a body with one repeated piece. */
const filled = (piece: string, method = 'eth_chainId') => {
  const count = Math.floor((BODY_BYTES - CAPACITY) / (piece.length + 1))
  return `{"jsonrpc":"2.0","id":1,"method":"${method}","params":[${Array(count).fill(piece).join(',')}]}`
}
/** The development node has the key of this account. */
const OWN = privateKeyToAccount(KEYS[0]).address
const hexOf = (bytes: number) => `0x${'ab'.repeat(bytes)}`
const MAX_BYTES = Math.floor((BODY_BYTES - CAPACITY) / 2)

export async function hostileInputs({
  block,
  transaction,
  chainId,
}: Subject): Promise<readonly Input[]> {
  const account = privateKeyToAccount(KEYS[3])
  const signed = {
    chainId,
    nonce: 0,
    to: account.address,
    gas: 10_000_000n,
    maxFeePerGas: 10n ** 9n,
    maxPriorityFeePerGas: 0n,
  }
  const lists = await account.signTransaction({
    ...signed,
    type: 'eip1559',
    accessList: many(2_200, (at) => ({
      address: address(at) as Hex,
      storageKeys: [word(at) as Hex],
    })),
  })
  const authorizations = await account.signTransaction({
    ...signed,
    type: 'eip7702',
    authorizationList: many(1_200, (at) => ({
      address: address(at) as Hex,
      chainId,
      nonce: at,
      r: word(7) as Hex,
      s: word(9) as Hex,
      yParity: 0,
    })),
  })
  const call = { to: address(4), data: hexOf(60_000) }
  const filter = {
    fromBlock: '0x0',
    toBlock: 'latest',
    address: many(1_000, address),
    topics: many(4, () => many(1_000, word)),
  }
  /** A loop of cheap opcodes uses up the gas; the response is cached with its block. */
  const log = text('debug_traceCall', [
    { to: address(0xc0de), gas: `0x${(800_000).toString(16)}` },
    block,
    { stateOverrides: { [address(0xc0de)]: { code: '0x5b5f5f5f5050505f56' } } },
  ])
  const inputs: readonly (readonly [name: string, body: string, over?: Input['over']])[] = [
    ['hex of 2 MB', text('web3_sha3', [hexOf(MAX_BYTES)])],
    ['hex of 2 MB with a wrong digit at its end', text('web3_sha3', [`${hexOf(MAX_BYTES - 1)}xy`])],
    ['a string of 2 MB of escapes', filled(`"${'\\u0041'.repeat(1_000)}"`)],
    ['one string of escapes', `{"jsonrpc":"2.0","id":1,"method":"${'\\u0041'.repeat(330_000)}"}`],
    ['an id of 1 MB', `{"jsonrpc":"2.0","id":"${'i'.repeat(1_000_000)}","method":"eth_chainId"}`],
    ['a method of 1 MB', text('m'.repeat(1_000_000), [])],
    ['2 MB of empty lists', filled('[]')],
    ['2 MB of empty objects', filled('{}')],
    ['2 MB of numbers', filled('1')],
    ['2 MB of long numbers', filled('1.2345678901234567890123456789e-300')],
    ['2 MB of short strings', filled('"a"')],
    ['2 MB of lists 60 deep', filled('['.repeat(60) + ']'.repeat(60))],
    [
      '2 MB of objects of 64 keys',
      filled(JSON.stringify(Object.fromEntries(many(64, (at) => [`k${at}`, at])))),
    ],
    ['2 MB of one list inside the other', `${'['.repeat(1_000_000)}${']'.repeat(999_999)}`],
    ['2 MB of open lists', '['.repeat(BODY_BYTES - CAPACITY)],
    // These inputs were found by npm run cost.
    ['2 MB of brackets that close nothing, and colons', ']:'.repeat(BODY_BYTES / 2 - CAPACITY)],
    ['2 MB of braces opened below the outermost', ']]{1,'.repeat(BODY_BYTES / 5 - CAPACITY)],
    [
      '2 MB of escaped quotes as an id',
      `{"jsonrpc":"2.0","id":"${'\\"'.repeat(990_000)}","method":"eth_chainId"}`,
    ],
    ['740 items that are no calls', `[${Array(740).fill('[[]]').join(',')}]`],
    ['2 MB of space', ' '.repeat(BODY_BYTES - CAPACITY)],
    ['3 MB', text('web3_sha3', [hexOf(1_500_000)])],
    ['100 calls of 19 KB', batch(100, () => ({ method: 'web3_sha3', params: [hexOf(9_400)] }))],
    [
      '100 sends that would wait',
      batch(100, (at) => ({
        method: 'eth_sendRawTransactionSync',
        params: [someTransaction(at), '0x5208'],
      })),
    ],
    [
      '100 unknown methods of 19 KB',
      batch(100, () => ({ method: 'm'.repeat(18_000), params: [] })),
    ],
    ['100 descriptions of the node', batch(100, () => ({ method: 'rpc.discover', params: [] }))],
    [
      '100 transactions for the node to sign and send',
      batch(100, () => ({
        method: 'eth_sendTransaction',
        params: [{ from: OWN, to: OWN, gas: '0x0', maxFeePerGas: '0x0' }],
      })),
    ],
    ['1,000 calls', batch(1_000, () => ({ method: 'eth_chainId', params: [] }))],
    ['30,000 calls', batch(30_000, () => ({ method: 'a', params: [] }))],
    [
      '100 full blocks',
      batch(100, () => ({ method: 'eth_getBlockByNumber', params: [block, true] })),
    ],
    [
      '100 times all receipts',
      batch(100, () => ({ method: 'eth_getBlockReceipts', params: [block] })),
    ],
    [
      '100 raw blocks',
      batch(100, (at) => ({
        method: 'eth_getRawTransactionByBlockNumberAndIndex',
        params: [block, `0x${at.toString(16)}`],
      })),
    ],
    [
      '100 traces',
      batch(100, () => ({ method: 'debug_traceTransaction', params: [transaction, {}] })),
    ],
    ['a struct log of 22 MB', log],
    ['the same over a WebSocket', log, { sockets: 1, times: 1 }],
    ['twice over each of 2 WebSockets', log, { sockets: 2, times: 2 }],
    [
      'eth_feeHistory of all blocks',
      text('eth_feeHistory', ['0x400', 'latest', many(100, (at) => at)]),
    ],
    [
      '100 times eth_feeHistory',
      batch(100, (at) => ({
        method: 'eth_feeHistory',
        params: ['0x400', 'latest', many(100, (of) => of + at / 1_000)],
      })),
    ],
    ['a wide log query', text('eth_getLogs', [filter])],
    ['a wide log filter', text('eth_newFilter', [filter])],
    [
      'a log query of too many addresses',
      text('eth_getLogs', [{ address: many(40_000, address) }]),
    ],
    [
      'a state override of 10,000 slots',
      text('eth_call', [
        call,
        'latest',
        {
          [address(5)]: {
            stateDiff: Object.fromEntries(many(10_000, (at) => [word(at), word(at)])),
          },
        },
      ]),
    ],
    [
      'a state override of 10,000 accounts',
      text('eth_call', [
        call,
        'latest',
        Object.fromEntries(many(10_000, (at) => [address(at), { balance: '0x1' }])),
      ]),
    ],
    [
      'a state override of too many slots',
      text('eth_call', [
        call,
        'latest',
        {
          [address(5)]: {
            stateDiff: Object.fromEntries(many(14_000, (at) => [word(at), word(at)])),
          },
        },
      ]),
    ],
    [
      'a call with 1 MB of data',
      text('eth_call', [{ to: address(4), data: hexOf(MAX_BYTES - 100) }, 'latest']),
    ],
    [
      'a call that creates from 1 MB of code',
      text('eth_call', [{ data: hexOf(MAX_BYTES - 100) }, 'latest']),
    ],
    [
      'an estimate with an access list of 10,000',
      text('eth_estimateGas', [
        {
          to: address(4),
          accessList: many(10_000, (at) => ({ address: address(at), storageKeys: [word(at)] })),
        },
      ]),
    ],
    [
      'eth_simulateV1 of 1,000 calls',
      text('eth_simulateV1', [
        { blockStateCalls: [{ calls: many(1_000, (at) => ({ to: address(at) })) }] },
        'latest',
      ]),
    ],
    ['1,024 slots', text('eth_getStorageValues', [{ [address(5)]: many(1_024, word) }, 'latest'])],
    ['a proof of 1,024 slots', text('eth_getProof', [address(5), many(1_024, word), 'latest'])],
    [
      'a raw transaction of 128 KB of nothing',
      text('eth_sendRawTransaction', [`0x02${'00'.repeat(131_000)}`]),
    ],
    [
      'a raw transaction of lists',
      text('eth_sendRawTransaction', [`0x02fa01ffff${'c0'.repeat(131_000)}`]),
    ],
    [
      'a raw transaction of 1 MB',
      text('eth_sendRawTransaction', [`0x02${'00'.repeat(MAX_BYTES - 10)}`]),
    ],
    ['a transaction with a long access list', text('eth_sendRawTransaction', [lists])],
    ['a transaction with 1,200 authorizations', text('eth_sendRawTransaction', [authorizations])],
    [
      '100 invalid transactions',
      batch(100, () => ({
        method: 'eth_sendRawTransaction',
        params: [`0x02${'c0'.repeat(9_000)}`],
      })),
    ],
    ['a signature over 1 MB', text('eth_sign', [account.address, hexOf(MAX_BYTES - 100)])],
    [
      'a tracer of 1 MB',
      text('debug_traceCall', [{ to: address(4) }, 'latest', { tracer: 't'.repeat(1_900_000) }]),
    ],
  ]
  return inputs.map(([name, body, over]) => ({ name, body, over }))
}
